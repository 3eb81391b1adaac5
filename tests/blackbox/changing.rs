//! A program whose configuration changes while it runs.

use std::cell::Cell;
use std::fs;
use std::net::{SocketAddr, TcpStream};

use rustix::process::Signal;

use crate::client::Client;
use crate::process::PATIENCE;
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

/// A program whose configuration is written over.
pub(crate) struct Changing {
    pub(crate) ringwall: Ringwall,
    /// Reloads that were told of.
    pub(crate) done: Cell<usize>,
    failed: Cell<usize>,
}

/// A listener without TLS.
pub(crate) fn listener(name: &str, port: u16, backend: &str, keys: &str) -> String {
    format!(
        "[[listener]]\nname = \"{name}\"\nbind = \"127.0.0.1:{port}\"\nplain = true\nbackend = \"{backend}\"\n{keys}\n"
    )
}

pub(crate) fn backend(name: &str, servers: &[&str], keys: &str) -> String {
    format!("[[backend]]\nname = \"{name}\"\nservers = [{}]\n{keys}\n", servers.join(", "))
}

/// Where the server is, as an entry of a list.
pub(crate) fn entry(server: &Server) -> String {
    format!("{:?}", server.address())
}

impl Changing {
    /// With an admin socket that allows changes.
    pub(crate) fn start(listener: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Kept until the end by whoever made it: the socket's folder is not the configuration's.
        let socket = folder.keep().join("admin.sock");
        let text = format!(
            "{text}[log]\nformat = \"json\"\nfailures_per_second = 100000\n\
             [admin]\nlisten = \"unix:{}\"\nallow_changes = true\n",
            socket.display()
        );
        let ringwall = Setup::of_text(text).start_with(listener);
        Self { ringwall, done: Cell::new(0), failed: Cell::new(0) }
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.ringwall.folder().join("ringwall.toml")).unwrap()
    }

    pub(crate) fn write(&self, text: &str) {
        fs::write(self.ringwall.folder().join("ringwall.toml"), text).unwrap();
        self.ringwall.process.signal(Signal::HUP);
    }

    /// Puts `after` in the place of `before` in the configuration, and reloads; what has changed, as the log says it.
    pub(crate) fn change(&self, before: &str, after: &str) -> String {
        let text = self.text();
        assert!(text.contains(before), "{before} is not in {text}");
        self.change_to(&text.replace(before, after))
    }

    pub(crate) fn change_to(&self, text: &str) -> String {
        self.write(text);
        self.done.set(self.done.get() + 1);
        let line = self.ringwall.process.nth_line(self.done.get(), |line| line.contains("\"reloaded\""));
        line.split("\"changes\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }

    /// As [`Self::change`], of a configuration that is refused; why.
    pub(crate) fn refused(&self, before: &str, after: &str) -> String {
        let text = self.text();
        assert!(text.contains(before), "{before} is not in {text}");
        self.write(&text.replace(before, after));
        self.failed.set(self.failed.get() + 1);
        let line = self.ringwall.process.nth_line(self.failed.get(), |line| line.contains("reload failed"));
        fs::write(self.ringwall.folder().join("ringwall.toml"), text).unwrap();
        line.split("\"error\":\"").nth(1).unwrap().split("\",\"").next().unwrap().to_owned()
    }
}

pub(crate) fn connect(port: u16) -> Client {
    let socket = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    Client::plain(socket)
}

pub(crate) fn assert_serves(port: u16) {
    assert_eq!(connect(port).call(&["PING"]), b"+PONG\r\n");
}

pub(crate) fn assert_refuses(port: u16) {
    let error = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}
