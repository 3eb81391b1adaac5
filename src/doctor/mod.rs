//! `ringwall doctor`: looks at everything that ringwall needs, before it needs it, and says what to do about the rest.
//!
//! Each part first gathers facts and then judges them; the judgement knows no machine, so that each verdict can be
//! tested. Nothing is changed, no port listens, and servers are asked for nothing but PING, AUTH and ROLE, Sentinels for the
//! primary's address, and a ringwall that runs for its status.
//!
//! Read `tests/doctor.rs` first.

mod admin;
mod files;
mod finding;
mod kernel;
mod listeners;
mod live;
mod resources;
mod running;
mod screen;
mod sentinels;
mod servers;
mod sources;
mod wire;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub use self::finding::{Diagnosis, Finding, Verdict};

use self::finding::Section;
use self::running::Running;
use crate::config::{Config, ConfigError, Keyring, Machine};
use crate::io::sys;
use crate::tls::unix_time;

/// Looks at the machine, and at a configuration with all that it names where there is one.
///
/// # Errors
/// When the runtime that servers are asked from cannot be had.
pub fn examine(config: Option<&Path>) -> std::io::Result<Diagnosis> {
    let machine = Machine::of_this_process();
    let loaded = config.map(|file| (file, Config::load(file, &machine)));
    let valid = loaded.as_ref().and_then(|(_, loaded)| loaded.as_ref().ok());
    let mut sections = vec![
        Section { name: "machine", findings: kernel::Facts::gather().judge() },
        Section { name: "limits", findings: resources::Facts::gather(&machine).judge(valid.map(|(config, _)| config)) },
    ];
    match loaded {
        None => {}
        Some((_, Ok((config, keyring)))) => sections.extend(examine_valid(&config, keyring)?),
        Some((file, Err(error))) => {
            sections.push(Section { name: "configuration", findings: vec![judge_refusal(file, &error)] });
        }
    }
    Ok(Diagnosis { sections })
}

/// Asks a ringwall that runs with this configuration whether it serves.
///
/// # Errors
/// When the runtime that listeners are asked from cannot be had.
pub fn examine_running(config: &Path) -> std::io::Result<Diagnosis> {
    let findings = match Config::load(config, &Machine::of_this_process()) {
        Ok((config, keyring)) => live::ask(&config, &keyring)?,
        Err(error) => vec![judge_refusal(config, &error)],
    };
    Ok(Diagnosis { sections: vec![Section { name: "listeners", findings }] })
}

fn judge_refusal(file: &Path, error: &ConfigError) -> Finding {
    Finding::bad(file.display(), error, "mend the file; config/ringwall.toml of the sources shows every key")
}

fn examine_valid(config: &Config, keyring: Keyring) -> std::io::Result<[Section; 3]> {
    let mode = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.permissions().mode());
    let files = files::judge(config, &keyring, unix_time(), mode);
    let running = Running::find(config)?;
    let (answers, sentinels) = servers::ask(config, keyring)?;
    let mut listeners = listeners::judge(config, listeners::try_to_bind, running.as_ref(), &answers);
    let admin = config.admin.as_ref().map(|admin| &admin.listen);
    listeners.extend(admin.map(|listen| admin::judge(listen, admin::look(listen), running.is_some())));
    let mut servers = sources::judge(config, sys::check_source);
    servers.extend(sentinels.iter().map(sentinels::Answer::judge));
    servers.extend(answers.iter().map(servers::Answer::judge));
    Ok([
        Section { name: "configuration", findings: files },
        Section { name: "listeners", findings: listeners },
        Section { name: "servers", findings: servers },
    ])
}
