//! Metrics as text, in the two forms that Prometheus reads: its own
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>, version 0.0.4) and OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).
//!
//! The libraries for this own their counters behind locks or shared atomics; here they belong to shards, and what is left
//! to do is to write lines. `tests/blackbox/metrics.rs` has another implementation read them.

use std::fmt::{self, Write as _};

/// Which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// The one that a client prefers, by its `Accept` header: OpenMetrics if it can read that.
    pub(super) fn preferred(accept: Option<&str>) -> Self {
        let ranges = accept.unwrap_or_default().split(',').map(|range| range.split(';').next().unwrap_or_default());
        let wanted = |range: &str| range.trim().eq_ignore_ascii_case("application/openmetrics-text");
        if ranges.into_iter().any(wanted) { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What a family of metrics is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A value, whole where it can be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(u64::from(value))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) => write!(f, "{value:?}"),
        }
    }
}

/// A label and its value.
pub(super) type Label<'a> = (&'a str, &'a str);

/// Families that are being written.
#[derive(Debug)]
pub(super) struct Exposition {
    format: Format,
    text: String,
}

/// One family that is being written.
#[derive(Debug)]
pub(super) struct Family<'e> {
    text: &'e mut String,
    name: &'static str,
}

/// The last word of a name that is a unit.
const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];

impl Exposition {
    pub(super) fn new(format: Format) -> Self {
        Self { format, text: String::with_capacity(32 * 1024) }
    }

    /// Begins a family. A counter's name ends in `_total`; a unit is the last word before that. `help` is one line.
    pub(super) fn family(&mut self, kind: Kind, name: &'static str, help: &str) -> Family<'_> {
        let bare = name.strip_suffix("_total").unwrap_or(name);
        debug_assert!((kind == Kind::Counter) == (bare != name), "{name}: counters alone end in _total");
        let text = &mut self.text;
        let shown = match self.format {
            Format::Prometheus => name,
            Format::OpenMetrics => bare,
        };
        // Writing to a text never fails.
        let _ = writeln!(text, "# TYPE {shown} {}", kind.name());
        let unit = UNITS.into_iter().find(|unit| bare.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')));
        if let (Some(unit), Format::OpenMetrics) = (unit, self.format) {
            let _ = writeln!(text, "# UNIT {shown} {unit}");
        }
        let _ = writeln!(text, "# HELP {shown} {help}");
        Family { text, name }
    }

    /// A family of one value without labels.
    pub(super) fn single(&mut self, kind: Kind, name: &'static str, help: &str, value: impl Into<Value>) {
        self.family(kind, name, help).sample(&[], value);
    }

    /// The whole text.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: &[Label<'_>], value: impl Into<Value>) {
        self.line("", labels, None, value.into());
    }

    /// The lines of a histogram: how many values were not above each bound, how many there were, and their sum.
    pub(super) fn histogram(
        &mut self,
        labels: &[Label<'_>],
        cumulative: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: Value,
    ) {
        for (bound, values) in cumulative {
            self.line("_bucket", labels, Some(bound), values.into());
        }
        self.line("_bucket", labels, Some(f64::INFINITY), count.into());
        self.line("_count", labels, None, count.into());
        self.line("_sum", labels, None, sum);
    }

    fn line(&mut self, suffix: &str, labels: &[Label<'_>], bound: Option<f64>, value: Value) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let mut before = '{';
        for (label, value) in labels {
            let _ = write!(self.text, "{before}{label}=\"{}\"", Escaped(value));
            before = ',';
        }
        if let Some(bound) = bound {
            let shown = if bound.is_finite() { format!("{bound:?}") } else { "+Inf".to_owned() };
            let _ = write!(self.text, "{before}le=\"{shown}\"");
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// The value of a label, as both forms want it.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: Format) -> String {
        let mut exposition = Exposition::new(format);
        exposition.family(Kind::Counter, "a_bytes_total", "Bytes.").sample(&[("name", "a\"b\\c\nd"), ("x", "")], 7_u64);
        exposition.single(Kind::Gauge, "a_ratio", "Ratio.", 0.5);
        let (labels, bounds) = ([("kind", "x")], [(0.00025, 1), (1.0, 3)]);
        let mut family = exposition.family(Kind::Histogram, "a_seconds", "Time.");
        family.histogram(&labels, bounds.into_iter(), 4, Value::Real(12.0));
        exposition.finish()
    }

    #[test]
    fn both_forms_are_as_their_specifications_have_them() {
        let samples = "a_bytes_total{name=\"a\\\"b\\\\c\\nd\",x=\"\"} 7\n";
        let histogram = "a_seconds_bucket{kind=\"x\",le=\"0.00025\"} 1\na_seconds_bucket{kind=\"x\",le=\"1.0\"} 3\n\
                         a_seconds_bucket{kind=\"x\",le=\"+Inf\"} 4\n\
                         a_seconds_count{kind=\"x\"} 4\na_seconds_sum{kind=\"x\"} 12.0\n";
        assert_eq!(
            text(Format::Prometheus),
            format!(
                "# TYPE a_bytes_total counter\n# HELP a_bytes_total Bytes.\n{samples}\
                 # TYPE a_ratio gauge\n# HELP a_ratio Ratio.\na_ratio 0.5\n\
                 # TYPE a_seconds histogram\n# HELP a_seconds Time.\n{histogram}"
            )
        );
        assert_eq!(
            text(Format::OpenMetrics),
            format!(
                "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes Bytes.\n{samples}\
                 # TYPE a_ratio gauge\n# UNIT a_ratio ratio\n# HELP a_ratio Ratio.\na_ratio 0.5\n\
                 # TYPE a_seconds histogram\n# UNIT a_seconds seconds\n# HELP a_seconds Time.\n{histogram}# EOF\n"
            )
        );
    }

    #[test]
    fn whoever_can_read_openmetrics_gets_it() {
        // What Prometheus 2.50 sends.
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(Format::preferred(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::preferred(Some("*/*")), Format::Prometheus);
        assert_eq!(Format::preferred(None), Format::Prometheus);
    }
}
