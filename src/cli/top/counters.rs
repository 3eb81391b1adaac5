//! What `ringwall top` takes from the text of `/metrics`.

use std::collections::BTreeMap;

/// What comes through: since the start, or in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flows {
    /// Connections of clients.
    pub(super) connections: f64,
    /// Handshakes with clients completed.
    pub(super) handshakes: f64,
    /// Handshakes with clients not completed.
    pub(super) handshakes_failed: f64,
    /// Clients turned away at a limit or rate.
    pub(super) rejected: f64,
    /// Bytes from clients, as on the wire.
    pub(super) from_clients: f64,
    /// Bytes to clients.
    pub(super) to_clients: f64,
    /// Bytes from servers.
    pub(super) from_servers: f64,
    /// Bytes to servers.
    pub(super) to_servers: f64,
}

/// Requests of a listener whose clients share connections, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// Over shared connections.
    pub(super) shared: f64,
    /// Over others.
    pub(super) own: f64,
    /// Writes to servers over shared connections.
    pub(super) batches: f64,
    /// Requests in these.
    pub(super) batched: f64,
    /// Answered ones, but for those that may block.
    pub(super) answered: f64,
    /// What these took, together.
    pub(super) seconds: f64,
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counters {
    /// Since the start.
    pub(super) flows: Flows,
    /// By listener.
    pub(super) requests: BTreeMap<String, Requests>,
    /// Sessions of which neither side reads, as counted at the moment.
    pub(super) stalled: f64,
}

impl Flows {
    /// In a second, where `before` was counted so long before; none when that was by another process, since what one
    /// counts only grows.
    pub(super) fn rates(&self, before: &Self, seconds: f64) -> Option<Self> {
        let rate = |of: fn(&Self) -> f64| Some((of(self) - of(before)) / seconds).filter(|rate| *rate >= 0.0);
        Some(Self {
            connections: rate(|flows| flows.connections)?,
            handshakes: rate(|flows| flows.handshakes)?,
            handshakes_failed: rate(|flows| flows.handshakes_failed)?,
            rejected: rate(|flows| flows.rejected)?,
            from_clients: rate(|flows| flows.from_clients)?,
            to_clients: rate(|flows| flows.to_clients)?,
            from_servers: rate(|flows| flows.from_servers)?,
            to_servers: rate(|flows| flows.to_servers)?,
        })
    }
}

impl Counters {
    /// Reads the text format of Prometheus. Families that are not known, and lines that are none, are passed over.
    pub(super) fn parse(text: &str) -> Self {
        let mut counters = Self::default();
        for sample in text.lines().filter_map(Sample::parse) {
            counters.add(&sample);
        }
        counters
    }

    fn add(&mut self, sample: &Sample<'_>) {
        if let Some(name) = sample.name.strip_prefix("ringwall_multiplex_") {
            return self.add_request(name, sample);
        }
        let sum = match (sample.name, sample.label("side")) {
            ("ringwall_connections_total", _) => &mut self.flows.connections,
            ("ringwall_handshakes_total", _) => &mut self.flows.handshakes,
            ("ringwall_handshake_failures_total", _) => &mut self.flows.handshakes_failed,
            ("ringwall_connections_rejected_total", _) => &mut self.flows.rejected,
            ("ringwall_received_bytes_total", Some("client")) => &mut self.flows.from_clients,
            ("ringwall_sent_bytes_total", Some("client")) => &mut self.flows.to_clients,
            ("ringwall_received_bytes_total", Some("backend")) => &mut self.flows.from_servers,
            ("ringwall_sent_bytes_total", Some("backend")) => &mut self.flows.to_servers,
            ("ringwall_stalled_sessions", _) => &mut self.stalled,
            _ => return,
        };
        *sum += sample.value;
    }

    fn add_request(&mut self, name: &str, sample: &Sample<'_>) {
        let Some(listener) = sample.label("listener") else { return };
        let requests = self.requests.entry(listener.to_owned()).or_default();
        let may_block = sample.label("family") == Some("blocking");
        let sum = match (name, sample.label("connection")) {
            ("requests_total", Some("shared")) => &mut requests.shared,
            ("requests_total", Some("own")) => &mut requests.own,
            ("batch_requests_count", _) => &mut requests.batches,
            ("batch_requests_sum", _) => &mut requests.batched,
            ("request_duration_seconds_count", _) if !may_block => &mut requests.answered,
            ("request_duration_seconds_sum", _) if !may_block => &mut requests.seconds,
            _ => return,
        };
        *sum += sample.value;
    }
}

/// One line.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<(&'t str, String)>,
    value: f64,
}

impl<'t> Sample<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let name_length = line.find(['{', ' ']).filter(|_| !line.starts_with('#'))?;
        let (name, mut rest) = line.split_at(name_length);
        let mut labels = Vec::new();
        if let Some(mut pairs) = rest.strip_prefix('{') {
            while let Some((label, behind)) = pairs.split_once("=\"") {
                let (value, length) = quoted(behind)?;
                labels.push((label.trim_start_matches(','), value));
                pairs = &behind[length..];
                if pairs.starts_with('}') {
                    break;
                }
            }
            rest = pairs.strip_prefix('}')?;
        }
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some(Self { name, labels, value })
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| &**value)
    }
}

/// The value up to the closing quote, and how long it is as written, with that quote.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, at + 1)),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_summed_and_sides_kept_apart() {
        let counters = Counters::parse(
            r#"# HELP ringwall_connections_total Connections.
# TYPE ringwall_connections_total counter
ringwall_connections_total{listener="public"} 12
ringwall_connections_total{listener="a \"b\\c"} 30
ringwall_handshakes_total{version="1.3",group="x25519",resumed="true"} 7
ringwall_received_bytes_total{side="client"} 1000
ringwall_received_bytes_total{side="backend"} 20
ringwall_sent_bytes_total{side="client"} 3e3
ringwall_sent_bytes_total{side="backend"} 4
ringwall_stalled_sessions 2
"#,
        );
        let flows = Flows {
            connections: 42.0,
            handshakes: 7.0,
            from_clients: 1000.0,
            to_clients: 3000.0,
            from_servers: 20.0,
            to_servers: 4.0,
            ..Flows::default()
        };
        assert_eq!(counters, Counters { flows, requests: BTreeMap::new(), stalled: 2.0 });
    }

    #[test]
    fn requests_are_told_apart_by_listener_and_those_that_may_block_have_no_time() {
        let counters = Counters::parse(
            r#"ringwall_multiplex_connections{listener="a",shard="0",kind="shared"} 1
ringwall_multiplex_requests_total{listener="a",connection="shared"} 70
ringwall_multiplex_requests_total{listener="a",connection="own"} 5
ringwall_multiplex_requests_total{listener="b",connection="shared"} 9
ringwall_multiplex_batch_requests_bucket{listener="a",le="1.0"} 3
ringwall_multiplex_batch_requests_count{listener="a"} 10
ringwall_multiplex_batch_requests_sum{listener="a"} 70
ringwall_multiplex_request_duration_seconds_bucket{listener="a",family="hash",le="0.001"} 7
ringwall_multiplex_request_duration_seconds_count{listener="a",family="hash"} 30
ringwall_multiplex_request_duration_seconds_sum{listener="a",family="hash"} 0.5
ringwall_multiplex_request_duration_seconds_count{listener="a",family="string"} 40
ringwall_multiplex_request_duration_seconds_sum{listener="a",family="string"} 0.25
ringwall_multiplex_request_duration_seconds_count{listener="a",family="blocking"} 5
ringwall_multiplex_request_duration_seconds_sum{listener="a",family="blocking"} 900.0
ringwall_multiplex_departures_total{listener="a",command="watch"} 5
"#,
        );
        let a = Requests { shared: 70.0, own: 5.0, batches: 10.0, batched: 70.0, answered: 70.0, seconds: 0.75 };
        let b = Requests { shared: 9.0, ..Requests::default() };
        assert_eq!(counters.requests, BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]));
    }

    #[test]
    fn what_is_no_sample_is_passed_over() {
        let text = "ringwall_connections_total{listener=\"open\nringwall_connections_total\n\n{} 1\n\
                    ringwall_connections_total{listener=\"a\"} x\nringwall_connections_total{a=\"\\";
        assert_eq!(Counters::parse(text), Counters::default());
    }
}
