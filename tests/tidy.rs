//! The style as an ordinary test: layers, where `unsafe` and rustls may stand, sizes, names, reasons, links.
//!
//! Each rule gathers every breach as `file:line: what is wrong; what to do` and fails with all of them at once.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Each top-level module's layer; imports go to a lower layer only.
const LAYERS: &[(&str, u32)] = &[
    ("metrics", 0),
    ("time", 0),
    ("pool", 0),
    ("date", 0),
    ("slots", 0),
    ("files", 0),
    ("rwlock", 0),
    ("hex", 0),
    ("networks", 0),
    ("takeover", 0),
    ("secret", 1),
    ("secrecy", 0),
    ("cgroup", 1),
    ("auth_check", 1),
    ("quota", 1),
    ("labels", 0),
    ("io", 10),
    ("pthread", 10),
    ("tls", 10),
    ("wire", 10),
    ("mailbox", 20),
    ("ledger", 20),
    ("load", 20),
    ("roster", 20),
    ("pulse", 20),
    ("sources", 20),
    ("events", 21),
    ("session", 30),
    ("multiplex", 31),
    ("shard", 40),
    ("dispatcher", 41),
    ("config", 50),
    ("control", 51),
    ("server", 52),
    ("doctor", 53),
    ("cli", 53),
    ("lib", 60),
    ("main", 61),
];

/// Imports that the layers would allow and the design does not: the module, the path, what is excepted, the reason.
const FORBIDDEN: &[(&str, &str, &[&str], &str)] = &[
    ("session", "crate::io", &["Errno"], "a session knows no file descriptor: pass bytes in and out"),
    ("session", "crate::mailbox", &[], "a session has one owner and no thread"),
    ("session", "std::thread", &[], "a session knows no thread"),
    ("session", "std::net", &[], "a session knows no socket"),
    ("session", "std::time::Instant", &[], "a session is told the time"),
    ("session", "tracing", &[], "a session does not log: return what happened, the shard passes it on"),
    ("multiplex", "crate::io", &["Errno"], "a multiplexer knows no file descriptor: pass bytes in and out"),
    ("multiplex", "crate::mailbox", &[], "a multiplexer has one owner and no thread"),
    ("multiplex", "std::thread", &[], "a multiplexer knows no thread"),
    ("multiplex", "std::net", &[], "a multiplexer knows no socket"),
    ("multiplex", "std::time::Instant", &[], "a multiplexer is told the time"),
    ("multiplex", "tracing", &[], "a multiplexer does not log: return what happened, the shard passes it on"),
    ("dispatcher", "crate::session", &["Refusal"], "only a shard knows both sessions and the ring"),
    ("dispatcher", "crate::tls", &[], "the dispatcher sees neither ciphertext nor plaintext"),
    ("dispatcher", "tracing", &[], "a log line would wait for its reader: send an event to the control plane"),
    ("shard", "tracing", &[], "a log line would wait for its reader: send an event to the control plane"),
];

/// The modules with unsafe code: the kernel's memory and calls, and the locks that C calls with pointers.
const UNSAFE: &[&str] = &["io", "pthread"];

/// Longest file in `src`, in lines.
const LINES_MAX: usize = 550;

/// Words that name nothing in particular.
const EMPTY_NAMES: &[&str] = &["helper", "util", "common", "misc", "manager"];

struct Source {
    /// Relative to the package, with forward slashes.
    path: String,
    text: String,
}

impl Source {
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The file with comments and the contents of literals blanked, line for line.
    fn code(&self) -> String {
        blank_comments_and_literals(&self.text)
    }

    /// The top-level module of a file under `src`.
    fn module(&self) -> &str {
        let path = self.path.strip_prefix("src/").unwrap_or(&self.path);
        path.split('/').next().unwrap_or(path).trim_end_matches(".rs")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` (relative to the package) whose name ends in one of `endings`, in order.
fn files(folder: &str, endings: &[&str]) -> Vec<Source> {
    fn walk(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_string_lossy();
            if entry.is_dir() {
                if !["target", ".git", "node_modules"].contains(&&*name) {
                    walk(&entry, endings, found);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(entry);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), endings, &mut found);
    found.sort();
    found
        .into_iter()
        .filter_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            Some(Source { path, text })
        })
        .collect()
}

/// All Rust of the package but this file, which must name what it forbids.
fn rust() -> Vec<Source> {
    ["src", "tests", "benches"]
        .iter()
        .flat_map(|folder| files(folder, &[".rs"]))
        .filter(|source| source.path != "tests/tidy.rs")
        .collect()
}

/// Replaces comments and the insides of string and character literals by spaces, and keeps every line break.
fn blank_comments_and_literals(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(hashes) = raw_string_hashes(rest, out.chars().next_back()) {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = rest.find('"').unwrap() + 1;
            rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
        } else if first == '"' {
            string_length(rest)
        } else if first == '\'' {
            character_length(rest)
        } else {
            0
        };
        if skipped == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(rest[..skipped].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[skipped..];
        }
    }
    out
}

/// The number of `#` of a raw string that begins here.
fn raw_string_hashes(rest: &str, before: Option<char>) -> Option<usize> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.chars().take_while(|&c| c == '#').count();
    after[hashes..].starts_with('"').then_some(hashes)
}

fn string_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character literal, 0 for a lifetime.
fn character_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(0, |at| 3 + at + 1),
        Some(_) => chars.next().filter(|&(_, c)| c == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

/// The paths that follow each `prefix` (`crate::`, say) in `code`, braces spelt out, with their lines.
fn paths_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let line = 1 + code[..at].matches('\n').count();
        let rest = &code[at + prefix.len()..];
        let mut depth = 0_usize;
        let mut path = String::new();
        for c in rest.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                ',' if depth == 1 => found.push((line, std::mem::take(&mut path))),
                c if c.is_alphanumeric() || c == '_' || c == ':' => path.push(c),
                c if c.is_whitespace() && depth > 0 => {}
                _ if depth == 0 => break,
                _ => {}
            }
            if depth == 0 && c == '}' {
                break;
            }
        }
        found.push((line, path));
    }
    found.retain(|(_, path)| !path.is_empty());
    found
}

/// Whether `word` stands in `line` with no letter, digit or underscore beside it.
fn has_word(line: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(joins) && !line[at + word.len()..].starts_with(joins))
}

#[derive(Default)]
struct Breaches(String);

impl Breaches {
    fn add(&mut self, path: &str, line: usize, what: impl std::fmt::Display) {
        writeln!(self.0, "{path}:{line}: {what}").unwrap();
    }

    fn none(self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}

#[test]
fn imports_go_downward() {
    let layers: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    let mut breaches = Breaches::default();
    for source in files("src", &[".rs"]) {
        let module = source.module();
        let Some(&layer) = layers.get(module) else {
            breaches.add(&source.path, 1, format_args!("module `{module}` has no layer; give it one in tests/tidy.rs"));
            continue;
        };
        for (line, path) in paths_after(&source.code(), "crate::") {
            let target = path.split("::").next().unwrap_or(&path);
            match layers.get(target) {
                Some(_) if target == module => {}
                Some(&below) if below < layer => {}
                Some(_) => breaches.add(
                    &source.path,
                    line,
                    format_args!("`{module}` imports `{target}`, which is not below it; move the shared part down"),
                ),
                None => {}
            }
        }
    }
    breaches.none();
}

#[test]
fn sessions_dispatcher_and_shards_do_not_know_what_they_must_not() {
    let mut breaches = Breaches::default();
    for source in files("src", &[".rs"]) {
        let code = source.code();
        for &(module, path, excepted, reason) in FORBIDDEN.iter().filter(|rule| rule.0 == source.module()) {
            let (first, rest) = path.split_once("::").unwrap_or((path, ""));
            for (line, found) in paths_after(&code, &format!("{first}::")) {
                let below = found.strip_prefix(rest).filter(|below| below.is_empty() || below.starts_with("::"));
                let below = if rest.is_empty() { Some(&*found) } else { below };
                if below.is_some_and(|below| !excepted.contains(&below.trim_start_matches("::"))) {
                    breaches.add(&source.path, line, format_args!("`{module}` names `{path}`; {reason}"));
                }
            }
        }
    }
    breaches.none();
}

#[test]
fn rustls_is_named_in_tls_alone() {
    let mut breaches = Breaches::default();
    for source in files("src", &[".rs"]) {
        for (line, code) in (1..).zip(source.code().lines()) {
            if has_word(code, "rustls") && source.module() != "tls" {
                breaches.add(&source.path, line, "names rustls; go through crate::tls");
            }
        }
    }
    breaches.none();
}

#[test]
fn unsafe_stands_in_io_and_pthread_alone() {
    let mut breaches = Breaches::default();
    for source in files("src", &[".rs"]).into_iter().filter(|source| !UNSAFE.contains(&source.module())) {
        for (line, code) in (1..).zip(source.code().lines()) {
            if has_word(code, "unsafe") || has_word(code, "unsafe_code") {
                breaches.add(&source.path, line, "unsafe code; put the call behind a safe function of src/io/sys.rs");
            }
        }
    }
    breaches.none();
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    let mut breaches = Breaches::default();
    for source in files("src", &[".rs"]) {
        let lines: Vec<_> = source.text.lines().collect();
        for (at, code) in source.code().lines().enumerate() {
            let opens = code.contains("unsafe {") || code.contains("unsafe impl");
            // The comment may stand above the statement, of which the block is only a part.
            let said = lines[at.saturating_sub(8)..=at].iter().any(|line| line.contains("SAFETY:"));
            if opens && !said {
                breaches.add(
                    &source.path,
                    at + 1,
                    "unsafe without a `// SAFETY:` comment above; say which fact meets it",
                );
            }
        }
    }
    breaches.none();
}

#[test]
fn no_file_of_the_program_is_longer_than_its_noun() {
    let mut breaches = Breaches::default();
    for source in files("src", &[".rs"]) {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            breaches.add(&source.path, LINES_MAX, format_args!("{lines} lines in all; find its second noun"));
        }
    }
    breaches.none();
}

#[test]
fn every_file_of_the_program_says_what_it_owns() {
    let mut breaches = Breaches::default();
    for source in files("src", &[".rs"]).into_iter().chain(files("tests", &[".rs"])).chain(files("benches", &[".rs"])) {
        if !source.text.starts_with("//!") {
            breaches.add(&source.path, 1, "does not begin with `//!`; say what the file owns");
        }
    }
    breaches.none();
}

#[test]
fn names_say_something() {
    let mut breaches = Breaches::default();
    for source in rust() {
        let name = source.path.rsplit('/').next().unwrap_or_default();
        for word in EMPTY_NAMES {
            if name.contains(word) {
                breaches.add(&source.path, 1, format_args!("`{word}` names nothing; name the file after its noun"));
            }
        }
        for (line, code) in (1..).zip(source.code().lines()) {
            if code.contains("fn test_") {
                breaches.add(&source.path, line, "a test's name is a sentence and needs no `test_`");
            }
        }
    }
    breaches.none();
}

#[test]
fn nothing_is_left_for_later_and_nothing_cites_a_tracker() {
    const LATER: &[&str] = &["TODO", "FIXME", "XXX", "todo!", "unimplemented!", "#[ignore"];
    let mut breaches = Breaches::default();
    let others = files("", &[".toml", ".md", ".sh", ".yml", ".yaml", ".py", ".js", ".service"]);
    for source in rust().into_iter().chain(others) {
        for (line, text) in source.lines() {
            for word in LATER.iter().filter(|word| text.contains(**word)) {
                breaches.add(&source.path, line, format_args!("`{word}`; do it or leave it out"));
            }
            if cites_a_tracker(text) {
                breaches.add(&source.path, line, "cites a tracker's number; say the reason itself");
            }
        }
    }
    breaches.none();
}

/// Whether `line` has something like `issue 7` or ` #7`.
fn cites_a_tracker(line: &str) -> bool {
    let numbered = |mark: &str| {
        line.match_indices(mark).any(|(at, _)| line[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
    };
    numbered("issue ") || numbered("issue #") || numbered("Issue ") || numbered(" #") || numbered("(#")
}

#[test]
fn every_dependency_says_why_it_is_there() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let mut breaches = Breaches::default();
    let mut in_dependencies = false;
    let mut reason = false;
    for (line, text) in (1..).zip(manifest.lines().map(str::trim)) {
        if let Some(table) = text.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            let named = table.rsplit_once("dependencies.").is_some();
            in_dependencies = table.ends_with("dependencies");
            if named && !reason {
                breaches.add("Cargo.toml", line, "a dependency without a comment above; say why it is there");
            }
        } else if in_dependencies && text.contains('=') && !text.starts_with('#') && !reason {
            breaches.add("Cargo.toml", line, "a dependency without a comment above; say why it is there");
        }
        reason = text.starts_with('#');
    }
    breaches.none();
}

#[test]
fn no_file_names_a_package_registry_host() {
    const HOSTS: &[&str] = &[
        "index.crates.io",
        "static.crates.io",
        "pypi.org",
        "pythonhosted.org",
        "registry.npmjs",
        "deb.debian.org",
        "artifactory",
    ];
    let mut breaches = Breaches::default();
    for source in files("", &[""]).iter().filter(|source| source.path != "tests/tidy.rs") {
        for (line, text) in source.lines() {
            for host in HOSTS.iter().filter(|host| text.contains(**host)) {
                breaches.add(&source.path, line, format_args!("names the host {host}; use the client's own settings"));
            }
        }
    }
    breaches.none();
}

#[test]
fn links_and_paths_in_documents_lead_to_files() {
    const FOLDERS: &[&str] = &["src/", "tests/", "benches/", "config/", "deploy/"];
    let mut breaches = Breaches::default();
    for source in files("", &[".md"]) {
        let folder = root().join(&source.path).parent().unwrap().to_owned();
        for (line, text) in source.lines() {
            for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = link.split('#').next().unwrap_or_default();
                if !target.is_empty() && !target.contains(':') && !folder.join(target).exists() {
                    breaches.add(&source.path, line, format_args!("the link to `{target}` leads nowhere"));
                }
            }
        }
    }
    for source in rust().into_iter().chain(files("", &[".md"])) {
        let prose = |line: &str| source.path.ends_with(".md") || line.trim_start().starts_with("//");
        for (line, text) in source.lines().filter(|(_, text)| prose(text)) {
            for path in text.split('`').skip(1).step_by(2).filter_map(|quoted| quoted.split(' ').next()) {
                let literal = !path.contains(['{', '*', '<', '…', '$']);
                if literal && FOLDERS.iter().any(|folder| path.starts_with(folder)) && !root().join(path).exists() {
                    breaches.add(&source.path, line, format_args!("`{path}` does not exist"));
                }
            }
        }
    }
    breaches.none();
}

#[test]
fn the_rules_see_through_comments_literals_and_braces() {
    let text = "// crate::a\nlet x = \"crate::b\"; let c = '\"'; let l: &'static str = r#\"crate::c\"#;\nuse crate::{d::e, f};\n";
    let code = blank_comments_and_literals(text);
    let found = paths_after(&code, "crate::");
    assert_eq!(found, [(3, "d::e".to_owned()), (3, "f".to_owned())]);
    assert_eq!(code.lines().count(), 3);
    assert!(has_word("use rustls::x", "rustls") && !has_word("rustls_pki", "rustls"));
    assert!(cites_a_tracker("see issue 12") && cites_a_tracker("fixed (#3)") && !cites_a_tracker("#[test]"));
}
