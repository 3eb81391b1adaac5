//! A diagnosis for people, on a terminal of 80 columns, and for programs, as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::finding::{Diagnosis, Finding, Section, Verdict};

/// The width of a terminal nobody has widened.
const COLUMNS: usize = 80;
/// Where what was found begins: behind the verdict and what was looked at.
const FOUND_COLUMN: usize = 30;
/// Where remedies begin.
const REMEDY_COLUMN: usize = 7;

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Section { name, findings } in &self.sections {
            writeln!(f, "{name}")?;
            findings.iter().try_for_each(|finding| write_finding(f, finding))?;
        }
        writeln!(f)?;
        let (bad, attention) = (self.count(Verdict::Bad), self.count(Verdict::Attention));
        match self.verdict() {
            Verdict::Good => writeln!(f, "Nothing needs attention."),
            Verdict::Attention => {
                writeln!(f, "ringwall can serve, but {} attention.", counted(attention, "thing needs", "things need"))
            }
            Verdict::Bad => {
                writeln!(f, "ringwall cannot serve: {} to be mended.", counted(bad, "thing has", "things have"))
            }
        }
    }
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn write_finding(f: &mut fmt::Formatter<'_>, finding: &Finding) -> fmt::Result {
    let Finding { what, found, verdict, remedy } = finding;
    let mark = match verdict {
        Verdict::Good => "ok",
        Verdict::Attention => "warn",
        Verdict::Bad => "FAIL",
    };
    // One column of space at least.
    let width = FOUND_COLUMN - REMEDY_COLUMN - 1;
    let mut lines = wrapped(found, COLUMNS - FOUND_COLUMN).into_iter();
    if what.chars().count() <= width {
        writeln!(f, "  {mark:<4} {what:<width$} {}", lines.next().unwrap_or_default())?;
    } else {
        let mut names = wrapped(what, COLUMNS - REMEDY_COLUMN).into_iter();
        writeln!(f, "  {mark:<4} {}", names.next().unwrap_or_default())?;
        names.try_for_each(|line| writeln!(f, "{:REMEDY_COLUMN$}{line}", ""))?;
    }
    lines.try_for_each(|line| writeln!(f, "{:FOUND_COLUMN$}{line}", ""))?;
    let remedy = remedy.iter().flat_map(|remedy| wrapped(&format!("-> {remedy}"), COLUMNS - REMEDY_COLUMN));
    remedy.into_iter().try_for_each(|line| writeln!(f, "{:REMEDY_COLUMN$}{line}", ""))
}

/// Lines of at most `width` characters, broken at spaces, and within words that are longer, as paths are.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut room = width;
    // What servers and files say may have anything in it, and a terminal would obey some of that.
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    for word in text.split(' ') {
        let length = word.chars().count();
        let space = usize::from(room < width);
        if space > 0 && length + space > room {
            lines.push(String::new());
            room = width;
        } else if space > 0 {
            lines.last_mut().expect("it begins with one").push(' ');
            room -= 1;
        }
        for character in word.chars() {
            if room == 0 {
                lines.push(String::new());
                room = width;
            }
            lines.last_mut().expect("it begins with one").push(character);
            room -= 1;
        }
    }
    lines
}

impl Diagnosis {
    /// One JSON object: the verdict, and an array of all findings.
    #[must_use]
    pub fn to_json(&self) -> String {
        let findings = self.sections.iter().flat_map(|Section { name, findings }| {
            findings.iter().map(move |Finding { what, found, verdict, remedy }| {
                let verdict = word(*verdict);
                json!({ "section": name, "what": what, "found": found, "verdict": verdict, "remedy": remedy })
            })
        });
        let findings: Vec<Value> = findings.collect();
        let all = json!({ "verdict": word(self.verdict()), "findings": findings });
        format!("{all:#}\n")
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "ok",
        Verdict::Attention => "warn",
        Verdict::Bad => "fail",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis() -> Diagnosis {
        let short = Finding::good("kernel", "6.18.0");
        let long = Finding::attention(
            "net.core.somaxconn",
            "128, and limits.listen_backlog is 4096: a burst of new clients is refused before that",
            "sysctl -w net.core.somaxconn=4096, and keep that in a file of /etc/sysctl.d, so that it is there after the \
             next start of the machine",
        );
        let path = Finding::bad(
            "certificate /etc/ringwall/certificates/of/the/cache/and/of/other/services/server.crt",
            "is\x1b[2J missing",
            "write it",
        );
        let section = |name, findings| Section { name, findings };
        Diagnosis { sections: vec![section("machine", vec![short, long]), section("files", vec![path])] }
    }

    #[test]
    fn a_screen_is_80_columns_wide_and_obeys_no_escapes() {
        assert_eq!(
            diagnosis().to_string(),
            "\
machine
  ok   kernel                 6.18.0
  warn net.core.somaxconn     128, and limits.listen_backlog is 4096: a burst of
                              new clients is refused before that
       -> sysctl -w net.core.somaxconn=4096, and keep that in a file of
       /etc/sysctl.d, so that it is there after the next start of the machine
files
  FAIL certificate
       /etc/ringwall/certificates/of/the/cache/and/of/other/services/server.crt
                              is?[2J missing
       -> write it

ringwall cannot serve: 1 thing has to be mended.
"
        );
        assert!(diagnosis().to_string().lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn words_that_fit_no_line_are_broken() {
        assert_eq!(wrapped("ab cdefgh ij", 4), ["ab", "cdef", "gh", "ij"]);
        assert_eq!(wrapped("abcd efgh", 4), ["abcd", "efgh"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    #[test]
    fn json_has_every_finding_with_its_section_and_the_worst_verdict() {
        let json: Value = serde_json::from_str(&diagnosis().to_json()).unwrap();
        assert_eq!(json["verdict"], "fail");
        assert_eq!(
            json["findings"][0],
            json!({ "section": "machine", "what": "kernel", "found": "6.18.0", "verdict": "ok", "remedy": null })
        );
        assert_eq!(json["findings"].as_array().unwrap().len(), 3);
    }
}
