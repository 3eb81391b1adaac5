//! Session tickets that outlive a process and are good on other hosts.

use rcgen::KeyPair;

use crate::program::{Authority, Folder, Program, openssl};

const PAIR: &str = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\n";
const SHARED: &str = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\nticket_secret = \"tickets.secret\"\n";
/// What `openssl rand -hex 32` prints.
const SECRET: &str = "a7c0b1f5d2e84c3996e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6\n";
const OTHER_SECRET: &str = "b7c0b1f5d2e84c3996e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6\n";

/// Both versions; with the second, OpenSSL before 3.5 resumes by ticket, too.
const VERSIONS: [&str; 2] = ["-tls1_3", "-tls1_2"];

/// Connects and keeps the ticket; the session's line of the log.
fn first_visit(program: &mut Program, arguments: &[&str]) -> String {
    program.s_client(&[arguments, &["-ign_eof", "-sess_out", "session.pem"]].concat());
    program.closed()
}

/// Connects with the ticket; the session's line of the log.
fn second_visit(program: &mut Program, arguments: &[&str]) -> String {
    program.s_client(&[arguments, &["-ign_eof", "-sess_in", "session.pem"]].concat());
    program.closed()
}

#[test]
fn a_ticket_is_good_on_each_shard_after_a_restart_and_on_another_host_with_the_same_secret() {
    let (folder, _) = Folder::with_server();
    folder.write("tickets.secret", SECRET);
    let mut first = Program::start(&folder, SHARED);
    let mut other_host = Program::start(&folder, SHARED);
    for version in VERSIONS {
        let line = first_visit(&mut first, &[version]);
        assert!(line.contains("resumed=false"), "{line}");
        let mut shards = [false; 2];
        // The draws of placement are fair: that one of two shards is missed a hundred times has no chance.
        for _ in 0..100 {
            let line = second_visit(&mut first, &[version]);
            assert!(line.contains("resumed=true"), "{line}");
            shards[usize::from(line.contains("shard=1"))] = true;
            if shards == [true; 2] {
                break;
            }
        }
        assert_eq!(shards, [true; 2], "shards that resumed");
        let line = second_visit(&mut other_host, &[version]);
        assert!(line.contains("resumed=true"), "{line}");
    }
    first_visit(&mut first, &[]);
    drop((first, other_host));
    let mut restarted = Program::start(&folder, SHARED);
    let line = second_visit(&mut restarted, &[]);
    assert!(line.contains("resumed=true"), "{line}");
}

#[test]
fn a_ticket_is_worth_nothing_with_another_secret_or_none() {
    let (folder, _) = Folder::with_server();
    folder.write("tickets.secret", SECRET);
    let mut first = Program::start(&folder, SHARED);
    folder.write("other.secret", OTHER_SECRET);
    let mut other = Program::start(&folder, &SHARED.replace("tickets.secret", "other.secret"));
    let mut alone = Program::start(&folder, PAIR);
    for version in VERSIONS {
        first_visit(&mut first, &[version]);
        for program in [&mut other, &mut alone] {
            let line = second_visit(program, &[version]);
            assert!(line.contains("resumed=false") && line.contains("reason=backend_closed"), "{line}");
        }
    }
}

#[test]
fn a_handshake_ends_with_one_ticket_for_twelve_hours_and_without_early_data() {
    let (folder, _) = Folder::with_server();
    let program = Program::start(&folder, PAIR);
    let output = program.s_client(&["-tls1_3", "-ign_eof", "-msg", "-sess_out", "session.pem"]);
    assert_eq!(output.matches("NewSessionTicket").count(), 1, "{output}");
    // The client's own is the last.
    let finished = output.rfind(", Finished");
    assert!(finished.is_some() && finished < output.find("NewSessionTicket"), "{output}");
    let session = openssl(folder.path(), &["sess_id", "-in", "session.pem", "-noout", "-text"]);
    for text in ["TLS session ticket lifetime hint: 43200 (seconds)", "Max Early Data: 0"] {
        assert!(session.contains(text), "{text}: {session}");
    }
}

/// A folder with a server, a secret and the client `worker`, whose serial number is 7.
fn folder_with_worker() -> (Folder, Authority) {
    let (folder, authority) = Folder::with_server();
    folder.write("tickets.secret", SECRET);
    let worker = authority.certify_as(&["worker.test"], &KeyPair::generate().unwrap(), 7);
    folder.write_pair("worker", worker);
    (folder, authority)
}

const WORKER: [&str; 4] = ["-cert", "worker.crt", "-key", "worker.key"];

#[test]
fn a_ticket_from_a_listener_that_asks_for_no_certificate_opens_none_that_does() {
    let (folder, _) = folder_with_worker();
    let mut open = Program::start(&folder, SHARED);
    let keys = format!("{SHARED}client_auth = \"required\"\nclient_ca = \"ca.pem\"\n");
    let mut guarded = Program::start(&folder, &keys);
    for version in VERSIONS {
        first_visit(&mut open, &[version]);
        let line = second_visit(&mut guarded, &[version]);
        assert!(line.contains("reason=handshake_failed") && line.contains("shown no certificate"), "{line}");
        let line = second_visit(&mut guarded, &[&[version][..], &WORKER].concat());
        assert!(line.contains("resumed=false client_identity=\"worker.test\""), "{line}");
    }
}

#[test]
fn a_client_that_was_revoked_after_its_ticket_was_issued_does_not_get_in() {
    let (folder, authority) = folder_with_worker();
    folder.write("before.crl", &authority.revoke(&[]));
    folder.write("after.crl", &authority.revoke(&[7]));
    let keys = format!(
        "{SHARED}client_auth = \"required\"\nclient_ca = \"ca.pem\"\nclient_crl = [\"before.crl\"]\n\
         client_crl_coverage = \"leaf\"\n"
    );
    let mut before = Program::start(&folder, &keys);
    let mut after = Program::start(&folder, &keys.replace("before.crl", "after.crl"));
    for version in VERSIONS {
        let arguments = [&[version][..], &WORKER].concat();
        first_visit(&mut before, &arguments);
        let line = second_visit(&mut before, &arguments);
        assert!(line.contains("resumed=true client_identity=\"worker.test\""), "{line}");
        let line = second_visit(&mut after, &arguments);
        assert!(line.contains("reason=handshake_failed") && line.contains("revoked"), "{line}");
    }
}
