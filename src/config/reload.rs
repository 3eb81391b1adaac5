//! What a reload reads: how listeners speak TLS and the files that say so, as one set, and nothing else.

use std::path::PathBuf;
use std::sync::Arc;

use toml::Spanned;

use super::changes::changed_keys;
use super::error::{ConfigError, Source};
use super::raw::{self, RawListener};
use super::section::{Section, as_text};
use super::security::Security;
use super::tls::{Tls, load_credentials, read_tls};
use super::{Config, Listener};
use crate::tls::Credentials;

/// Where a reload reads from: the configuration whose `tls` tables are in force.
#[derive(Clone, Debug)]
pub struct ReloadSource {
    /// What the program was started with; everything but `tls` stays so.
    started: Arc<Source>,
    in_force: Arc<Source>,
    listeners: Vec<Box<str>>,
    /// Which of them speak TLS.
    with_tls: Vec<bool>,
    security: Security,
}

/// What has been read again and is not yet in force.
#[derive(Debug)]
pub struct Reread {
    /// How each listener is to speak TLS, in their order; none where it is plain.
    pub listeners: Vec<Option<(Tls, Credentials)>>,
    /// What is allowed and probably not meant.
    pub warnings: Vec<String>,
    /// Keys that were changed since the start and that no reload takes.
    pub not_taken: Vec<String>,
    source: Arc<Source>,
}

/// What is read besides the configuration: when something of it changes, a reload is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Files.
    pub files: Vec<PathBuf>,
    /// Folders of which each file may be read.
    pub folders: Vec<PathBuf>,
}

impl ReloadSource {
    /// Of a configuration that is in force.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let listeners = config.listeners.iter().map(|listener| listener.name.clone()).collect();
        let with_tls = config.listeners.iter().map(|listener| listener.tls.is_some()).collect();
        let (started, in_force) = (Arc::clone(&config.source), Arc::clone(&config.source));
        Self { started, in_force, listeners, with_tls, security: config.security }
    }

    /// Reads the files that are named by the configuration in force, whatever its file holds meanwhile.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn files(&self) -> Result<Reread, ConfigError> {
        self.read(Arc::clone(&self.in_force))
    }

    /// Reads the configuration's file again, the `tls` tables of its listeners, and the files that these name.
    ///
    /// # Errors
    /// What is wrong in the file or with a file, or that there are other listeners in it.
    pub fn configuration(&self) -> Result<Reread, ConfigError> {
        self.read(Arc::new(Source::read(self.in_force.file())?))
    }

    /// What was read is in force.
    pub fn accept(&mut self, reread: &Reread) {
        self.in_force = Arc::clone(&reread.source);
    }

    fn read(&self, source: Arc<Source>) -> Result<Reread, ConfigError> {
        let raw = raw::parse(&source)?;
        let names = raw.listener.iter().map(name);
        if !names.eq(self.listeners.iter().map(|name| Some(&**name))) {
            let running = self.listeners.join(", ");
            let problem = format!(
                "has other listeners than those that run, which are {running}: a reload takes the keys of their tls, other \
                 changes take a restart"
            );
            return Err(ConfigError::of_file(source.file(), problem));
        }
        let section = Section { source: &source, name: "listener" };
        let (mut listeners, mut warnings) = (Vec::new(), Vec::new());
        for (entry, &with_tls) in raw.listener.iter().zip(&self.with_tls) {
            let read = read_tls(&section, entry)?.zip(entry.get_ref().tls.as_ref());
            if read.is_some() != with_tls {
                let (now, running) = if with_tls { ("plain", "speaks TLS") } else { ("to speak TLS", "is plain") };
                let problem = format!("is {now}, and {running} as it runs: this change takes a restart");
                return Err(source.error(entry.span(), "listener", problem));
            }
            let load = |(tls, raw): (Tls, _)| {
                load_credentials(&source, &tls, raw, self.security, &mut warnings).map(|credentials| (tls, credentials))
            };
            listeners.push(read.map(load).transpose()?);
        }
        let not_taken = changed_keys(&self.started, &source);
        Ok(Reread { listeners, warnings, not_taken, source })
    }
}

/// A listener's name as far as it is written.
fn name(entry: &Spanned<RawListener>) -> Option<&str> {
    let raw = entry.get_ref();
    as_text(raw.name.as_ref().or(raw.bind.as_ref())?)
}

impl TlsFiles {
    /// Of the listeners of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self::gathered(config.listeners.iter().filter_map(|Listener { tls, .. }| tls.as_ref()))
    }

    /// Of what was read again.
    #[must_use]
    pub fn of_reread(reread: &Reread) -> Self {
        Self::gathered(reread.listeners.iter().flatten().map(|(tls, _)| tls))
    }

    fn gathered<'t>(all: impl Iterator<Item = &'t Tls>) -> Self {
        let mut gathered = Self::default();
        for tls in all {
            let Tls { certificates, cert_dir, policy: _, client_auth, ticket_secret } = tls;
            let pairs = certificates
                .iter()
                .flat_map(|pair| [&pair.certificate, &pair.private_key].into_iter().chain(&pair.ocsp));
            let about_clients =
                client_auth.iter().flat_map(|auth| [&auth.authorities].into_iter().chain(&auth.revocation_lists));
            gathered.files.extend(pairs.chain(about_clients).chain(ticket_secret).cloned());
            gathered.folders.extend(cert_dir.clone());
        }
        gathered
    }
}
