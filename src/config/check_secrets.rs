//! The files that a backend's `health_check` and `sentinel` name, read and judged.

use toml::Spanned;

use super::Backend;
use super::backend_tls::load_backend_credentials;
use super::error::{ConfigError, Source};
use super::health_check::Login;
use super::raw::{RawBackend, Value};
use super::section::Section;
use super::security::Security;
use super::sentinel;
use crate::secret::Secret;
use crate::tls::BackendCredentials;

/// What the files hold that a backend's `health_check` and `sentinel` name.
#[derive(Debug, Default)]
pub struct CheckSecrets {
    /// The password for its servers.
    pub health_check: Option<Secret>,
    /// The password for its Sentinels.
    pub sentinel: Option<Secret>,
    /// How its Sentinels are judged, and who it is to them; none where they are plain.
    pub sentinel_tls: Option<BackendCredentials>,
}

impl CheckSecrets {
    /// Reads what `backend` names, which `raw` is the text of.
    pub(super) fn load(
        source: &Source,
        backend: &Backend,
        raw: &RawBackend,
        security: Security,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConfigError> {
        let mut secrets = Self::default();
        if let (Some(check), Some(raw)) = (&backend.health_check, &raw.health_check) {
            let section = Section { source, name: "backend.health_check" };
            let place = raw.get_ref().password_file.as_ref();
            secrets.health_check = password(&section, check.login.as_ref(), place, security, warnings)?;
        }
        if let (Some(sentinel), Some(raw)) = (&backend.sentinel, &raw.sentinel) {
            let (section, raw) = (Section { source, name: "backend.sentinel" }, raw.get_ref());
            secrets.sentinel =
                password(&section, sentinel.login.as_ref(), raw.password_file.as_ref(), security, warnings)?;
            let section = Section { source, name: sentinel::TLS };
            let load = |(tls, raw)| load_backend_credentials(&section, tls, raw, security, warnings);
            secrets.sentinel_tls = sentinel.tls.as_ref().zip(raw.tls.as_ref()).map(load).transpose()?;
        }
        Ok(secrets)
    }
}

/// Reads the password that `login` names, whose file is named at `place`.
fn password(
    section: &Section<'_>,
    login: Option<&Login>,
    place: Option<&Spanned<Value>>,
    security: Security,
    warnings: &mut Vec<String>,
) -> Result<Option<Secret>, ConfigError> {
    let Some((login, place)) = login.zip(place) else { return Ok(None) };
    let error = |problem| section.source.error(place.span(), section.key("password_file"), problem);
    let secret = Secret::load(&login.password_file).map_err(error)?;
    let exposed: Vec<String> = secret.exposed().map(ToOwned::to_owned).into_iter().collect();
    security.judge(&exposed, error)?;
    warnings.extend(exposed.into_iter().map(|problem| error(problem).to_string()));
    Ok(Some(secret))
}
