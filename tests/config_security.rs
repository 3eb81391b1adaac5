//! What the configuration refuses, or lowers, for the sake of the machine around it: secrets that are open to
//! everybody, and more memory than the control group has.
#![expect(clippy::unwrap_used, reason = "in a test an unexpected error is a failure")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ringwall::config::{Config, Machine};
use tempfile::TempDir;

mod config_support;
use config_support::{MINIMAL, machine, parse_on, refusal};

const STRICT: &str = "[security]\nstrict_key_permissions = true\n";
const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

/// A folder with the files that the minimal configuration names, the key readable by its owner.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["ringwall.example".to_owned()]).unwrap();
    write(folder.path(), "server.crt", &made.cert.pem(), 0o644);
    write(folder.path(), "server.key", &made.signing_key.serialize_pem(), 0o600);
    folder
}

fn write(folder: &Path, name: &str, text: &str, mode: u32) {
    std::fs::write(folder.join(name), text).unwrap();
    std::fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
}

/// Loads `config` from `folder`: its warnings, or why it is refused, both without the folder's name.
fn load(folder: &TempDir, config: &str) -> Result<Vec<String>, String> {
    let at = format!("{}/", folder.path().display());
    write(folder.path(), "ringwall.toml", config, 0o644);
    let loaded = Config::load(&folder.path().join("ringwall.toml"), &machine());
    let without_folder = |text: String| text.replace(&at, "");
    loaded
        .map(|(config, _)| config.warnings.into_iter().map(without_folder).collect())
        .map_err(|error| without_folder(error.to_string()))
}

#[test]
fn a_key_that_everybody_may_read_is_a_warning_or_refused() {
    let folder = folder();
    let strict = format!("{MINIMAL}{STRICT}");
    assert_eq!(load(&folder, &strict), Ok(vec![]));
    for (mode, open) in [(0o640, false), (0o660, false), (0o644, true), (0o602, true)] {
        std::fs::set_permissions(folder.path().join("server.key"), Permissions::from_mode(mode)).unwrap();
        let problem = "ringwall.toml:4: listener.tls: private_key server.key: everybody on this machine may read or change \
                       it; restrict it with `chmod o-rw server.key`";
        let (warned, refused) = (load(&folder, MINIMAL), load(&folder, &strict));
        if open {
            assert_eq!(warned, Ok(vec![problem.to_owned()]), "{mode:o}");
            let refusal = format!("{problem}; security.strict_key_permissions refuses such a file");
            assert_eq!(refused, Err(refusal), "{mode:o}");
        } else {
            assert_eq!((warned, refused), (Ok(vec![]), Ok(vec![])), "{mode:o}");
        }
    }
}

#[test]
fn ticket_secrets_and_keys_towards_servers_are_secrets_too() {
    let folder = folder();
    write(folder.path(), "tickets", SECRET, 0o604);
    let key = "private_key = \"server.key\"";
    let config = format!("{}{STRICT}", MINIMAL.replacen(key, &format!("{key}, ticket_secret = \"tickets\""), 1));
    let refusal = load(&folder, &config).unwrap_err();
    assert!(
        refusal.starts_with("ringwall.toml:4: listener.tls: ticket_secret tickets: everybody on this"),
        "{refusal}"
    );
    let server = folder.path().join("proxy.key");
    std::fs::copy(folder.path().join("server.key"), &server).unwrap();
    std::fs::set_permissions(&server, Permissions::from_mode(0o604)).unwrap();
    let tls = "tls = { ca = \"server.crt\", certificate = \"server.crt\", private_key = \"proxy.key\" }";
    let refusal = load(&folder, &format!("{MINIMAL}{tls}\n{STRICT}")).unwrap_err();
    assert!(refusal.starts_with("ringwall.toml:9: backend.tls: private_key proxy.key: everybody on this"), "{refusal}");
}

#[test]
fn strictness_is_true_or_false() {
    assert_eq!(
        refusal(&format!("{MINIMAL}[security]\nstrict_key_permissions = 1\n")),
        "10: security.strict_key_permissions: 1 is neither true nor false"
    );
    assert_eq!(
        refusal(&format!("{MINIMAL}[security]\nstrict = true\n")),
        "10: security.strict: unknown key; known here: strict_key_permissions"
    );
}

/// Four cores in a control group with this many MiB.
fn machine_with(mebibytes: u64) -> Machine {
    Machine { memory_max: Some(mebibytes << 20), ..machine() }
}

#[test]
fn the_default_of_shard_memory_stays_within_the_control_group() {
    let memory = |mebibytes| {
        let config = parse_on(&machine_with(mebibytes), MINIMAL).unwrap();
        (config.limits.shard_memory >> 20, config.warnings)
    };
    assert_eq!(memory(1_366), (256, vec![]));
    let lowered = |mebibytes: u64, to: usize| {
        let warning = format!(
            "/etc/ringwall.toml: limits.shard_memory: lowered from its default 256MiB to {to}MiB: all 4 shards would take \
             1024 MiB, and the control group has {mebibytes} MiB (memory.max), a quarter of which TLS states and the \
             kernel's buffers need; raise the limit (MemoryMax= of the systemd unit, the container's memory)"
        );
        (to, vec![warning])
    };
    assert_eq!(memory(512), lowered(512, 96));
    // No shard has less than the least that may be written.
    assert_eq!(memory(64), lowered(64, 16));
}

#[test]
fn a_written_shard_memory_beyond_the_control_group_is_taken_and_warned_about() {
    let text = format!("{MINIMAL}[limits]\nshard_memory = \"200MiB\"\n");
    let config = parse_on(&machine_with(512), &text).unwrap();
    assert_eq!(config.limits.shard_memory, 200 << 20);
    assert_eq!(
        config.warnings,
        [
            "/etc/ringwall.toml:10: limits.shard_memory: \"200MiB\" is more than fits: all 4 shards would take 800 MiB, and \
          the control group has 512 MiB (memory.max), a quarter of which TLS states and the kernel's buffers need: raise \
          the limit (MemoryMax= of the systemd unit, the container's memory), or write at most \"96MiB\""
        ]
    );
    assert_eq!(parse_on(&machine(), &text).unwrap().warnings, [""; 0]);
}
