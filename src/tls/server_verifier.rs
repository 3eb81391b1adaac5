//! Judges the certificate that a server shows, as strictly as the backend says.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::parse_x509_certificate;

/// What is asked of a server's certificate.
#[derive(Clone, Debug)]
pub(super) enum Judgement {
    /// A chain to one of these, and the name.
    Full(Arc<RootCertStore>),
    /// A chain to one of these.
    Chain(Arc<RootCertStore>),
    /// Nothing.
    None,
}

impl PartialEq for Judgement {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Full(one), Self::Full(other)) | (Self::Chain(one), Self::Chain(other)) => one.roots == other.roots,
            (Self::None, Self::None) => true,
            (Self::Full(_) | Self::Chain(_) | Self::None, _) => false,
        }
    }
}

/// The library's checks, as many as are asked for. That the server has the certificate's key is always checked.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    pub(super) judgement: Judgement,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (roots, name) = match &self.judgement {
            Judgement::Full(roots) => (roots, Some(server_name)),
            Judgement::Chain(roots) => (roots, None),
            Judgement::None => return Ok(ServerCertVerified::assertion()),
        };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, self.algorithms.all)
            .map_err(|error| if is_of_authority(end_entity) { OF_AUTHORITY } else { error })?;
        if let Some(name) = name {
            verify_server_name(&certificate, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// What is said of a server that shows an authority's own certificate, as `openssl req -x509` makes them: the library
/// takes none, whoever is trusted, and has no word for it.
const OF_AUTHORITY: Error = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);

fn is_of_authority(certificate: &CertificateDer<'_>) -> bool {
    parse_x509_certificate(certificate).is_ok_and(|(_, parsed)| parsed.is_ca())
}
