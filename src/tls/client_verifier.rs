//! Judges the certificate that a client shows: the library its chain, the listener's rules its owner.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_parser::parse_x509_certificate;

use super::client_names::ClientNames;
use super::client_rules::{ClientRules, identity};
use super::overheard::Overheard;

/// The library's verifier with the listener's rules after it.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    pub(super) chain: Arc<dyn ClientCertVerifier>,
    pub(super) rules: ClientRules,
    pub(super) overheard: Arc<Overheard>,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.chain.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.chain.verify_client_cert(end_entity, intermediates, now)?;
        let damaged = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
        let (_, own) = parse_x509_certificate(end_entity).map_err(damaged)?;
        if !self.rules.allow(&own) {
            self.overheard.heard().refused = Some(identity(&own));
            return Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure));
        }
        let mut until = own.validity().not_after.timestamp();
        for intermediate in intermediates {
            let (_, parsed) = parse_x509_certificate(intermediate).map_err(damaged)?;
            until = until.min(parsed.validity().not_after.timestamp());
        }
        self.overheard.heard().certificates_until = Some(u64::try_from(until).unwrap_or(0));
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// The names in a verified certificate.
pub(super) fn names_of(certificate: &CertificateDer<'_>) -> Option<ClientNames> {
    parse_x509_certificate(certificate).ok().map(|(_, parsed)| ClientNames::of(&parsed))
}

/// Who the owner of a verified certificate is.
pub(super) fn identity_of(certificate: &CertificateDer<'_>) -> Option<Box<str>> {
    parse_x509_certificate(certificate).ok().map(|(_, parsed)| identity(&parsed))
}
