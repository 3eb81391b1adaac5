//! What asks the admin socket, in the bare words of HTTP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::process::PATIENCE;

/// An admin socket.
pub(crate) struct Admin(PathBuf);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Admin {
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self(socket)
    }

    /// The answer to a request of these lines.
    pub(crate) fn answer(&self, request: &str) -> Answer {
        answer(UnixStream::connect(&self.0).unwrap(), request)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.answer(&format!("GET {path} HTTP/1.1\r\nHost: ringwall\r\n\r\n"))
    }

    pub(crate) fn post(&self, path: &str) -> Answer {
        self.answer(&format!("POST {path} HTTP/1.1\r\nHost: ringwall\r\nContent-Length: 0\r\n\r\n"))
    }

    /// A reading of all metrics.
    pub(crate) fn metrics(&self) -> Metrics {
        let answer = self.get("/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        Metrics::parse(&answer.body)
    }
}

/// Sends a request and reads the answer to its end.
pub(crate) fn answer(mut stream: impl Read + Write, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// A reading of all metrics: the value of each by its name and labels as they are written.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) samples: BTreeMap<String, f64>,
    pub(crate) kinds: BTreeMap<String, String>,
}

impl Metrics {
    fn parse(text: &str) -> Self {
        let mut metrics = Self { samples: BTreeMap::new(), kinds: BTreeMap::new() };
        for line in text.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
                assert!(metrics.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} comes twice");
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let before = metrics.samples.insert(name.to_owned(), value.parse().unwrap());
                assert!(before.is_none(), "{name} comes twice");
            }
        }
        metrics
    }

    /// The value of this metric. Panics when it is not there.
    pub(crate) fn value(&self, name: &str) -> f64 {
        *self.samples.get(name).unwrap_or_else(|| panic!("no {name} in {:#?}", self.samples))
    }

    /// The sum of all metrics of this name.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let of_name = |key: &str| key.split('{').next() == Some(name);
        self.samples.iter().filter(|(key, _)| of_name(key)).map(|(_, value)| value).sum()
    }

    /// Those of this name that are not zero, by their labels.
    pub(crate) fn nonzero(&self, name: &str) -> BTreeMap<&str, f64> {
        let of_name = self.samples.iter().filter(|(_, value)| **value != 0.0);
        of_name
            .filter_map(|(key, value)| Some((key.strip_prefix(name)?.strip_prefix('{')?.trim_end_matches('}'), *value)))
            .collect()
    }

    /// Whether this metric only ever grows.
    pub(crate) fn is_counter(&self, sample: &str) -> bool {
        let name = sample.split('{').next().unwrap();
        let family = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        [name, family].iter().any(|name| self.kinds.get(*name).is_some_and(|kind| kind != "gauge"))
    }

    /// Waits, by asking again, until `holds`.
    pub(crate) fn until(admin: &Admin, holds: impl Fn(&Self) -> bool) -> Self {
        let deadline = crate::process::now() + PATIENCE;
        loop {
            let metrics = admin.metrics();
            if holds(&metrics) {
                return metrics;
            }
            assert!(crate::process::now() < deadline, "waited in vain: {:#?}", metrics.samples);
        }
    }
}
