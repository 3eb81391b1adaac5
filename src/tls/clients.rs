//! How a listener authenticates its clients: authorities, revocation lists and rules, read and checked once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::aws_lc_rs::digest::{Context, SHA256};
use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::SectionKind;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::x509::X509Version;

use super::authorities::{Authorities, TrustError};
use super::client_rules::ClientRules;
use super::pem::PemFile;

/// Which certificates of a client's chain must be covered by a revocation list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All but the authority's own. What no list covers is refused.
    Chain,
    /// The client's own, and no other is looked at. When no list covers it, it is refused.
    Leaf,
    /// None: what a list covers is looked at, what no list covers is not revoked.
    Available,
}

/// How a listener that asks for client certificates judges them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    /// Whether a client must have a certificate. One that it shows is judged either way.
    pub required: bool,
    /// The authorities that certificates must come from, in PEM.
    pub authorities: PathBuf,
    /// Revocation lists in PEM or DER; without any, nothing is revoked.
    pub revocation_lists: Vec<PathBuf>,
    /// What the lists must cover.
    pub coverage: Coverage,
    /// Who is let in.
    pub rules: ClientRules,
}

/// A [`ClientAuth`] with its files read and checked.
pub struct Clients {
    auth: ClientAuth,
    roots: Arc<RootCertStore>,
    authorities: Vec<CertificateDer<'static>>,
    /// Those whose own certificate says that they are none: position in the file, from one, and subject.
    impostors: Vec<(usize, String)>,
    revocation_lists: Vec<RevocationList>,
}

struct RevocationList {
    path: PathBuf,
    der: CertificateRevocationListDer<'static>,
    issuer: String,
    /// Its last second since 1970, and the same for people; some lists have none.
    until: Option<(i64, String)>,
}

impl Clients {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// When a file cannot be read or does not hold what it should.
    pub fn load(auth: &ClientAuth) -> Result<Self, TrustError> {
        let Authorities { roots, certificates: authorities } = Authorities::load(&auth.authorities, "client_ca")?;
        let impostors = (1..).zip(&authorities).filter_map(|(position, der)| Some((position, impostor(der)?)));
        let mut clients = Self {
            auth: auth.clone(),
            roots,
            impostors: impostors.collect(),
            authorities,
            revocation_lists: Vec::new(),
        };
        for path in &auth.revocation_lists {
            let lists = clients.read_revocation_lists(path)?;
            clients.revocation_lists.extend(lists);
        }
        Ok(clients)
    }

    fn read_revocation_lists(&self, path: &Path) -> Result<Vec<RevocationList>, TrustError> {
        let role = "client_crl";
        let unusable = |reason| TrustError::Unusable { role, path: path.into(), reason };
        let file = PemFile::read_large(path, role)?;
        let lists = file.der().map_or_else(|| file.sections_of(SectionKind::Crl), |der| Ok(vec![der]))?;
        if lists.is_empty() {
            return Err(unusable("holds no revocation list; it must hold one, in PEM or DER".to_owned()));
        }
        let read = |der: Vec<u8>| {
            let (_, list) = x509_parser::parse_x509_crl(&der)
                .map_err(|error| unusable(format!("the revocation list is damaged ({error})")))?;
            let (issuer, until) = (list.issuer().to_string(), until(&list));
            let der = CertificateRevocationListDer::from(der);
            self.builder(&aws_lc_rs::default_provider())
                .with_crls([der.clone()])
                .build()
                .map_err(|error| unusable(format!("the revocation list cannot be used ({error})")))?;
            Ok(RevocationList { path: path.into(), der, issuer, until })
        };
        lists.into_iter().map(read).collect()
    }

    fn builder(&self, provider: &CryptoProvider) -> rustls::server::ClientCertVerifierBuilder {
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), Arc::new(provider.clone()))
    }

    /// What verifies chains, for one shard.
    pub(super) fn verifier(
        &self,
        provider: &CryptoProvider,
    ) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
        let lists = self.revocation_lists.iter().map(|list| list.der.clone());
        let mut builder = self.builder(provider).with_crls(lists).enforce_revocation_expiration();
        builder = match self.auth.coverage {
            Coverage::Chain => builder,
            Coverage::Leaf => builder.only_check_end_entity_revocation(),
            Coverage::Available => builder.allow_unknown_revocation_status(),
        };
        if !self.auth.required {
            builder = builder.allow_unauthenticated();
        }
        builder.build()
    }

    /// Whether a client must have a certificate.
    pub(super) const fn are_required(&self) -> bool {
        self.auth.required
    }

    pub(super) const fn rules(&self) -> &ClientRules {
        &self.auth.rules
    }

    /// A digest of all that a client's certificate is judged by.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        // With its length in front, so that no two lists of fields give the same bytes.
        let mut field = |bytes: &[u8]| {
            context.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            context.update(bytes);
        };
        field(if self.auth.required { b"required" } else { b"optional" });
        field(match self.auth.coverage {
            Coverage::Chain => b"chain",
            Coverage::Leaf => b"leaf",
            Coverage::Available => b"available",
        });
        field(b"authorities");
        self.authorities.iter().for_each(|authority| field(authority));
        field(b"revocation lists");
        self.revocation_lists.iter().for_each(|list| field(&list.der));
        field(b"rules");
        self.auth.rules.write(field);
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        digest
    }

    /// What is worth a warning at `unix_time`, seconds since 1970.
    #[must_use]
    pub fn warnings(&self, unix_time: u64) -> Vec<String> {
        let now = i64::try_from(unix_time).unwrap_or(i64::MAX);
        let expired = self.revocation_lists.iter().filter_map(|list| {
            let (until, shown) = list.until.as_ref()?;
            let (path, issuer) = (list.path.display(), &list.issuer);
            (now > *until).then(|| {
                format!(
                    "client_crl {path}: the revocation list of {issuer} expired on {shown}; clients whose certificates it \
                     covers are refused until there is a newer one"
                )
            })
        });
        let path = self.auth.authorities.display();
        let impostors = self.impostors.iter().map(|(position, subject)| {
            format!(
                "client_ca {path}: certificate number {position} (subject {subject}) is no authority's, it lacks CA:TRUE; \
                 whoever has its key lets clients in all the same"
            )
        });
        impostors.chain(expired).collect()
    }
}

/// The subject of a certificate that is no authority's. Those before version 3 do not say whether they are.
fn impostor(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    (parsed.version() == X509Version::V3 && !parsed.is_ca()).then(|| parsed.subject().to_string())
}

fn until(list: &CertificateRevocationList<'_>) -> Option<(i64, String)> {
    list.next_update().map(|time| (time.timestamp(), time.to_string()))
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("auth", &self.auth).finish_non_exhaustive()
    }
}
