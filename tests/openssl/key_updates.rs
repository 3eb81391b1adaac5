//! Changes of keys in the midst of traffic (RFC 8446, section 4.6.3), as OpenSSL makes them and asks for them.

use std::io::{self, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread;

use crate::program::{Folder, Program};
use crate::servers::lines_until;

const PAIR: &str = "[listener.tls]\ncertificate = \"server.crt\"\nprivate_key = \"server.key\"\n";

/// A server that says what is said to it.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            thread::spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    address
}

/// `openssl s_client`, which tells of each TLS message.
struct Client {
    child: Child,
    told: BufReader<ChildStdout>,
    noted: BufReader<ChildStderr>,
}

impl Client {
    fn connect(folder: &Folder, program: &Program) -> Self {
        let mut command = Command::new("openssl");
        command.current_dir(folder.path()).args(["s_client", "-tls1_3", "-msg", "-CAfile", "ca.pem"]);
        command.args(["-verify_return_error", "-connect", program.address()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the tests need the openssl program");
        let told = BufReader::new(child.stdout.take().unwrap());
        let noted = BufReader::new(child.stderr.take().unwrap());
        Self { child, told, noted }
    }

    fn say(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Gives a command of one letter, and waits until it is taken: what stands behind it in one piece is dropped.
    fn command(&mut self, letter: &str) {
        self.say(letter);
        lines_until(&mut self.noted, |line| line == "KEYUPDATE");
    }

    /// How many key updates it has received before it heard what it said.
    fn updates_until_echo(&mut self, text: &str) -> usize {
        self.say(&format!("{text}\n"));
        let story = lines_until(&mut self.told, |line| line == text);
        story.iter().filter(|line| line.starts_with("<<<") && line.contains("KeyUpdate")).count()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_client_that_changes_its_keys_is_heard_and_answered_with_a_change_when_it_asks_for_one() {
    let (folder, _) = Folder::with_server();
    let program = Program::in_front_of(&echo(), &folder, PAIR, "", 1);
    let mut client = Client::connect(&folder, &program);
    assert_eq!(client.updates_until_echo("one"), 0);
    for text in ["two", "three", "four"] {
        // Asks for a change.
        client.command("K\n");
        assert_eq!(client.updates_until_echo(text), 1);
        // Asks for none.
        client.command("k\n");
        assert_eq!(client.updates_until_echo(&text.repeat(2)), 0);
    }
}
