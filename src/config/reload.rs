//! What a reload reads: how listeners and backends speak TLS and the files that say so, as one set, and nothing else.

use std::path::PathBuf;
use std::sync::Arc;

use toml::Spanned;

use super::backend_tls::{BackendTls, load_backend_credentials, read_backend_tls};
use super::changes::changed_keys;
use super::error::{ConfigError, Source};
use super::raw::{self, RawBackend, RawConfig, RawListener};
use super::section::{Section, as_text};
use super::security::Security;
use super::tls::{Tls, load_credentials, read_tls};
use super::{Backend, Config, Listener};
use crate::tls::{BackendCredentials, Credentials, ServerAuth};

/// Where a reload reads from: the configuration whose `tls` tables are in force.
#[derive(Clone, Debug)]
pub struct ReloadSource {
    /// What the program was started with; everything but `tls` stays so.
    started: Arc<Source>,
    in_force: Arc<Source>,
    listeners: Vec<Box<str>>,
    /// Which of them speak TLS.
    with_tls: Vec<bool>,
    backends: Vec<Running>,
    security: Security,
}

/// A backend as it runs.
#[derive(Clone, Debug)]
struct Running {
    name: Box<str>,
    /// Whether it speaks TLS, and if so, whether each of its servers is asked for a name.
    tls: Option<bool>,
}

/// What has been read again and is not yet in force.
#[derive(Debug)]
pub struct Reread {
    /// How each listener is to speak TLS, in their order; none where it is plain.
    pub listeners: Vec<Option<(Tls, Credentials)>>,
    /// How each backend is to speak TLS, in their order; none where it is plain.
    pub backends: Vec<Option<(BackendTls, BackendCredentials)>>,
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
        let backends = config.backends.iter().map(Running::of).collect();
        let (started, in_force) = (Arc::clone(&config.source), Arc::clone(&config.source));
        Self { started, in_force, listeners, with_tls, backends, security: config.security }
    }

    /// Reads the files that are named by the configuration in force, whatever its file holds meanwhile.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn files(&self) -> Result<Reread, ConfigError> {
        self.read(Arc::clone(&self.in_force))
    }

    /// Reads the configuration's file again, the `tls` tables of its listeners and backends, and the files that these name.
    ///
    /// # Errors
    /// What is wrong in the file or with a file, or that there are other listeners or backends in it.
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
        let backends = self.read_backends(&source, &raw, &mut warnings)?;
        let not_taken = changed_keys(&self.started, &source);
        Ok(Reread { listeners, backends, warnings, not_taken, source })
    }

    fn read_backends(
        &self,
        source: &Source,
        raw: &RawConfig,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Option<(BackendTls, BackendCredentials)>>, ConfigError> {
        let names = raw.backend.iter().map(|entry| as_text(entry.get_ref().name.as_ref()?));
        if !names.eq(self.backends.iter().map(|running| Some(&*running.name))) {
            let running: Vec<_> = self.backends.iter().map(|running| &*running.name).collect();
            let running = running.join(", ");
            let problem = format!(
                "has other backends than those that run, which are {running}: a reload takes the keys of their tls, other \
                 changes take a restart"
            );
            return Err(ConfigError::of_file(source.file(), problem));
        }
        let mut backends = Vec::new();
        for (entry, running) in raw.backend.iter().zip(&self.backends) {
            let section = Section { source, name: "backend.tls" };
            let read = entry.get_ref().tls.as_ref().map(|raw| read_backend_tls(&section, raw).map(|tls| (tls, raw)));
            let read = read.transpose()?;
            running.check(source, entry, read.as_ref().map(|(tls, _)| tls))?;
            let load = |(tls, raw): (BackendTls, _)| {
                load_backend_credentials(&section, &tls, raw, self.security, warnings)
                    .map(|credentials| (tls, credentials))
            };
            backends.push(read.map(load).transpose()?);
        }
        Ok(backends)
    }
}

impl Running {
    fn of(backend: &Backend) -> Self {
        let named = || backend.servers().all(|server| server.server_name.is_some());
        Self { name: backend.name.clone(), tls: backend.tls.as_ref().map(|_| named()) }
    }

    /// Whether a reload takes `tls` in the place of what runs.
    fn check(&self, source: &Source, entry: &Spanned<RawBackend>, tls: Option<&BackendTls>) -> Result<(), ConfigError> {
        let problem = match (tls, self.tls) {
            (None, None) => return Ok(()),
            (None, Some(_)) => "is plain, and speaks TLS as it runs: this change takes a restart",
            (Some(_), None) => "is to speak TLS, and is plain as it runs: this change takes a restart",
            (Some(tls), Some(named)) if named || !matches!(tls.auth, ServerAuth::Full(_)) => return Ok(()),
            (Some(_), Some(_)) => {
                "is to verify the names of its servers, and not all are asked for one as it runs: this change takes a restart"
            }
        };
        Err(source.error(entry.span(), "backend", problem.to_owned()))
    }
}

/// A listener's name as far as it is written.
fn name(entry: &Spanned<RawListener>) -> Option<&str> {
    let raw = entry.get_ref();
    as_text(raw.name.as_ref().or(raw.bind.as_ref())?)
}

impl TlsFiles {
    /// Of the listeners and backends of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let listeners = config.listeners.iter().filter_map(|Listener { tls, .. }| tls.as_ref());
        Self::gathered(listeners, config.backends.iter().filter_map(|Backend { tls, .. }| tls.as_ref()))
    }

    /// Of what was read again.
    #[must_use]
    pub fn of_reread(reread: &Reread) -> Self {
        let listeners = reread.listeners.iter().flatten().map(|(tls, _)| tls);
        Self::gathered(listeners, reread.backends.iter().flatten().map(|(tls, _)| tls))
    }

    fn gathered<'t>(listeners: impl Iterator<Item = &'t Tls>, backends: impl Iterator<Item = &'t BackendTls>) -> Self {
        let mut gathered = Self::default();
        for tls in listeners {
            let Tls { certificates, cert_dir, policy: _, client_auth, ticket_secret } = tls;
            let pairs = certificates
                .iter()
                .flat_map(|pair| [&pair.certificate, &pair.private_key].into_iter().chain(&pair.ocsp));
            let about_clients =
                client_auth.iter().flat_map(|auth| [&auth.authorities].into_iter().chain(&auth.revocation_lists));
            gathered.files.extend(pairs.chain(about_clients).chain(ticket_secret).cloned());
            gathered.folders.extend(cert_dir.clone());
        }
        for BackendTls { auth, server_name: _, identity, policy: _ } in backends {
            let authorities = match auth {
                ServerAuth::Full(path) | ServerAuth::Chain(path) => Some(path),
                ServerAuth::None => None,
            };
            let pair = identity.iter().flat_map(|pair| [&pair.certificate, &pair.private_key]);
            gathered.files.extend(pair.chain(authorities).cloned());
        }
        gathered
    }
}
