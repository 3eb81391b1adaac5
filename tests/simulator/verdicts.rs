//! What must be true when a run is over: every session's end is told once and truly, and everything is home.

use std::time::Duration;

use ringwall::events::CloseRecord;
use ringwall::shard::Dismissal;
use ringwall::sources::SourceSlot;

use crate::backend::Backend;
use crate::client::Client;
use crate::run::Run;
use crate::script::{Language, Leave};

impl Run {
    pub(crate) fn check_end(&self) {
        for (client, backend) in self.pairs() {
            assert!(backend.heard.bytes <= client.said(), "what was never said is heard");
            assert!(client.heard.bytes <= backend.said, "what was never said is heard");
        }
        let connections: u32 = self.process.members.iter().map(|member| member.connections()).sum();
        assert_eq!(connections, 0, "connections to servers are counted that are not there");
        let waiting: u32 = self.process.waiting.iter().map(|waiting| waiting.total()).sum();
        assert_eq!(waiting, 0, "sessions are counted as waiting that are not there");
        if self.stopped {
            return;
        }
        assert_eq!(self.sim.open_sockets(), self.process.sockets_of_its_own, "sockets are left open");
        let counts = &self.process.sources;
        let open = (0..counts.slots()).map(|slot| counts.open(SourceSlot(u32::try_from(slot).expect("few slots"))));
        assert_eq!(open.sum::<u32>(), 0, "connections of some source that nobody has");
        let ended: u64 = self.process.loads.iter().map(|load| load.ended_in_all()).sum();
        let admitted: u64 = self.process.ledgers.iter().map(|ledger| ledger.admitted_ended()).sum();
        let refused: u64 = self.process.loads.iter().map(|load| load.refusals_ended()).sum();
        assert_eq!(ended, admitted + refused, "ends of all sessions, and of those let in and refused");
        let open: u64 = self.process.ledgers.iter().map(|ledger| ledger.open_in_all()).sum();
        assert_eq!(open, 0, "listeners have sessions that are not there");
        let sessions: u64 = self.reports.iter().map(|report| report.sessions).sum();
        assert_eq!(ended, sessions, "sessions that the dispatcher takes to have ended, and those that have");
        let told = self.control.drainings == 1 || self.control.dropped() > 0;
        assert!(told, "the log does not say that accepting is over");
        let told = self.control.closed.len() as u64;
        let dropped = self.control.dropped();
        assert!(told <= sessions && sessions <= told + dropped, "{sessions} sessions, and {told} ends are told");
        if dropped > 0 {
            return;
        }
        assert_eq!(self.control.refused, refused, "clients that are said to be told of a limit, and those that were");
        let cut_off: u64 = self.reports.iter().map(|report| report.cut_off).sum();
        let told = self.control.closed.iter().filter(|(_, record)| record.reason == "cut_off").count() as u64;
        assert!(told <= cut_off, "{told} sessions are told as cut off, and {cut_off} are counted");
        for client in &self.clients {
            let records = self.control.closed.iter().filter(|(_, record)| client.is_in(record));
            let records = records.collect::<Vec<_>>();
            assert!(records.len() <= 1, "the end of client {} is told {} times", client.number, records.len());
            assert!(!client.shook_hands || records.len() == 1, "the end of client {} is not told", client.number);
            for (told_at, record) in records {
                let backend = self.pairs().find(|(paired, _)| paired.number == client.number);
                let drained = self.drained.is_some_and(|(since, _)| *told_at >= since);
                let backend = backend.map(|(_, backend)| backend);
                let story = Story { run: self, client, backend, record, drained };
                story.check();
            }
        }
    }
}

/// A session as all who took part remember it.
struct Story<'a> {
    run: &'a Run,
    client: &'a Client,
    backend: Option<&'a Backend>,
    record: &'a CloseRecord,
    /// It has come to its end after the process was told to drain.
    drained: bool,
}

impl Story<'_> {
    fn check(&self) {
        let Self { client, record, .. } = self;
        let reason = record.reason;
        let who = format!("client {}, {reason}", client.number);
        assert!(self.is_true(), "{who}: that is not what happened; {record:?}");
        assert!(client.received <= record.client_sent_bytes, "{who}: more heard than sent");
        assert!(record.client_received_bytes <= client.sent, "{who}: more received than said");
        if let Some(backend) = self.backend {
            assert!(backend.heard.bytes <= record.server_sent_bytes, "{who}: the server heard more than was sent");
            let said = if backend.speaks_tls() || self.is_greeted() { u64::MAX } else { backend.said };
            assert!(record.server_received_bytes <= said, "{who}: more received than the server said");
            assert_eq!(record.server_local_port, backend.port, "{who}: the port that the server sees");
            let session = &self.run.plan.session;
            let idled = session.idle_timeout.is_some_and(|timeout| record.duration >= timeout);
            // The half-close timeout names the side that broke down, when one has.
            let names_a_side = ["client_reset", "backend_reset", "backend_truncated"].contains(&record.reason);
            let timed_out = names_a_side && record.duration >= session.half_close_timeout;
            let aged = record.reason.starts_with("max_lifetime");
            // A server that is left has no longer than the linger time for what it was still to be told.
            let dismissed = self.run.was_dismissed(client, |_| true) || self.has_lost_its_listener();
            if !self.drained && !idled && !timed_out && !aged && !dismissed {
                self.check_delivery(backend, &who);
            }
        }
    }

    /// What was received before an end is delivered.
    fn check_delivery(&self, backend: &Backend, who: &str) {
        let Self { client, record, .. } = self;
        let by_client = ["client_closed", "client_truncated", "client_reset", "tls_failed"].contains(&record.reason);
        let heard_out = backend.left.is_none_or(|(_, left)| backend.end.is_some_and(|(_, ended)| ended <= left));
        let unread = backend.witness.unread();
        // What is unread of a server with TLS is no number of words.
        if by_client && heard_out && !(backend.speaks_tls() && unread > 0) {
            let delivered = backend.heard.bytes + unread as u64;
            assert_eq!(delivered, client.said_for_good(), "{who}: the server has not got all that was said");
        }
        let by_backend = ["backend_closed", "backend_reset", "backend_truncated"].contains(&record.reason);
        let stayed = !matches!(client.left, Some(Leave::Close | Leave::Reset)) || client.end.is_some();
        if by_backend && stayed && client.witness.unread() == 0 && !client.witness.was_cut() && !client.junk_said {
            assert_eq!(client.heard.bytes, backend.said_for_good(), "{who}: the client has not got all that was said");
            let orderly = record.reason == "backend_closed" && client.speaks_tls();
            assert_eq!(client.goodbye_heard, orderly, "{who}: close_notify");
        }
    }

    /// Whether the reason is what happened.
    fn is_true(&self) -> bool {
        let Self { run, client, backend, record, .. } = self;
        let session = &run.plan.session;
        let client_gone = client.left.is_some() || client.witness.has_cut();
        let listener = &run.plan.listeners[client.script.listener];
        let outlived = |by| session.lifetime_max.is_some_and(|max| record.duration >= max - max / 10 + by);
        match record.reason {
            "client_closed" => client.goodbye_said || client.script.language == Language::Plain && client_gone,
            "client_truncated" | "client_reset" | "handshake_aborted" => client_gone,
            "backend_closed" => backend.is_none_or(|backend| backend.witness.has_shut() || backend.goodbye_said),
            "backend_truncated" => backend.is_none_or(|backend| backend.witness.has_shut() && !backend.goodbye_said),
            "backend_handshake_failed" => self.server_speaks_tls() && self.has_been_told_of_servers(),
            "backend_greeting_failed" => self.is_greeted() && self.has_been_told_of_servers(),
            "server_open" => {
                run.plan.edges.listeners[client.script.listener].1
                    && client.has_been_told("-DENIED ringwall: the server")
            }
            "proxy_header_invalid" => {
                run.plan.edges.listeners[client.script.listener].0 && client.script.language == Language::Silent
            }
            "proxy_header_timeout" => {
                run.plan.edges.listeners[client.script.listener].0 && record.duration >= session.handshake_timeout
            }
            "backend_reset" => backend.is_none_or(|backend| backend.witness.has_cut()),
            "handshake_timeout" => record.duration >= session.handshake_timeout,
            "too_many_handshakes" => run.plan.clients.len() > run.plan.handshakes_max,
            "handshake_failed" | "plaintext" => !client.speaks_tls(),
            "tls_failed" => client.junk_said,
            "record_limit" => run.may_use_up_its_keys(client),
            "backend_unreachable" => {
                // Others may have failed their handshakes.
                (run.may_be_unreachable(client) || self.server_speaks_tls() || self.is_greeted())
                    && self.has_been_told_of_servers()
            }
            "too_many_connections" => !run.plan.calm && client.has_been_told("-ERR max number of clients reached\r\n"),
            "too_many_connections_per_source" => {
                listener.per_source_max.is_some() && client.has_been_told("-ERR max number of clients reached\r\n")
            }
            "connection_rate" => {
                listener.rate_per_source.is_some()
                    && client.has_been_told("-ERR max rate of new clients reached, try again later\r\n")
            }
            // At the earliest a tenth before its time, and a quiet moment or the grace later.
            "max_lifetime" => outlived(Duration::from_millis(100)),
            "max_lifetime_cut_off" => outlived(Duration::from_secs(30)),
            "queue_full" => self.may_find_all_full() && self.has_been_told_of_servers(),
            "queue_timeout" => {
                self.may_find_all_full()
                    && record.duration >= run.plan.sending.queue_timeout
                    && self.has_been_told_of_servers()
            }
            "server_demoted" => run.was_dismissed(client, |how| how == Dismissal::Demoted),
            "server_down" => run.was_dismissed(client, |how| how == Dismissal::Down),
            "server_drained" => run.was_dismissed(client, |how| matches!(how, Dismissal::Drained { .. })),
            "listener_drained" => self.has_lost_its_listener() && record.duration >= Duration::from_millis(100),
            "idle_timeout" => session.idle_timeout.is_some_and(|timeout| record.duration >= timeout),
            "half_close_timeout" => record.duration >= session.half_close_timeout,
            "drained" => run.drained.is_some() && record.duration >= Duration::from_millis(100),
            "cut_off" => run.drained.is_some(),
            _ => false,
        }
    }
}

impl Story<'_> {
    /// Whether the client has been told that no server can be reached, or cut, as the plan has it.
    fn has_been_told_of_servers(&self) -> bool {
        if self.run.plan.session.tells_unreachable {
            self.client.has_been_told("-ERR ringwall cannot reach the server")
        } else {
            self.client.error.is_empty() && !self.client.goodbye_heard
        }
    }

    fn has_lost_its_listener(&self) -> bool {
        self.run.process.left_once[self.client.script.listener]
    }

    fn may_find_all_full(&self) -> bool {
        self.run.plan.is_bounded(self.run.plan.listeners[self.client.script.listener].backend)
    }

    fn is_greeted(&self) -> bool {
        let plan = &self.run.plan;
        let servers = &plan.backends[plan.listeners[self.client.script.listener].backend];
        servers.iter().any(|&server| plan.greets(server))
    }

    fn server_speaks_tls(&self) -> bool {
        let plan = &self.run.plan;
        plan.backends_tls[plan.listeners[self.client.script.listener].backend]
    }
}

impl Client {
    /// Whether it has heard this answer, or has not listened.
    fn has_been_told(&self, error: &str) -> bool {
        let listened = self.left.is_none() && !self.junk_said && self.witness.unread() == 0 && !self.witness.was_cut();
        !listened || self.error.starts_with(error.as_bytes()) && (self.goodbye_heard || !self.speaks_tls())
    }
}
