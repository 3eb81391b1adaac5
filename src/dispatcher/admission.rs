//! Who is let in: networks, rates and limits of connections, and how many may be told that they are not.

use std::net::IpAddr;
use std::sync::Arc;

use super::rates::{Meter, Rates};
use super::sources::{Slots, Source};
use crate::events::Denial;
use crate::ledger::Ledger;
use crate::load::LoadCell;
use crate::metrics::Tally;
use crate::networks::AddressSet;
use crate::session::Refusal;
use crate::sources::{SourceCounts, SourceSlot};
use crate::time::Time;

/// Clients that may be in the middle of being told that a limit is reached. Telling them takes a handshake each;
/// beyond this they are closed without a word.
pub const REFUSALS_MAX: u64 = 64;

/// Slots for sources, for each connection that there may be: as many as make sure that one is free.
const SLOTS_PER_CONNECTION: usize = 2;

/// Whom a listener lets in.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Who may connect at all.
    pub allowed: AddressSet,
    /// How fast clients may come; those that come on top are closed without a word, since telling them takes the
    /// handshake that the rate is there to save.
    pub handshake_rates: Rates,
    /// How fast clients may come; those that come on top are told.
    pub connection_rates: Rates,
    /// Open connections of one source beyond which its clients are refused, `None`: however many.
    pub connections_per_source_max: Option<u32>,
    /// Open connections beyond which clients are refused.
    pub connections_max: u64,
}

/// Counts for the sources of all listeners, as many as so many connections may need.
#[must_use]
pub fn source_counts(connections_max: u64) -> SourceCounts {
    let connections = usize::try_from(connections_max).expect("so many connections have descriptors");
    SourceCounts::new(SLOTS_PER_CONNECTION * connections.max(1))
}

/// What becomes of an accepted client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is served; its source is counted where there is a slot.
    Admit(Option<SourceSlot>),
    /// It is told why it is not served.
    Refuse(Denial, Refusal),
    /// It is closed without a word.
    Close(Denial),
}

/// A listener's limits, and what has come to it lately.
#[derive(Debug)]
struct Gate {
    ledger: Arc<Ledger>,
    limits: Limits,
    /// What has been handed to shards since the start, without refusals.
    handed: u64,
    handshakes: Meter,
    connections: Meter,
}

impl Gate {
    fn new(ledger: Arc<Ledger>, limits: Limits) -> Self {
        let (handshakes, connections) = (Meter::new(limits.handshake_rates), Meter::new(limits.connection_rates));
        Self { ledger, limits, handed: 0, handshakes, connections }
    }

    /// The same with other limits; rates that are the same go on from where they are.
    fn with(mut self, limits: Limits) -> Self {
        if self.limits.handshake_rates != limits.handshake_rates {
            self.handshakes = Meter::new(limits.handshake_rates);
        }
        if self.limits.connection_rates != limits.connection_rates {
            self.connections = Meter::new(limits.connection_rates);
        }
        Self { limits, ..self }
    }

    /// Open connections. What ends meanwhile may still be counted, never the reverse.
    fn open(&self) -> u64 {
        self.handed.saturating_sub(self.ledger.admitted_ended())
    }
}

/// The limits and what they are compared with. Every judgement takes as many steps as there are shards, and no more for
/// more listeners, connections or sources.
#[derive(Debug)]
pub(super) struct Admission {
    connections_max: u64,
    gates: Vec<Gate>,
    /// What has been handed to shards since the start, of all listeners that there have been, without refusals.
    admitted: u64,
    /// Those that have been handed over to be told why they are not served.
    refusals: u64,
    cells: Vec<Arc<LoadCell>>,
    /// None as long as no listener has limited its sources.
    slots: Option<Slots<(u32, Source)>>,
    counts: SourceCounts,
}

impl Admission {
    /// `counts` are those of [`source_counts`].
    pub(super) fn new(
        connections_max: u64,
        listeners: Vec<(Arc<Ledger>, Limits)>,
        cells: Vec<Arc<LoadCell>>,
        counts: SourceCounts,
    ) -> Self {
        let (gates, admitted, refusals) = (Vec::new(), 0, 0);
        let mut admission = Self { connections_max, gates, admitted, refusals, cells, slots: None, counts };
        admission.renew(connections_max, listeners);
        admission
    }

    /// Judges by other limits from now on. What has come to a listener that stays counts on.
    pub(super) fn renew(&mut self, connections_max: u64, listeners: Vec<(Arc<Ledger>, Limits)>) {
        self.connections_max = connections_max;
        let mut before = std::mem::take(&mut self.gates);
        let gates = listeners.into_iter().map(|(ledger, limits)| {
            let known = before.iter().position(|gate| gate.ledger == ledger).map(|index| before.swap_remove(index));
            match known {
                Some(gate) => gate.with(limits),
                None => Gate::new(ledger, limits),
            }
        });
        self.gates = gates.collect();
        if self.slots.is_none() && self.gates.iter().any(|gate| gate.limits.connections_per_source_max.is_some()) {
            self.slots = Some(Slots::new(self.counts.slots()));
        }
    }

    /// Whether it matters where clients of the listener come from.
    pub(super) fn wants_address(&self, listener: u16) -> bool {
        let Gate { limits, handshakes, connections, .. } = &self.gates[usize::from(listener)];
        let counts = limits.connections_per_source_max.is_some();
        counts || !limits.allowed.is_everything() || handshakes.wants_source() || connections.wants_source()
    }

    /// Judges a client of `listener` and counts it unless it is closed. Without its address it is in no network.
    pub(super) fn admit(&mut self, listener: u16, address: Option<IpAddr>, now: Time) -> Verdict {
        let gate = &mut self.gates[usize::from(listener)];
        let source = address.map(Source::of);
        if !gate.limits.allowed.is_everything() && !address.is_some_and(|address| gate.limits.allowed.contains(address))
        {
            return Verdict::Close(Denial::Network);
        }
        if !gate.handshakes.admit(source, now) {
            return Verdict::Close(Denial::HandshakeRate);
        }
        if !gate.connections.admit(source, now) {
            return self.refuse(Denial::ConnectionRate, Refusal::TooFast);
        }
        let Ok(slot) = self.source_with_room(listener, source) else {
            return self.refuse(Denial::SourceConnections, Refusal::TooManyPerSource);
        };
        let gate = &self.gates[usize::from(listener)];
        if self.open_in_all() >= self.connections_max || gate.open() >= gate.limits.connections_max {
            return self.refuse(Denial::Connections, Refusal::TooManyConnections);
        }
        self.gates[usize::from(listener)].handed += 1;
        self.admitted += 1;
        if let Some(slot) = slot {
            self.counts.count_opened(slot);
        }
        Verdict::Admit(slot)
    }

    /// Where the source is counted, if it is; an error when it has as many connections as it may have.
    fn source_with_room(&mut self, listener: u16, source: Option<Source>) -> Result<Option<SourceSlot>, ()> {
        let Gate { ledger, limits, .. } = &self.gates[usize::from(listener)];
        let (Some(max), Some(source), Some(slots)) = (limits.connections_per_source_max, source, &mut self.slots)
        else {
            return Ok(None);
        };
        let counts = &self.counts;
        let slot = slots.slot((ledger.number(), source), |slot| counts.open(SourceSlot(slot)) == 0);
        let slot = SourceSlot(slot.expect("there are twice as many slots as connections"));
        if self.counts.open(slot) < max { Ok(Some(slot)) } else { Err(()) }
    }

    fn refuse(&mut self, why: Denial, refusal: Refusal) -> Verdict {
        let ended: u64 = self.cells.iter().map(|cell| cell.refusals_ended()).sum();
        if self.refusals.saturating_sub(ended) < REFUSALS_MAX {
            self.refusals += 1;
            Verdict::Refuse(why, refusal)
        } else {
            Verdict::Close(why)
        }
    }

    /// Open connections of all listeners without refusals. What ends meanwhile may still be counted, never the reverse.
    fn open_in_all(&self) -> u64 {
        let ended = |cell: &Arc<LoadCell>| cell.ended_in_all().saturating_sub(cell.refusals_ended());
        self.admitted.saturating_sub(self.cells.iter().map(ended).sum())
    }
}

/// Counts a client that was not let in.
pub(super) fn count(tally: &Tally, why: Denial, told: bool) {
    let counter = match (why, told) {
        (Denial::Network, _) => &tally.denied,
        (Denial::HandshakeRate | Denial::ConnectionRate, false) => &tally.closed_at_rate,
        (Denial::HandshakeRate | Denial::ConnectionRate, true) => &tally.refused_at_rate,
        (Denial::SourceConnections, false) => &tally.closed_at_source_limit,
        (Denial::SourceConnections, true) => &tally.refused_at_source_limit,
        (Denial::Connections, false) => &tally.closed_at_limit,
        (Denial::Connections, true) => &tally.refused_at_limit,
    };
    counter.add(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Totals;

    const REFUSED: Verdict = Verdict::Refuse(Denial::Connections, Refusal::TooManyConnections);

    fn limits(connections_max: u64) -> Limits {
        Limits {
            allowed: AddressSet::allowing(&[], &[]),
            handshake_rates: Rates::default(),
            connection_rates: Rates::default(),
            connections_per_source_max: None,
            connections_max,
        }
    }

    /// What the one shard publishes.
    struct Published {
        cell: Arc<LoadCell>,
        ledgers: Vec<Arc<Ledger>>,
        counts: SourceCounts,
    }

    impl Published {
        fn count_ended(&self, listener: usize) {
            self.ledgers[listener].count_admitted_ended(0);
            self.cell.count_ended();
        }
    }

    fn admission(connections_max: u64, limits: Vec<Limits>) -> (Admission, Published) {
        let cell = Arc::new(LoadCell::default());
        let ledgers: Vec<_> = (0..).zip(&limits).map(|(number, _)| Ledger::new(number, "l", 1)).collect();
        let counts = source_counts(connections_max);
        let listeners = ledgers.iter().cloned().zip(limits).collect();
        let admission = Admission::new(connections_max, listeners, vec![Arc::clone(&cell)], counts.clone());
        (admission, Published { cell, ledgers, counts })
    }

    fn now() -> Time {
        Time::from_nanos(60_000_000_000)
    }

    fn come(admission: &mut Admission, listener: u16, address: &str) -> Verdict {
        admission.admit(listener, address.parse().ok(), now())
    }

    #[test]
    fn the_limits_hold_globally_and_per_listener_and_an_end_makes_room() {
        let (mut admission, published) = admission(3, vec![limits(2), limits(10)]);
        let verdicts: Vec<_> = [0, 0, 0, 1, 1].map(|listener| admission.admit(listener, None, now())).into();
        let admitted = Verdict::Admit(None);
        assert_eq!(verdicts, [admitted, admitted, REFUSED, admitted, REFUSED]);
        // The end of a refusal makes no room.
        published.cell.count_refusal_ended();
        assert_eq!(admission.admit(1, None, now()), REFUSED);
        published.count_ended(0);
        assert_eq!(admission.admit(1, None, now()), admitted);
        assert_eq!(admission.admit(1, None, now()), REFUSED);
    }

    #[test]
    fn at_most_sixty_four_are_being_told_at_once() {
        let (mut admission, published) = admission(0, vec![limits(10)]);
        for _ in 0..64 {
            assert_eq!(admission.admit(0, None, now()), REFUSED);
        }
        assert_eq!(admission.admit(0, None, now()), Verdict::Close(Denial::Connections));
        published.cell.count_refusal_ended();
        assert_eq!(admission.admit(0, None, now()), REFUSED);
    }

    #[test]
    fn a_source_has_so_many_connections_on_each_listener_and_an_end_makes_room() {
        let limited = || Limits { connections_per_source_max: Some(2), ..limits(100) };
        let (mut admission, published) = admission(100, vec![limited(), limited(), limits(100)]);
        let (first, second) = ("2001:db8::1", "2001:db8::2");
        let Verdict::Admit(Some(slot)) = come(&mut admission, 0, first) else { panic!("refused") };
        assert_eq!(come(&mut admission, 0, second), Verdict::Admit(Some(slot)));
        let refused = Verdict::Refuse(Denial::SourceConnections, Refusal::TooManyPerSource);
        assert_eq!(come(&mut admission, 0, first), refused);
        for (listener, address) in [(0, "2001:db8:0:1::1"), (1, first), (0, "192.0.2.1"), (0, "192.0.2.2")] {
            let Verdict::Admit(Some(other)) = come(&mut admission, listener, address) else { panic!("refused") };
            assert_ne!(other, slot, "{address}");
        }
        assert_eq!(come(&mut admission, 2, first), Verdict::Admit(None));
        published.count_ended(0);
        assert_eq!(come(&mut admission, 0, first), refused);
        published.counts.count_ended(slot);
        assert_eq!(come(&mut admission, 0, first), Verdict::Admit(Some(slot)));
    }

    #[test]
    fn who_is_denied_by_a_network_is_closed_and_uses_up_nothing() {
        let network = ["192.0.2.0/24".parse().unwrap()];
        let rates = Rates { total: Some(1), per_source: None };
        let denying = Limits { allowed: AddressSet::allowing(&[], &network), handshake_rates: rates, ..limits(1) };
        let (mut admission, ..) = admission(1, vec![denying]);
        for _ in 0..100 {
            assert_eq!(come(&mut admission, 0, "192.0.2.7"), Verdict::Close(Denial::Network));
        }
        // Its address is not known: it has gone already.
        assert_eq!(admission.admit(0, None, now()), Verdict::Close(Denial::Network));
        assert_eq!(come(&mut admission, 0, "198.51.100.7"), Verdict::Admit(None));
    }

    #[test]
    fn beyond_a_rate_of_connections_clients_are_told_and_beyond_one_of_handshakes_they_are_not() {
        let rates = |total| Rates { total: Some(total), per_source: None };
        let limits = Limits { handshake_rates: rates(3), connection_rates: rates(2), ..limits(100) };
        let (mut admission, ..) = admission(100, vec![limits]);
        let verdicts: Vec<_> = (0..5).map(|_| admission.admit(0, None, now())).collect();
        let (admitted, told) = (Verdict::Admit(None), Verdict::Refuse(Denial::ConnectionRate, Refusal::TooFast));
        let closed = Verdict::Close(Denial::HandshakeRate);
        assert_eq!(verdicts, [admitted, admitted, told, closed, closed]);
    }

    #[test]
    fn other_limits_judge_by_what_has_come_before() {
        let rates = |total| Rates { total: Some(total), per_source: None };
        let limited = |max, rate| Limits { connection_rates: rates(rate), ..limits(max) };
        let (mut admission, published) = admission(100, vec![limits(100), limited(100, 3)]);
        let (admitted, too_fast) = (Verdict::Admit(None), Verdict::Refuse(Denial::ConnectionRate, Refusal::TooFast));
        let come = |admission: &mut Admission, listener| admission.admit(listener, None, now());
        assert_eq!([0, 0, 1, 1].map(|listener| come(&mut admission, listener)), [admitted; 4]);
        let [first, second] = [0, 1].map(|listener: usize| Arc::clone(&published.ledgers[listener]));
        // In another order, with one between them; the rate is as it was.
        let between = (Ledger::new(7, "between", 1), limits(1));
        admission.renew(100, vec![(second, limited(10, 3)), between, (first, limits(2))]);
        assert_eq!([0, 0, 2, 1, 1].map(|listener| come(&mut admission, listener)), {
            [admitted, too_fast, REFUSED, admitted, REFUSED]
        });
        published.count_ended(0);
        assert_eq!(come(&mut admission, 2), admitted);
        let second = Arc::clone(&published.ledgers[1]);
        admission.renew(100, vec![(second, limited(10, 4))]);
        assert_eq!(come(&mut admission, 0), admitted);
        admission.renew(5, vec![(Arc::clone(&published.ledgers[0]), limits(100))]);
        assert_eq!(come(&mut admission, 0), REFUSED);
    }

    #[test]
    fn each_kind_of_denial_has_its_counter() {
        let tally = Tally::default();
        for why in Denial::ALL {
            count(&tally, why, false);
        }
        count(&tally, Denial::ConnectionRate, true);
        count(&tally, Denial::SourceConnections, true);
        count(&tally, Denial::Connections, true);
        let expected = Totals {
            denied: 1,
            closed_at_rate: 2,
            closed_at_source_limit: 1,
            closed_at_limit: 1,
            refused_at_rate: 1,
            refused_at_source_limit: 1,
            refused_at_limit: 1,
            ..Totals::default()
        };
        assert_eq!(tally.totals(), expected);
    }
}
