//! Which of several servers a session goes to: the policies, as arithmetic on numbers.
//!
//! Whoever asks has sorted out who can be used; here is only who comes next. Each shard has a [`Balancer`] of its own for
//! each backend, and what they share are the servers' counts of connections.

use std::net::IpAddr;

/// How sessions are spread over servers. All but [`Balance::First`] respect the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One after the other, the heavier ones more often, spread evenly over time.
    RoundRobin,
    /// To the server with the fewest connections for its weight; among equals in turn.
    LeastConn,
    /// To the first that has room, in the order of the configuration.
    First,
    /// Of two that are drawn, to the one with fewer connections for its weight (the power of two choices).
    Random,
    /// By the client's address: the same client comes to the same server, and when servers come or go, only the clients
    /// of those move (rendezvous hashing).
    Source,
}

/// A server that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its index in the roster.
    pub index: usize,
    /// At least 1.
    pub weight: u16,
    /// Connections that it has from all shards.
    pub connections: u32,
    /// What [`key`] made of its address.
    pub key: u64,
}

impl Candidate {
    /// Whether one more connection weighs less here than there.
    fn is_lighter_than(&self, other: &Self) -> bool {
        let load = |one: &Self, weight: u16| (u64::from(one.connections) + 1) * u64::from(weight);
        load(self, other.weight) < load(other, self.weight)
    }

    /// Its bid for a client in weighted rendezvous hashing: the highest wins. With `u` even between 0 and 1, the highest
    /// of all `-weight / ln(u)` is each with a chance in proportion to its weight (the logarithmic method of Schindelhauer
    /// and Schomaker, "Weighted Distributed Hash Tables", 2005).
    fn bid(&self, source: IpAddr) -> f64 {
        let hash = match source.to_canonical() {
            IpAddr::V4(ip) => fnv1a(self.key, &ip.octets()),
            IpAddr::V6(ip) => fnv1a(self.key, &ip.octets()),
        };
        let even = ((mix(hash) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -f64::from(self.weight) / even.ln()
    }
}

/// What stands for a server in hashes: of its address as text, so that each process and each host comes to the same.
#[must_use]
pub fn key(address: &str) -> u64 {
    fnv1a(0xcbf2_9ce4_8422_2325, address.as_bytes())
}

/// FNV-1a of 64 bits (draft-eastlake-fnv), going on from `hash`.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The finalizer of `SplitMix64` (Steele, Lea and Flood, 2014): FNV leaves the high bits of short texts alike.
const fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// One shard's choices among the servers of one backend.
#[derive(Debug)]
pub struct Balancer {
    balance: Balance,
    /// How much each server is behind its share, by its index: smooth weighted round-robin, as in nginx.
    behind: Vec<i64>,
    /// The state of the draws.
    draws: u64,
}

impl Balancer {
    /// Chooses by `balance`; draws start from `seed`.
    #[must_use]
    pub const fn new(balance: Balance, seed: u64) -> Self {
        Self { balance, behind: Vec::new(), draws: seed }
    }

    /// Forgets whose turn it is, for another roster.
    pub fn forget(&mut self) {
        self.behind.clear();
    }

    /// The position in `candidates` of the one that comes next; `None` when there is none. `source` is the client's
    /// address, where it has one.
    pub fn choose(&mut self, candidates: &[Candidate], source: Option<IpAddr>) -> Option<usize> {
        match (self.balance, source) {
            (Balance::RoundRobin, _) => self.next_in_turn(candidates, |_| true),
            (Balance::LeastConn, _) => {
                let first = *candidates.first()?;
                let lighter = |a: Candidate, b: &Candidate| if b.is_lighter_than(&a) { *b } else { a };
                let lightest = candidates.iter().fold(first, lighter);
                self.next_in_turn(candidates, |candidate| !lightest.is_lighter_than(candidate))
            }
            (Balance::First, _) => (!candidates.is_empty()).then_some(0),
            (Balance::Source, Some(source)) => {
                let bids = candidates.iter().map(|candidate| candidate.bid(source)).enumerate();
                bids.reduce(|best, bid| if bid.1 > best.1 { bid } else { best }).map(|(position, _)| position)
            }
            (Balance::Random, _) | (Balance::Source, None) => {
                let (one, other) = (self.draw(candidates)?, self.draw(candidates)?);
                Some(if candidates[other].is_lighter_than(&candidates[one]) { other } else { one })
            }
        }
    }

    /// Of those that `may`, the one that is furthest behind its share.
    fn next_in_turn(&mut self, candidates: &[Candidate], may: impl Fn(&Candidate) -> bool) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<(usize, usize)> = None;
        for (position, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| may(candidate)) {
            if self.behind.len() <= candidate.index {
                self.behind.resize(candidate.index + 1, 0);
            }
            let behind = &mut self.behind[candidate.index];
            *behind += i64::from(candidate.weight);
            total += i64::from(candidate.weight);
            let behind = *behind;
            if best.is_none_or(|(_, index)| behind > self.behind[index]) {
                best = Some((position, candidate.index));
            }
        }
        let (position, index) = best?;
        self.behind[index] -= total;
        Some(position)
    }

    /// Draws one, each with a chance in proportion to its weight.
    fn draw(&mut self, candidates: &[Candidate]) -> Option<usize> {
        let total: u64 = candidates.iter().map(|candidate| u64::from(candidate.weight)).sum();
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut left = mix(self.draws).checked_rem(total)?;
        candidates.iter().position(|candidate| {
            let hit = left < u64::from(candidate.weight);
            left = left.saturating_sub(u64::from(candidate.weight));
            hit
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    /// Candidates of these weights and connections, at 10.0.0.1:6379, 10.0.0.2:6379, ...
    fn candidates(of: &[(u16, u32)]) -> Vec<Candidate> {
        let candidate = |(index, &(weight, connections)): (usize, &(u16, u32))| Candidate {
            index,
            weight,
            connections,
            key: key(&format!("10.0.0.{}:6379", index + 1)),
        };
        of.iter().enumerate().map(candidate).collect()
    }

    fn chosen(balance: Balance, of: &[Candidate], times: usize) -> Vec<usize> {
        let mut balancer = Balancer::new(balance, 1);
        (0..times).map(|_| balancer.choose(of, None).map(|position| of[position].index).unwrap()).collect()
    }

    fn counted(chosen: impl IntoIterator<Item = usize>) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for index in chosen {
            *counts.entry(index).or_default() += 1;
        }
        counts
    }

    fn client(number: u32) -> IpAddr {
        IpAddr::V4(number.wrapping_mul(2_654_435_761).into())
    }

    #[test]
    fn nobody_is_chosen_of_nobody() {
        for balance in [Balance::RoundRobin, Balance::LeastConn, Balance::First, Balance::Random, Balance::Source] {
            assert_eq!(Balancer::new(balance, 1).choose(&[], Some(client(1))), None);
        }
    }

    /// The example of nginx's own commit message: weights 5, 1, 1.
    #[test]
    fn turns_of_heavy_servers_are_spread() {
        let of = candidates(&[(5, 0), (1, 0), (1, 0)]);
        assert_eq!(chosen(Balance::RoundRobin, &of, 7), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(chosen(Balance::RoundRobin, &candidates(&[(1, 9), (1, 0), (1, 0)]), 5), [0, 1, 2, 0, 1]);
    }

    #[test]
    fn who_is_away_for_a_while_makes_up_for_nothing() {
        let all = candidates(&[(1, 0), (1, 0)]);
        let mut balancer = Balancer::new(Balance::RoundRobin, 1);
        let alone: Vec<_> = (0..100).filter_map(|_| balancer.choose(&all[..1], None)).collect();
        assert_eq!(alone, [0; 100]);
        let together: Vec<_> = (0..4).filter_map(|_| balancer.choose(&all, None)).collect();
        assert_eq!(together, [0, 1, 0, 1]);
    }

    #[test]
    fn the_fewest_connections_for_the_weight_win_and_equals_take_turns() {
        assert_eq!(chosen(Balance::LeastConn, &candidates(&[(1, 3), (1, 2), (1, 4)]), 2), [1, 1]);
        // One more is (20 + 1) / 10 there and (2 + 1) / 1 here.
        assert_eq!(chosen(Balance::LeastConn, &candidates(&[(1, 2), (10, 20)]), 2), [1, 1]);
        assert_eq!(chosen(Balance::LeastConn, &candidates(&[(1, 2), (10, 30)]), 2), [0, 0]);
        assert_eq!(chosen(Balance::LeastConn, &candidates(&[(1, 5), (1, 2), (1, 2)]), 4), [1, 2, 1, 2]);
    }

    #[test]
    fn connections_come_to_stand_as_the_weights_do() {
        let mut of = candidates(&[(1, 0), (2, 0), (5, 0)]);
        let mut balancer = Balancer::new(Balance::LeastConn, 1);
        for _ in 0..80 {
            let position = balancer.choose(&of, None).unwrap();
            of[position].connections += 1;
        }
        assert_eq!(of.iter().map(|candidate| candidate.connections).collect::<Vec<_>>(), [10, 20, 50]);
    }

    #[test]
    fn the_first_is_the_first_whatever_it_has() {
        assert_eq!(chosen(Balance::First, &candidates(&[(1, 99), (256, 0)]), 2), [0, 0]);
        assert_eq!(chosen(Balance::First, &candidates(&[(1, 99), (256, 0)])[1..], 1), [1]);
    }

    #[test]
    fn of_two_that_are_drawn_the_lighter_wins() {
        // The heavy one loses against every other and wins against itself: one in 16 draws.
        let counts = counted(chosen(Balance::Random, &candidates(&[(1, 9), (1, 0), (1, 0), (1, 0)]), 16_000));
        assert!((850..1_150).contains(&counts[&0]), "{counts:?}");
        assert!([1, 2, 3].iter().all(|index| (4_700..5_300).contains(&counts[index])), "{counts:?}");
        // With connections in proportion to the weights, the draws are, too.
        let counts = counted(chosen(Balance::Random, &candidates(&[(1, 0), (3, 2)]), 16_000));
        assert!((3_750..4_250).contains(&counts[&0]), "{counts:?}");
    }

    /// The first key is a vector of draft-eastlake-fnv; the other numbers are those of another implementation of the same formulas, in Python.
    #[test]
    fn a_client_s_address_decides_alone() {
        assert_eq!((key("a"), key("10.0.0.1:6379")), (0xaf63_dc4c_8601_ec8c, 0x5466_2223_7160_3f16));
        let of = candidates(&[(1, 7), (1, 0), (1, 3), (2, 0)]);
        let mut balancer = Balancer::new(Balance::Source, 1);
        let mut choose = |text: &str| balancer.choose(&of, Some(text.parse().unwrap())).unwrap();
        let clients = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "2001:db8::1", "2001:db8::2"];
        assert_eq!(clients.map(&mut choose), [3, 3, 3, 0, 3, 2, 0]);
        assert_eq!(choose("::ffff:192.0.2.4"), 0);
    }

    #[test]
    fn clients_are_spread_by_weight() {
        let of = candidates(&[(1, 0), (1, 0), (2, 0)]);
        let mut balancer = Balancer::new(Balance::Source, 1);
        let counts = counted((0..16_000).filter_map(|number| balancer.choose(&of, Some(client(number)))));
        assert!((3_750..4_250).contains(&counts[&0]) && (3_750..4_250).contains(&counts[&1]), "{counts:?}");
    }

    proptest! {
        #[test]
        fn when_a_server_goes_only_its_clients_move(
            weights in prop::collection::vec(1_u16..=256, 2..20), gone in any::<prop::sample::Index>(), number: u32,
        ) {
            let of = candidates(&weights.iter().map(|&weight| (weight, 0)).collect::<Vec<_>>());
            let mut fewer = of.clone();
            let gone = fewer.remove(gone.index(of.len()));
            let choose = |of: &[Candidate]| {
                let position = Balancer::new(Balance::Source, 1).choose(of, Some(client(number)));
                position.map(|position| of[position].index)
            };
            let (before, after) = (choose(&of), choose(&fewer));
            prop_assert!(before == after || before == Some(gone.index));
        }

        #[test]
        fn in_turn_each_gets_exactly_its_share(weights in prop::collection::vec(1_u16..=20, 1..8)) {
            let of = candidates(&weights.iter().map(|&weight| (weight, 0)).collect::<Vec<_>>());
            let round = weights.iter().map(|&weight| usize::from(weight)).sum::<usize>();
            let counts = counted(chosen(Balance::RoundRobin, &of, round * 2));
            for (index, &weight) in weights.iter().enumerate() {
                prop_assert_eq!(counts[&index], usize::from(weight) * 2);
            }
        }

        #[test]
        fn whoever_is_chosen_is_there(
            of in prop::collection::vec((1_u16..=256, any::<u32>()), 1..20), seed: u64, number: u32,
        ) {
            let of = candidates(&of);
            for balance in [Balance::RoundRobin, Balance::LeastConn, Balance::First, Balance::Random, Balance::Source] {
                let mut balancer = Balancer::new(balance, seed);
                for source in [None, Some(client(number))] {
                    prop_assert!(balancer.choose(&of, source).is_some_and(|position| position < of.len()));
                }
            }
        }
    }
}
