//! The configuration and the files that it names. What is wrong with them is said when they are loaded; this tells what
//! they are, and how long they last.

use std::collections::BTreeSet;
use std::path::Path;

use super::finding::Finding;
use crate::config::{Config, Keyring};
use crate::date::date;
use crate::tls::{Identity, Outline, ServerAuth};

/// So many days before its end a certificate should have been renewed: authorities that issue for 90 days ask for it
/// after 60.
const RENEWED_BEFORE_DAYS: i64 = 14;

const DAY: i64 = 86_400;

/// `mode` is the permissions of a file.
pub(super) fn judge(
    config: &Config,
    keyring: &Keyring,
    now_unix: u64,
    mode: impl Fn(&Path) -> Option<u32>,
) -> Vec<Finding> {
    let now = i64::try_from(now_unix).unwrap_or(i64::MAX);
    let found = format!("valid; listeners: {}, backends: {}", config.listeners.len(), config.backends.len());
    let mut findings = vec![Finding::good("configuration", found)];
    findings.extend(config.warnings.iter().map(|warning| judge_warning(warning)));
    let of_listeners = keyring.listeners.iter().flatten().flat_map(|credentials| &credentials.identities);
    let of_servers = keyring.backends.iter().flatten();
    let of_sentinels = keyring.checks.iter().filter_map(|secrets| secrets.sentinel_tls.as_ref());
    let of_backends = of_servers.chain(of_sentinels).filter_map(|credentials| credentials.identity.as_ref());
    for outline in of_listeners.chain(of_backends).map(Identity::outline) {
        findings.extend(judge_certificate(&outline, now));
        findings.extend(judge_secret("private key", &outline.private_key, &mode));
    }
    let passwords = config.listeners.iter().flat_map(|listener| &listener.edge.users).map(|user| &user.password_file);
    let checks = config.backends.iter().filter_map(|backend| backend.health_check.as_ref()?.login.as_ref());
    let sentinels = config.backends.iter().filter_map(|backend| backend.sentinel.as_ref()?.login.as_ref());
    let passwords: BTreeSet<_> = passwords.chain(checks.chain(sentinels).map(|login| &login.password_file)).collect();
    findings.extend(passwords.into_iter().filter_map(|path| judge_secret("password", path, &mode)));
    findings.extend(authorities(config).into_iter().map(|path| Finding::good(named("authorities", path), "in order")));
    for (listener, credentials) in config.listeners.iter().zip(&keyring.listeners) {
        let Some(tls) = &listener.tls else { continue };
        let what = format!("tickets of {}", listener.name);
        let secret = credentials.as_ref().and_then(|credentials| credentials.ticket_secret.as_ref());
        findings.push(match (&tls.ticket_secret, secret) {
            (Some(path), Some(_)) => Finding::good(what, format!("sealed with {}", path.display())),
            _ => Finding::good(what, "sealed with a secret of each start"),
        });
    }
    findings
}

/// A line that names file, line and key, then says what is to be thought of it and mostly what to do.
fn judge_warning(warning: &str) -> Finding {
    let (found, remedy) = warning.rsplit_once("; ").unwrap_or((warning, "look at this key of the configuration"));
    Finding::attention("configuration", found, remedy)
}

/// A file that nobody else should read. One that everybody may is a warning of the configuration.
fn judge_secret(role: &str, path: &Path, mode: impl Fn(&Path) -> Option<u32>) -> Option<Finding> {
    let mode = mode(path)?;
    let found = if mode & 0o070 == 0 { "its owner alone may use it" } else { "its owner and its group may use it" };
    (mode & 0o006 == 0).then(|| Finding::good(named(role, path), found))
}

/// The files of authorities, each once: those of clients, of servers and of Sentinels.
fn authorities(config: &Config) -> BTreeSet<&Path> {
    let clients = config.listeners.iter().filter_map(|listener| listener.tls.as_ref()?.client_auth.as_ref());
    let servers = config.backends.iter().filter_map(|backend| backend.tls.as_ref());
    let sentinels = config.backends.iter().filter_map(|backend| backend.sentinel.as_ref()?.tls.as_ref());
    let of_servers = servers.chain(sentinels).filter_map(|tls| match &tls.auth {
        ServerAuth::Full(path) | ServerAuth::Chain(path) => Some(path.as_path()),
        ServerAuth::None => None,
    });
    clients.map(|clients| clients.authorities.as_path()).chain(of_servers).collect()
}

/// One that is expired, or not valid yet, is a warning of the configuration.
fn judge_certificate(outline: &Outline, now: i64) -> Option<Finding> {
    if now > outline.not_after_unix || now < outline.not_before_unix {
        return None;
    }
    let days = (outline.not_after_unix - now) / DAY;
    let chain = match outline.certificates {
        1 => "1 certificate".to_owned(),
        several => format!("a chain of {several}"),
    };
    let found = format!("{}, {chain}, until {}: {days} days", outline.name, date(outline.not_after_unix));
    let what = named("certificate", &outline.certificate);
    Some(if days < RENEWED_BEFORE_DAYS {
        let remedy =
            "renew it now, and find out why it has not been renewed; ringwall takes a new file without a restart";
        Finding::attention(what, found, remedy)
    } else {
        Finding::good(what, found)
    })
}

/// A file by its name: where it lies is in the configuration.
fn named(role: &str, path: &Path) -> String {
    format!("{role} {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn outline() -> Outline {
        Outline {
            certificate: "/etc/server.crt".into(),
            private_key: "/etc/server.key".into(),
            name: "cache.example".to_owned(),
            certificates: 2,
            not_before_unix: 1_790_000_000,
            not_after_unix: 1_790_000_000 + 90 * DAY,
            key_open_to_all: false,
        }
    }

    #[test]
    fn a_certificate_that_ends_soon_needs_attention() {
        let at = |days: i64| judge_certificate(&outline(), 1_790_000_000 + days * DAY);
        let (early, late) = (at(0).unwrap(), at(77).unwrap());
        assert_eq!(early.found, "cache.example, a chain of 2, until 2026-12-20: 90 days");
        assert_eq!((early.verdict, late.verdict), (Verdict::Good, Verdict::Attention));
        assert_eq!(late.found, "cache.example, a chain of 2, until 2026-12-20: 13 days");
        assert_eq!((at(91), at(-1)), (None, None));
    }

    #[test]
    fn who_may_use_a_secret_is_told_as_its_permissions_have_it() {
        let judged = |mode| judge_secret("private key", Path::new("a.key"), |_| mode).map(|finding| finding.found);
        for mode in [0o600, 0o400] {
            assert_eq!(judged(Some(mode)).as_deref(), Some("its owner alone may use it"));
        }
        for mode in [0o640, 0o440, 0o660] {
            assert_eq!(judged(Some(mode)).as_deref(), Some("its owner and its group may use it"));
        }
        assert_eq!((judged(Some(0o644)), judged(Some(0o602)), judged(None)), (None, None, None));
    }

    #[test]
    fn a_warning_ends_with_what_to_do() {
        let finding = judge_warning("f.toml:4: private_key a: everybody may read it; restrict it with `chmod o-rw a`");
        assert_eq!(finding.found, "f.toml:4: private_key a: everybody may read it");
        assert_eq!(finding.remedy.as_deref(), Some("restrict it with `chmod o-rw a`"));
    }
}
