//! Which certificate a client is shown: by the name it asks for, then by what it can verify.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

use rustls::SignatureAlgorithm;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::Identity;
use super::overheard::Overheard;

/// Gives each client the certificate for the name it asks for.
///
/// A name is looked up as it is, then with its first label replaced by a wildcard (RFC 6125, section 6.4.3), and then
/// the listener's first certificate stands in for it, unless names are strict. Where several certificates have the
/// name, the client gets the first whose signatures it can verify; RSA comes last, because it is slow to sign.
#[derive(Debug)]
pub(super) struct Resolver {
    /// By name, in lower case.
    exact: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// By what follows the wildcard's asterisk.
    wildcard: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// The first certificate, and those of other kinds of key that have one of its names.
    stand_in: Vec<Arc<CertifiedKey>>,
    strict: bool,
    overheard: Arc<Overheard>,
}

impl Resolver {
    /// Parses the key of each identity; the error is the library's about one of them.
    pub(super) fn new(identities: &[Identity], strict: bool, overheard: Arc<Overheard>) -> Result<Self, String> {
        let (mut exact, mut wildcard, mut stand_in) = (HashMap::new(), HashMap::new(), Vec::new());
        let first = identities.first().map(Identity::names).unwrap_or_default();
        for (index, identity) in identities.iter().enumerate() {
            let key = Arc::new(identity.certified_key()?);
            for name in identity.names() {
                let (map, name) = match name.strip_prefix('*') {
                    Some(suffix) => (&mut wildcard, suffix),
                    None => (&mut exact, &**name),
                };
                map.entry(name.into()).or_insert_with(Vec::new).push(Arc::clone(&key));
            }
            if index == 0 || identity.names().iter().any(|name| first.contains(name)) {
                stand_in.push(key);
            }
        }
        let all = exact.values_mut().chain(wildcard.values_mut()).chain(iter::once(&mut stand_in));
        for keys in all {
            keys.sort_by_key(|key| key.key.algorithm() == SignatureAlgorithm::RSA);
        }
        Ok(Self { exact, wildcard, stand_in, strict, overheard })
    }

    /// Certificates for `name`, the best first.
    fn named<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r Arc<CertifiedKey>> + Clone + use<'r> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let exact = self.exact.get(name);
        let wildcard = name.find('.').and_then(|dot| self.wildcard.get(&name[dot..]));
        exact.into_iter().chain(wildcard).flatten()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        self.overheard.heard().server_name = name.map(Into::into);
        let named = name.and_then(|name| verifiable(self.named(name), &hello));
        if self.strict { named } else { named.or_else(|| verifiable(self.stand_in.iter(), &hello)) }
    }
}

/// The first whose signatures the client can verify. Where there is none, the first of all: the handshake then fails
/// for that reason, and not for want of a name.
fn verifiable<'r>(
    mut keys: impl Iterator<Item = &'r Arc<CertifiedKey>> + Clone,
    hello: &ClientHello<'_>,
) -> Option<Arc<CertifiedKey>> {
    let first = keys.clone().next();
    keys.find(|key| key.key.choose_scheme(hello.signature_schemes()).is_some()).or(first).cloned()
}
