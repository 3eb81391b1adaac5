//! A client that seals TLS 1.3 records of its own making, which no well-behaved library would send.

use std::sync::{Arc, Mutex};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use rustls::crypto::aws_lc_rs as provider;
use rustls::version::TLS13;
use rustls::{AlertDescription, Error, KeyLog};

use crate::support::{Client, Server, World, shake_hands};

/// Content types (RFC 8446, appendix B.1).
pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;

pub(crate) struct Forger {
    /// Reads what the server says; must not write.
    pub(crate) client: Client,
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Forger {
    /// A handshake, after which the client's own writing keys are the forger's.
    pub(crate) fn connect(world: &World) -> (Self, Server) {
        let log = Arc::new(ClientSecret::default());
        let mut config = Arc::unwrap_or_clone(world.client_config(provider::default_provider(), &[&TLS13]));
        config.key_log = Arc::<ClientSecret>::clone(&log);
        let mut client = Client::new(Arc::new(config), "redis.test");
        let mut server = world.server();
        shake_hands(&mut client, &mut server);
        let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &log.0.lock().unwrap());
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &expand::<16>(&secret, b"key")).unwrap());
        (Self { client, key, iv: expand(&secret, b"iv"), sequence: 0 }, server)
    }

    pub(crate) fn seal(&mut self, content_type: u8, plaintext: &[u8]) -> Vec<u8> {
        self.seal_padded(content_type, plaintext, 0)
    }

    /// RFC 8446, section 5.2.
    pub(crate) fn seal_padded(&mut self, content_type: u8, plaintext: &[u8], padding: usize) -> Vec<u8> {
        let mut inner = plaintext.to_vec();
        inner.push(content_type);
        inner.resize(inner.len() + padding.min(16_384 - plaintext.len()), 0);
        let len = u16::try_from(inner.len() + 16).unwrap().to_be_bytes();
        let header = [APPLICATION_DATA, 3, 3, len[0], len[1]];
        let mut nonce = self.iv;
        for (byte, sequence) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= sequence;
        }
        self.sequence += 1;
        self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(header), &mut inner).unwrap();
        [&header[..], &inner].concat()
    }

    /// The client must find exactly this alert at the end of `replies`.
    pub(crate) fn expect_alert(&mut self, replies: &[u8], alert: AlertDescription) {
        assert_eq!(self.client.take(replies), Err(Error::AlertReceived(alert)));
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
fn expand<const LEN: usize>(secret: &hkdf::Prk, label: &[u8]) -> [u8; LEN] {
    struct Len(usize);
    impl hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let label = [b"tls13 ", label].concat();
    let len = u16::try_from(LEN).unwrap().to_be_bytes();
    let info = [&len[..], &[u8::try_from(label.len()).unwrap()], &label, &[0]];
    let mut out = [0; LEN];
    secret.expand(&info, Len(LEN)).unwrap().fill(&mut out).unwrap();
    out
}

/// Keeps the secret that the client's first traffic keys derive from.
#[derive(Debug, Default)]
struct ClientSecret(Mutex<Vec<u8>>);

impl KeyLog for ClientSecret {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label == "CLIENT_TRAFFIC_SECRET_0" {
            *self.0.lock().unwrap() = secret.to_vec();
        }
    }
}
