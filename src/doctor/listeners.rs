//! Whether each listener could be bound, and whom it lets in.

use std::io;
use std::net::SocketAddr;

use super::finding::{Finding, at};
use super::running::Running;
use super::servers::Answer;
use crate::config::{Config, Listener};
use crate::io::sys;

/// Binds an address and lets it go. It does not listen: no client is accepted to be thrown out again.
pub(super) fn try_to_bind(address: SocketAddr) -> io::Result<()> {
    sys::bind(address).map(drop)
}

pub(super) fn judge(
    config: &Config,
    bind: impl Fn(SocketAddr) -> io::Result<()>,
    running: Option<&Running>,
    answers: &[Answer],
) -> Vec<Finding> {
    let addresses = config.listeners.iter().map(|listener| judge_address(listener, bind(listener.bind), running));
    let guests = config.backends.iter().enumerate().filter_map(|(backend, _)| {
        let open = answers.iter().any(|answer| answer.backend == backend && answer.is_open_to_all());
        let listeners = config.listeners.iter().filter(|listener| listener.backend == backend);
        open.then(|| judge_guests(listeners.filter(|listener| listener.is_open_to_strangers()))).flatten()
    });
    addresses.chain(guests).collect()
}

fn judge_address(listener: &Listener, bound: io::Result<()>, running: Option<&Running>) -> Finding {
    let (what, bind) = (&listener.name, listener.bind);
    let Err(error) = bound else { return Finding::good(what, at(what, &bind, " is free")) };
    let found = at(what, &bind, &format!(": {error}"));
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) if running.is_some_and(|running| running.listens_on(bind)) => {
            Finding::good(what, at(what, &bind, " is served by the ringwall that runs"))
        }
        // That may well be the ringwall which the operator asks about, where it tells nobody of itself.
        Some(libc::EADDRINUSE) => Finding::attention(
            what,
            at(what, &bind, " is in use"),
            "if that is neither a running ringwall without [admin] nor ringwall.socket (`ss -ltnp` shows who it is), end \
             the other program or write another bind",
        ),
        Some(libc::EACCES) => Finding::bad(
            what,
            found,
            "ports below 1024 need CAP_NET_BIND_SERVICE, or ringwall.socket of systemd; or write another port",
        ),
        Some(libc::EADDRNOTAVAIL) => Finding::bad(
            what,
            found,
            "no interface of this machine has that address (`ip address` shows those it has): write one of these",
        ),
        Some(_) | None => Finding::bad(what, found, "write another bind"),
    }
}

/// Servers that take commands without a password trust whoever reaches them, and through ringwall that is everybody who
/// reaches one of `listeners`. What there is to do about it is said once for all of them.
fn judge_guests<'c>(listeners: impl Iterator<Item = &'c Listener>) -> Option<Finding> {
    let names: Vec<_> = listeners.map(|listener| &*listener.name).collect();
    if names.is_empty() {
        return None;
    }
    Some(Finding::attention(
        format!("clients of {}", names.join(", ")),
        "everybody who reaches it may do everything: its servers want no password",
        "give the server a password or ACL users; or write client_auth = \"required\"; or bind to loopback. The protected \
         mode of the server does not help: ringwall's connections are local",
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::finding::Verdict;
    use super::*;
    use crate::config::Machine;

    #[test]
    fn a_port_in_use_is_well_where_a_ringwall_that_runs_says_that_it_has_it() {
        let text = b"[[listener]]\nname = \"public\"\nbind = \"127.0.0.1:6380\"\nbackend = \"b\"\nplain = true\n\
                     [[backend]]\nname = \"b\"\nservers = [\"127.0.0.1:6379\"]\n";
        let config = Config::parse(text, Path::new("f.toml"), &Machine::of_this_process()).unwrap();
        let in_use = |_| Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
        let judged = |running: Option<&Running>| {
            let finding = judge(&config, in_use, running, &[]).remove(0);
            (finding.verdict, finding.found)
        };
        let served = (Verdict::Good, "127.0.0.1:6380 is served by the ringwall that runs".to_owned());
        assert_eq!(judged(Some(&Running::on("127.0.0.1:6380"))), served);
        let taken = (Verdict::Attention, "127.0.0.1:6380 is in use".to_owned());
        assert_eq!(judged(Some(&Running::on("127.0.0.1:6381"))), taken);
        assert_eq!(judged(None), taken);
    }
}
