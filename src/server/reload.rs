//! Reloads: reads the files of all listeners and backends as one set, makes each shard acceptors and connectors of its own,
//! and has them used.

use std::mem;
use std::sync::mpsc;

use super::backend_tls::BackendTls;
use super::listener_tls::{Common, ListenerTls};
use super::{Commands, StartError, shown_certificates};
use crate::config::{Config, ReloadSource, TlsFiles};
use crate::control::{Cause, Reloaded};
use crate::dispatcher::Command;
use crate::shard::Renewal;

/// What a reload needs. It belongs to the thread that reloads.
#[derive(Debug)]
pub struct Reloader {
    source: ReloadSource,
    listeners: Vec<Box<str>>,
    backends: Vec<Box<str>>,
    common: Common,
    shards: usize,
    commands: Commands,
}

impl Reloader {
    pub(super) fn new(config: &Config, common: Common, commands: Commands) -> Self {
        let listeners = config.listeners.iter().map(|listener| listener.name.clone()).collect();
        let backends = config.backends.iter().map(|backend| backend.name.clone()).collect();
        let shards = config.runtime.cores.len();
        Self { source: ReloadSource::of(config), listeners, backends, common, shards, commands }
    }

    /// Reads and checks everything, then waits until each shard uses it. A failure changes nothing.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn reload(&mut self, cause: Cause) -> Result<Reloaded, String> {
        let reread = match cause {
            Cause::Signal | Cause::Administrator => self.source.configuration(),
            Cause::Files | Cause::Tickets => self.source.files(),
        };
        let mut reread = reread.map_err(|error| error.to_string())?;
        let files = TlsFiles::of_reread(&reread);
        let credentials = reread.listeners.iter().map(|read| read.as_ref().map(|(_, credentials)| credentials));
        let certificates = shown_certificates(credentials);
        let rotated = (cause == Cause::Tickets).then(|| self.common.rotated());
        let common = rotated.as_ref().unwrap_or(&self.common);
        let listeners = self.listeners.iter().zip(mem::take(&mut reread.listeners));
        let listeners: Vec<_> = listeners
            .map(|(name, read)| read.map(|(tls, credentials)| ListenerTls::new(name, &tls, credentials, common)))
            .collect();
        let backends = self.backends.iter().zip(mem::take(&mut reread.backends));
        let backends: Vec<_> = backends
            .map(|(name, read)| read.map(|(tls, credentials)| BackendTls::new(name, &tls, credentials)))
            .collect();
        self.renew(&listeners, &backends)?;
        if let Some(rotated) = rotated {
            self.common.accept(rotated);
        }
        self.source.accept(&reread);
        Ok(Reloaded { files, warnings: reread.warnings, not_taken: reread.not_taken, certificates })
    }

    /// Gives each shard acceptors and connectors of its own.
    fn renew(&self, listeners: &[Option<ListenerTls>], backends: &[Option<BackendTls>]) -> Result<(), String> {
        let (replaced, replaced_ones) = mpsc::channel();
        let renewals = (0..self.shards).map(|_| {
            let acceptors = listeners.iter().map(|listener| listener.as_ref().map(ListenerTls::acceptor).transpose());
            let acceptors = acceptors.collect::<Result<_, StartError>>()?;
            let connectors = backends.iter().map(|backend| backend.as_ref().map(BackendTls::connector).transpose());
            let connectors = connectors.collect::<Result<_, StartError>>()?;
            Ok(Renewal { acceptors, connectors, replaced: replaced.clone() })
        });
        let renewals = renewals.collect::<Result<_, StartError>>().map_err(|error| error.to_string())?;
        drop(replaced);
        // Room for one is kept: this thread has at most one under way.
        self.commands.send(Command::Renew(renewals)).map_err(|_| "the dispatcher takes no command".to_owned())?;
        // Ends when each shard has answered, or has ended.
        replaced_ones.iter().for_each(drop);
        Ok(())
    }
}
