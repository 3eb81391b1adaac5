//! A client that seals TLS 1.3 records of its own making, which no well-behaved library would send.

use std::sync::{Arc, Mutex};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use rustls::crypto::aws_lc_rs as provider;
use rustls::version::TLS13;
use rustls::{AlertDescription, Error, KeyLog};

use crate::support::{Peer, Server, World, shake_hands};

/// Content types (RFC 8446, appendix B.1).
pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;

pub(crate) struct Forger {
    /// Reads what the server says; must not write.
    pub(crate) client: Peer,
    pen: Pen,
}

impl Forger {
    /// A handshake, after which the client's own writing keys are the forger's.
    pub(crate) fn connect(world: &World) -> (Self, Server) {
        let log = Arc::new(Secret::of("CLIENT_TRAFFIC_SECRET_0"));
        let mut config = Arc::unwrap_or_clone(world.client_config(provider::default_provider(), &[&TLS13]));
        config.key_log = Arc::<Secret>::clone(&log);
        let mut client = Peer::client(Arc::new(config), "redis.test");
        let mut server = world.server();
        shake_hands(&mut client, &mut server);
        (Self { client, pen: log.pen() }, server)
    }

    /// The keys alone, for who does not look at the answers.
    pub(crate) fn into_pen(self) -> Pen {
        self.pen
    }

    pub(crate) fn seal(&mut self, content_type: u8, plaintext: &[u8]) -> Vec<u8> {
        self.pen.seal_padded(content_type, plaintext, 0)
    }

    pub(crate) fn seal_padded(&mut self, content_type: u8, plaintext: &[u8], padding: usize) -> Vec<u8> {
        self.pen.seal_padded(content_type, plaintext, padding)
    }

    /// The client must find exactly this alert at the end of `replies`.
    pub(crate) fn expect_alert(&mut self, replies: &[u8], alert: AlertDescription) {
        assert_eq!(self.client.take(replies), Err(Error::AlertReceived(alert)));
    }
}

/// One side's traffic keys, and how often they have been used.
pub(crate) struct Pen {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Pen {
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

/// Keeps the secret that the first traffic keys of one side derive from.
#[derive(Debug)]
pub(crate) struct Secret {
    label: &'static str,
    secret: Mutex<Vec<u8>>,
}

impl Secret {
    pub(crate) fn of(label: &'static str) -> Self {
        Self { label, secret: Mutex::default() }
    }

    /// What seals as that side does, with TLS_AES_128_GCM_SHA256.
    pub(crate) fn pen(&self) -> Pen {
        let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &self.secret.lock().unwrap());
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &expand::<16>(&secret, b"key")).unwrap());
        Pen { key, iv: expand(&secret, b"iv"), sequence: 0 }
    }
}

impl KeyLog for Secret {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label == self.label {
            *self.secret.lock().unwrap() = secret.to_vec();
        }
    }
}
