//! A listener's `tls` table: who it is to its clients.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::error::{ConfigError, Source};
use super::policy::read_policy;
use super::raw::{RawListener, Value};
use super::section::Section;
use crate::tls::{Identity, Policy, unix_time};

/// How a listener speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate chain in PEM.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub private_key: PathBuf,
    /// What it agrees to.
    pub policy: Policy,
}

pub(super) fn read_tls(listener: &Section<'_>, entry: &Spanned<RawListener>) -> Result<Tls, ConfigError> {
    let Some(tls) = entry.get_ref().tls.as_ref() else {
        let what = "{ certificate = \"server.crt\", private_key = \"server.key\" }";
        return Err(listener.missing("tls", entry, what));
    };
    let section = Section { source: listener.source, name: "listener.tls" };
    let folder = section.source.file().parent().unwrap_or(Path::new(""));
    let path = |key, raw: &Option<Spanned<Value>>| -> Result<PathBuf, ConfigError> {
        let what = "a file in PEM form";
        let (path, value) = section.required(key, tls, raw.as_ref(), what)?;
        if path.is_empty() || path.contains('\0') {
            return Err(section.error(key, value, &format!("is not a path; {what}")));
        }
        Ok(folder.join(path))
    };
    Ok(Tls {
        certificate: path("certificate", &tls.get_ref().certificate)?,
        private_key: path("private_key", &tls.get_ref().private_key)?,
        policy: read_policy(&section, tls.get_ref())?,
    })
}

/// Reads the files of a listener's identity and checks that they belong together.
pub(super) fn load_identity(
    source: &Source,
    tls: &Tls,
    raw: &RawListener,
    warnings: &mut Vec<String>,
) -> Result<Identity, ConfigError> {
    let span = raw.tls.as_ref().map(Spanned::span).unwrap_or_default();
    let identity = Identity::load(&tls.certificate, &tls.private_key)
        .map_err(|error| source.error(span.clone(), "listener.tls", error.to_string()))?;
    for warning in identity.warnings(unix_time()) {
        warnings.push(source.error(span.clone(), "listener.tls", warning.to_string()).to_string());
    }
    Ok(identity)
}
