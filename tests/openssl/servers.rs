//! OpenSSL as a server: what a backend's TLS keys make it see.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rcgen::KeyPair;

use crate::program::{Folder, Program};

/// `openssl s_server` with `server.crt`.
struct Server {
    child: Child,
    told: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut command = Command::new("openssl");
        command.current_dir(folder.path()).args(["s_server", "-accept", "127.0.0.1:0"]);
        command.args(["-cert", "server.crt", "-key", "server.key", "-CAfile", "ca.pem"]).args(arguments);
        // Its input stays open: at the end of it the server would end.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the tests need the openssl program");
        let mut told = BufReader::new(child.stdout.take().unwrap());
        let lines = lines_until(&mut told, |line| line.starts_with("ACCEPT"));
        let address = lines.last().unwrap().trim_start_matches("ACCEPT").trim().to_owned();
        Self { child, told, address }
    }

    /// What it tells of a connection, up to the line that was said on it.
    fn story(&mut self, said: &str) -> Vec<String> {
        lines_until(&mut self.told, |line| line == said)
    }

    /// Says this to whom it is connected with.
    fn say(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines up to the one that `fits`, which is the last.
pub(crate) fn lines_until(told: &mut impl BufRead, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(told.read_line(&mut line).unwrap(), 0, "openssl has ended: {lines:?}");
        lines.push(line.trim_end().to_owned());
        if fits(line.trim_end()) {
            return lines;
        }
    }
}

/// What a client without TLS does: asks, hears the answer, and ends. Gives what the server told of it.
fn ask(program: &Program, server: &mut Server) -> Vec<String> {
    let mut client = TcpStream::connect(program.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.write_all(b"PING\n").unwrap();
    let story = server.story("PING");
    server.say("+PONG\n");
    let mut reply = [0; 6];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\n");
    story
}

#[test]
fn openssl_sees_the_name_the_certificate_and_the_suite_and_resumes() {
    let (folder, authority) = Folder::with_server();
    folder.write_pair("proxy", authority.certify(&["proxy.test"], &KeyPair::generate().unwrap()));
    let keys = "ca = \"ca.pem\"\nserver_name = \"redis.test\"\ncertificate = \"proxy.crt\"\nprivate_key = \"proxy.key\"\n\
                cipher_suites = [\"TLS_AES_256_GCM_SHA384\", \"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\"]\n\
                groups = [\"secp256r1\"]\n";
    for (version, suite) in [("-tls1_3", "TLS_AES_256_GCM_SHA384"), ("-tls1_2", "ECDHE-ECDSA-AES256-GCM-SHA384")] {
        let named = ["-servername", "redis.test", "-servername_fatal", "-cert2", "server.crt", "-key2", "server.key"];
        let asks = [version, "-Verify", "1", "-verify_return_error"];
        let mut server = Server::start(&folder, &[&asks[..], &named].concat());
        let backend = format!("[backend.tls]\n{keys}");
        let mut program = Program::in_front_of(&server.address, &folder, "plain = true", &backend, 1);
        for resumed in [false, true, true] {
            let story = ask(&program, &mut server);
            let told = |line: &str| story.iter().any(|other| other == line);
            assert!(told("Hostname in TLS extension: \"redis.test\""), "{story:#?}");
            assert!(told("subject=CN = proxy.test") && told(&format!("CIPHER is {suite}")), "{story:#?}");
            assert_eq!(told("Reused session-id"), resumed, "{story:#?}");
            let line = program.closed();
            assert!(line.contains(&format!("server_resumed={resumed}")), "{line}");
        }
    }
}

#[test]
fn a_server_that_changes_its_keys_is_heard_and_answered_with_a_change() {
    let (folder, _) = Folder::with_server();
    let mut server = Server::start(&folder, &["-tls1_3", "-msg"]);
    let backend = "[backend.tls]\nca = \"ca.pem\"\nserver_name = \"redis.test\"\n";
    let program = Program::in_front_of(&server.address, &folder, "plain = true", backend, 1);
    let mut client = TcpStream::connect(program.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.write_all(b"PING\n").unwrap();
    server.story("PING");
    for _ in 0..3 {
        // Asks for a change, which is sent at once.
        server.say("K\n");
        lines_until(&mut server.told, |line| line.starts_with(">>>") && line.contains("KeyUpdate"));
        server.say("+PONG\n");
        let mut reply = [0; 6];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\n");
        client.write_all(b"PING\n").unwrap();
        let answers =
            server.story("PING").into_iter().filter(|line| line.starts_with("<<<") && line.contains("KeyUpdate"));
        assert_eq!(answers.count(), 1);
    }
}
