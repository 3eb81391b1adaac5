//! Sessions that come back with a ticket, and clients that take none.

use crate::program::{Folder, Program};

const PAIR: &str = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\n";

/// Asserts how many of the next connections have resumed, as the log says, and how many have not. Shards close them
/// independently, so the lines of connections that follow each other closely may come in another order.
fn expect_resumed(program: &mut Program, resumed: usize, full: usize) {
    let lines: Vec<_> = (0..resumed + full).map(|_| program.closed()).collect();
    let count = |text| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!((count(" resumed=true "), count(" resumed=false ")), (resumed, full), "{lines:#?}");
}

#[test]
fn a_client_that_connects_again_resumes_with_its_ticket() {
    let (folder, _) = Folder::with_server();
    let mut program = Program::start(&folder, PAIR);
    program.s_client(&["-tls1_2", "-reconnect"]);
    expect_resumed(&mut program, 5, 1);
    program.s_client(&["-tls1_2", "-reconnect", "-no_ticket"]);
    expect_resumed(&mut program, 0, 6);
}

#[test]
fn a_ticket_from_a_file_resumes_where_it_belongs_and_is_passed_over_elsewhere() {
    let (folder, _) = Folder::with_server();
    let mut program = Program::start(&folder, PAIR);
    let mut another = Program::start(&folder, PAIR);
    for version in ["-tls1_3", "-tls1_2"] {
        // It ends when the server does, by when the ticket is here.
        program.s_client(&[version, "-ign_eof", "-servername", "redis.test", "-sess_out", "ticket.pem"]);
        expect_resumed(&mut program, 0, 1);
        let back = [version, "-ign_eof", "-servername", "redis.test", "-sess_in", "ticket.pem"];
        program.s_client(&back);
        expect_resumed(&mut program, 1, 0);
        let output = another.s_client(&back);
        assert!(output.contains("CONNECTION ESTABLISHED") && output.contains("Verification: OK"), "{output}");
        expect_resumed(&mut another, 0, 1);
        program.s_client(&[version, "-ign_eof", "-servername", "other.test", "-sess_in", "ticket.pem"]);
        expect_resumed(&mut program, 0, 1);
    }
}
