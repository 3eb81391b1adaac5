//! Session tickets: what lets a client come back without a full handshake.
//!
//! Nothing is stored. A ticket is the session's state, sealed with AES-256-GCM under a key that HKDF derives from a
//! secret, the listener's binding and an epoch, a six-hour stretch of wall-clock time. Deriving takes two hashes and
//! happens anew for each ticket, so there is no key to rotate, no lock and no memory shared between shards; a session
//! resumes on each shard, process or host that has the same secret and binding.
//!
//! ```text
//! ticket: | epoch, 8 | nonce, 12 | sealed state | tag, 16 |
//! ```
//!
//! Invariants: a ticket opens only under the secret, binding and epoch that sealed it, and only in its own epoch, the
//! one after, and (for hosts whose clocks differ) the one before. Everything else is a ticket that does not decrypt,
//! which costs its owner a full handshake and nothing more.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, rand};
use rustls::server::ProducesTickets;

use super::clients::Clients;
use super::credentials::Credentials;
use super::overheard::Overheard;
use super::ticket_secret::TicketSecret;

/// How long one key seals tickets. A ticket is good for at least this long and at most twice as long.
const EPOCH_SECONDS: u64 = 6 * 60 * 60;
/// What clients are told: the longest that a ticket can be good for.
const LIFETIME_SECONDS: u32 = 12 * 60 * 60;
const EPOCH_LEN: usize = 8;

/// The ticket keys of one listener, for all epochs.
#[derive(Clone)]
pub struct TicketKeys {
    secret: hkdf::Prk,
    binding: Box<[u8]>,
}

impl TicketKeys {
    /// Keys from `secret` for the listener that `binding` stands for.
    ///
    /// On resumption rustls checks little more than the server name, so the binding must hold the listener's
    /// name, or what else tells it from others. How it authenticates clients is bound by the acceptor. Tickets from
    /// another binding do not decrypt.
    #[must_use]
    pub fn new(secret: &TicketSecret, binding: &[u8]) -> Self {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"ringwall session tickets");
        Self { secret: salt.extract(secret.bytes()), binding: binding.into() }
    }

    /// Keys for the same listener as long as it authenticates clients in the same way: with other authorities,
    /// revocation lists or rules, or none of them, tickets do not decrypt.
    pub(super) fn bound_to(&self, credentials: &Credentials) -> Self {
        let clients = credentials.clients.as_ref().map_or([0; 32], Clients::digest);
        Self { secret: self.secret.clone(), binding: [&self.binding[..], &clients].concat().into() }
    }

    /// The same keys, told the time by `unix_time`, in the form that rustls asks for. It hears and tells through
    /// `overheard` how long the client's certificates last.
    pub(super) fn producer(&self, unix_time: fn() -> u64, overheard: Arc<Overheard>) -> TicketProducer {
        TicketProducer { keys: self.clone(), unix_time, overheard }
    }

    fn key(&self, epoch: u64) -> Option<LessSafeKey> {
        let info = [&b"ticket key"[..], &epoch.to_be_bytes(), &self.binding];
        let key = self.secret.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }

    fn seal(&self, epoch: u64, state: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(EPOCH_LEN + NONCE_LEN + state.len() + AES_256_GCM.tag_len());
        ticket.extend_from_slice(&epoch.to_be_bytes());
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(state);
        let (_, sealed) = ticket.split_at_mut(EPOCH_LEN + NONCE_LEN);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key(epoch)?.seal_in_place_separate_tag(nonce, Aad::empty(), sealed).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, epoch_now: u64, ticket: &[u8]) -> Option<Vec<u8>> {
        let (epoch, rest) = ticket.split_first_chunk::<EPOCH_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let epoch = u64::from_be_bytes(*epoch);
        if epoch.abs_diff(epoch_now) > 1 {
            return None;
        }
        let mut state = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let len = self.key(epoch)?.open_in_place(nonce, Aad::empty(), &mut state).ok()?.len();
        state.truncate(len);
        Some(state)
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKeys")
    }
}

/// One shard's sealer and opener of tickets.
///
/// In front of the state that it seals stand 8 bytes: the last second at which the client's certificates are valid, or
/// all ones where it has shown none. rustls does not look at them again when a session resumes.
pub(super) struct TicketProducer {
    keys: TicketKeys,
    unix_time: fn() -> u64,
    overheard: Arc<Overheard>,
}

impl TicketProducer {
    fn epoch_now(&self) -> u64 {
        (self.unix_time)() / EPOCH_SECONDS
    }
}

impl ProducesTickets for TicketProducer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_SECONDS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let until = self.overheard.heard().certificates_until.unwrap_or(u64::MAX);
        self.keys.seal(self.epoch_now(), &[&until.to_be_bytes(), plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let mut state = self.keys.open(self.epoch_now(), cipher)?;
        let until = u64::from_be_bytes(*state.first_chunk()?);
        if (self.unix_time)() > until {
            return None;
        }
        self.overheard.heard().certificates_until = Some(until);
        Some(state.split_off(size_of::<u64>()))
    }
}

impl fmt::Debug for TicketProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketProducer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secret: u8, binding: &str) -> TicketKeys {
        TicketKeys::new(&TicketSecret::from_bytes([secret; 32]), binding.as_bytes())
    }

    #[test]
    fn a_ticket_opens_in_its_own_epoch_the_next_and_the_one_before() {
        let ticket = keys(1, "a").seal(100, b"state").unwrap();
        // Epoch, nonce, state and tag.
        assert_eq!(ticket.len(), 8 + 12 + 5 + 16);
        let states: Vec<_> = (97..=103).map(|epoch| keys(1, "a").open(epoch, &ticket)).collect();
        let state = Some(b"state".to_vec());
        assert_eq!(states, [None, None, state.clone(), state.clone(), state, None, None]);
    }

    #[test]
    fn a_ticket_of_another_listener_or_another_secret_does_not_open() {
        let ticket = keys(1, "a").seal(100, b"state").unwrap();
        assert_eq!(keys(1, "b").open(100, &ticket), None);
        assert_eq!(keys(2, "a").open(100, &ticket), None);
    }

    #[test]
    fn a_ticket_with_any_bit_changed_or_byte_missing_does_not_open() {
        let keys = keys(1, "a");
        let ticket = keys.seal(100, b"state").unwrap();
        for bit in 0..ticket.len() * 8 {
            let mut forged = ticket.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(keys.open(100, &forged), None, "bit {bit}");
        }
        for len in 0..ticket.len() {
            assert_eq!(keys.open(100, &ticket[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn no_two_tickets_are_alike() {
        let keys = keys(1, "a");
        assert_ne!(keys.seal(100, b"state"), keys.seal(100, b"state"));
    }

    #[test]
    fn no_text_about_keys_holds_a_byte_of_them() {
        let secret = TicketSecret::from_bytes([0xab; 32]);
        assert_eq!(format!("{secret:?}"), "TicketSecret { file: None, .. }");
        assert_eq!(format!("{:?}", TicketKeys::new(&secret, b"a")), "TicketKeys");
    }
}
