//! What a backend's servers are told before the first bytes of clients.

use toml::Spanned;

use super::error::ConfigError;
use super::raw::{RawBackend, Value};
use super::section::Section;
use crate::shard::BackendEdge;
use crate::wire::Template;
use crate::wire::proxy::Version;

pub(super) fn read_backend_edge(section: &Section<'_>, raw: &RawBackend) -> Result<BackendEdge, ConfigError> {
    let versions = [("v1", Some(Version::V1)), ("v2", Some(Version::V2))];
    Ok(BackendEdge {
        send_proxy: section.choice("send_proxy", raw.send_proxy.as_ref(), None, &versions)?,
        client_name: read_template(section, "client_name", raw.client_name.as_ref())?,
        client_info: read_template(section, "client_info", raw.client_info.as_ref())?,
    })
}

fn read_template(
    section: &Section<'_>,
    key: &str,
    raw: Option<&Spanned<Value>>,
) -> Result<Option<Template>, ConfigError> {
    let what = "a name for connections, such as \"{client_addr}\"";
    let Some((text, value)) = section.text(key, raw, what)? else { return Ok(None) };
    Template::parse(text).map(Some).map_err(|problem| section.error(key, value, &problem))
}
