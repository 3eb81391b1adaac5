//! Sessions that come back with a ticket, and clients that take none.

use crate::program::{Folder, Program};

const PAIR: &str = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\n";

/// Asserts what the log says of the next connections: whether each has resumed.
fn expect_resumed(program: &mut Program, resumed: &[bool]) {
    for (connection, resumed) in resumed.iter().enumerate() {
        let line = program.closed();
        assert!(line.contains(&format!(" resumed={resumed} ")), "connection {connection}: {line}");
    }
}

#[test]
fn a_client_that_connects_again_resumes_with_its_ticket() {
    let (folder, _) = Folder::with_server();
    let mut program = Program::start(&folder, PAIR);
    program.s_client(&["-tls1_2", "-reconnect"]);
    expect_resumed(&mut program, &[false, true, true, true, true, true]);
    program.s_client(&["-tls1_2", "-reconnect", "-no_ticket"]);
    expect_resumed(&mut program, &[false; 6]);
}

#[test]
fn a_ticket_from_a_file_resumes_where_it_belongs_and_is_passed_over_elsewhere() {
    let (folder, _) = Folder::with_server();
    let mut program = Program::start(&folder, PAIR);
    let mut another = Program::start(&folder, PAIR);
    for version in ["-tls1_3", "-tls1_2"] {
        // It ends when the server does, by when the ticket is here.
        program.s_client(&[version, "-ign_eof", "-servername", "redis.test", "-sess_out", "ticket.pem"]);
        expect_resumed(&mut program, &[false]);
        let back = [version, "-ign_eof", "-servername", "redis.test", "-sess_in", "ticket.pem"];
        program.s_client(&back);
        expect_resumed(&mut program, &[true]);
        let output = another.s_client(&back);
        assert!(output.contains("CONNECTION ESTABLISHED") && output.contains("Verification: OK"), "{output}");
        expect_resumed(&mut another, &[false]);
        program.s_client(&[version, "-ign_eof", "-servername", "other.test", "-sess_in", "ticket.pem"]);
        expect_resumed(&mut program, &[false]);
    }
}
