//! Whether each listener could be bound, and whom it lets in.

use std::io;
use std::net::SocketAddr;

use super::finding::Finding;
use super::servers::Answer;
use crate::config::{Config, Listener};
use crate::io::sys;

/// Binds an address and lets it go. It does not listen: no client is accepted to be thrown out again.
pub(super) fn try_to_bind(address: SocketAddr) -> io::Result<()> {
    sys::bind(address).map(drop)
}

pub(super) fn judge(config: &Config, bind: impl Fn(SocketAddr) -> io::Result<()>, answers: &[Answer]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for listener in &config.listeners {
        findings.push(judge_address(listener, bind(listener.bind)));
        let open = answers.iter().any(|answer| answer.backend == listener.backend && answer.is_open_to_all());
        findings.extend(open.then(|| judge_guests(listener)).flatten());
    }
    findings
}

fn judge_address(listener: &Listener, bound: io::Result<()>) -> Finding {
    let (what, at) = (&listener.name, listener.bind);
    let Err(error) = bound else { return Finding::good(what, format!("{at} is free")) };
    match error.raw_os_error() {
        // That may well be the ringwall which the operator asks about.
        Some(libc::EADDRINUSE) => Finding::attention(
            what,
            format!("{at} is in use"),
            "if that is neither a running ringwall nor ringwall.socket (`ss -ltnp` shows who it is), end the other program or \
             write another bind",
        ),
        Some(libc::EACCES) => Finding::bad(
            what,
            format!("{at}: {error}"),
            "ports below 1024 need CAP_NET_BIND_SERVICE, or ringwall.socket of systemd; or write another port",
        ),
        Some(libc::EADDRNOTAVAIL) => Finding::bad(
            what,
            format!("{at}: {error}"),
            "no interface of this machine has that address (`ip address` shows those it has): write one of these",
        ),
        Some(_) | None => Finding::bad(what, format!("{at}: {error}"), "write another bind"),
    }
}

/// Servers that take commands without a password trust whoever reaches them, and through ringwall that is everybody who
/// reaches the listener.
fn judge_guests(listener: &Listener) -> Option<Finding> {
    let certificates = listener.tls.as_ref().and_then(|tls| tls.client_auth.as_ref());
    if listener.bind.ip().is_loopback() || certificates.is_some_and(|auth| auth.required) {
        return None;
    }
    Some(Finding::attention(
        format!("clients of {}", listener.name),
        "everybody who reaches it may do everything: its servers want no password",
        "give the server a password or ACL users; or write client_auth = \"required\"; or bind to loopback. The protected \
         mode of the server does not help: ringwall's connections are local",
    ))
}
