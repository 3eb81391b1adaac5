//! Files that are replaced while the program serves.

use std::fs;
use std::os::unix::fs::symlink;

use rcgen::KeyPair;
use rustix::process::Signal;

use crate::program::{Authority, Folder, Program};

const PAIR: &str = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\n";

/// A folder with a certificate of serial number 5001h, and the program that shows it.
fn serving() -> (Folder, Authority, Program) {
    let (folder, authority) = Folder::with_server();
    folder.write_pair("server", server(&authority, 0x5001));
    let program = Program::start(&folder, PAIR);
    assert_eq!(program.shown_serial(), "5001");
    (folder, authority, program)
}

fn server(authority: &Authority, serial: u64) -> (String, String) {
    authority.certify_as(&["redis.test"], &KeyPair::generate().unwrap(), serial)
}

#[test]
fn a_certificate_that_is_written_over_is_shown_to_the_next_client() {
    let (folder, authority, mut program) = serving();
    folder.write_pair("server", server(&authority, 0x5002));
    let line = program.line_with("reloaded");
    assert!(line.contains("INFO reloaded cause=files changed files=2 folders=0 reloads=1"), "{line}");
    assert_eq!(program.shown_serial(), "5002");
    // Removed and made again: whatever is read in between, the end is the new one.
    fs::remove_file(folder.path().join("server.key")).unwrap();
    fs::remove_file(folder.path().join("server.crt")).unwrap();
    folder.write_pair("server", server(&authority, 0x5003));
    program.line_with("INFO reloaded");
    assert_eq!(program.shown_serial(), "5003");
}

#[test]
fn sighup_reads_the_files_at_once() {
    let (folder, authority, mut program) = serving();
    folder.write_pair("new", server(&authority, 0x5002));
    let text = fs::read_to_string(folder.path().join("ringwall.toml")).unwrap();
    // The new names are in the configuration alone.
    folder.write(
        "ringwall.toml",
        &text.replace("server.", "new.").replace("max_connections = 100", "max_connections = 99"),
    );
    program.signal(Signal::HUP);
    let line = program.line_with("INFO reloaded");
    let expected =
        "INFO reloaded cause=SIGHUP changes=listeners changed: public; changed: limits files=2 folders=0 reloads=1";
    assert!(line.contains(expected), "{line}");
    assert_eq!(program.shown_serial(), "5002");
    // The new files are watched.
    folder.write_pair("new", server(&authority, 0x5003));
    program.line_with("INFO reloaded");
    assert_eq!(program.shown_serial(), "5003");
}

#[test]
fn keys_of_tls_are_taken_and_a_file_that_is_refused_is_not_looked_at_again() {
    let (folder, authority, mut program) = serving();
    let text = fs::read_to_string(folder.path().join("ringwall.toml")).unwrap();
    folder.write("ringwall.toml", &text.replace("[listener.tls]", "[listener.tls]\nmin_version = \"1.3\""));
    program.signal(Signal::HUP);
    program.line_with("INFO reloaded");
    let output = program.s_client(&["-tls1_2"]);
    assert!(output.contains("alert protocol version"), "{output}");
    folder.write("ringwall.toml", &text.replace("max_connections = 100", "max_connections = 101"));
    program.signal(Signal::HUP);
    let line = program.line_with("reload failed");
    assert!(
        line.contains("ERROR reload failed: what was in use stays cause=SIGHUP error=ringwall.toml: limits.max_connections \
                       cannot grow beyond 100 without a restart, since tables are made for as many at the start, and the file \
                       says 101; send SIGUSR2, by which a new process takes over without closing a listener, or restart \
                       refused=limits.max_connections reloads_failed=1"),
        "{line}"
    );
    // The file that was refused is not looked at when a certificate changes.
    folder.write_pair("server", server(&authority, 0x5002));
    program.line_with("INFO reloaded");
    assert_eq!(program.shown_serial(), "5002");
}

#[test]
fn a_broken_file_changes_nothing_and_half_of_a_pair_waits_for_the_other() {
    let (folder, authority, mut program) = serving();
    folder.write("server.crt", "-----BEGIN CERTIFICATE-----\nMIIB");
    let line = program.line_with("reload failed");
    assert!(
        line.contains("ERROR reload failed: what was in use stays cause=files changed error=ringwall.toml:")
            && line.contains("certificate server.crt: the PEM is damaged"),
        "{line}"
    );
    assert_eq!(program.shown_serial(), "5001");
    let (certificate, key) = server(&authority, 0x5002);
    folder.write("server.crt", &certificate);
    let line = program.line_with("reload failed");
    assert!(line.contains("private_key server.key: the key does not belong to certificate server.crt"), "{line}");
    assert_eq!(program.shown_serial(), "5001");
    folder.write("server.key", &key);
    program.line_with("INFO reloaded");
    assert_eq!(program.shown_serial(), "5002");
    program.signal(Signal::TERM);
    let totals = program.line_with("totals");
    assert!(totals.ends_with("reloads=1 reloads_failed=2"), "{totals}");
}

#[test]
fn links_that_are_exchanged_as_kubernetes_and_certbot_do_lead_to_the_new_certificate() {
    let (folder, authority) = Folder::with_server();
    let path = |name: &str| folder.path().join(name);
    for (version, serial) in [("..1", 0x5001), ("..2", 0x5002)] {
        fs::create_dir(path(version)).unwrap();
        folder.write_pair(&format!("{version}/tls"), server(&authority, serial));
    }
    symlink("..1", path("..data")).unwrap();
    symlink("..data/tls.crt", path("tls.crt")).unwrap();
    symlink("..data/tls.key", path("tls.key")).unwrap();
    let mut program = Program::start(&folder, &PAIR.replace("server.", "tls."));
    assert_eq!(program.shown_serial(), "5001");
    symlink("..2", path("..new")).unwrap();
    fs::rename(path("..new"), path("..data")).unwrap();
    program.line_with("INFO reloaded");
    assert_eq!(program.shown_serial(), "5002");
    // certbot: each link on its own, to another name.
    folder.write_pair("archive3", server(&authority, 0x5003));
    for ending in ["crt", "key"] {
        fs::remove_file(path(&format!("tls.{ending}"))).unwrap();
        symlink(format!("archive3.{ending}"), path(&format!("tls.{ending}"))).unwrap();
    }
    program.line_with("INFO reloaded");
    assert_eq!(program.shown_serial(), "5003");
}

#[test]
fn a_client_that_is_revoked_does_not_get_in_any_more_with_or_without_its_ticket() {
    let (folder, authority) = Folder::with_server();
    folder.write_pair("worker", authority.certify_as(&["worker.test"], &KeyPair::generate().unwrap(), 7));
    folder.write("clients.crl", &authority.revoke(&[]));
    let keys = format!(
        "{PAIR}client_auth = \"required\"\nclient_ca = \"ca.pem\"\nclient_crl = [\"clients.crl\"]\n\
         client_crl_coverage = \"leaf\"\n"
    );
    let mut program = Program::start(&folder, &keys);
    let worker = ["-cert", "worker.crt", "-key", "worker.key", "-ign_eof"];
    program.s_client(&[&worker[..], &["-sess_out", "session.pem"]].concat());
    let line = program.closed();
    assert!(line.contains("client_identity=\"worker.test\""), "{line}");
    folder.write("clients.crl", &authority.revoke(&[7]));
    program.line_with("INFO reloaded");
    for more in [&[][..], &["-sess_in", "session.pem"]] {
        program.s_client(&[&worker[..], more].concat());
        let line = program.closed();
        assert!(line.contains("reason=handshake_failed") && line.contains("revoked"), "{line}");
    }
}

#[test]
fn tickets_outlive_a_reload() {
    let (_folder, _, mut program) = serving();
    program.s_client(&["-ign_eof", "-sess_out", "session.pem"]);
    program.signal(Signal::HUP);
    program.line_with("INFO reloaded");
    program.s_client(&["-ign_eof", "-sess_in", "session.pem"]);
    program.line_with("resumed=true");
}
