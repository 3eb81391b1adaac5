//! A connection behind its handshake: what its records mean, and what is answered.
//!
//! Besides plaintext there are alerts, changes of keys and tickets (RFC 8446, sections 4.6 and 6), and in TLS 1.2
//! attempts at another handshake, which is refused. What the standards call an error ends in a [`Fault`] with the alert
//! that they want.
//!
//! Invariants: a key seals no more records than its cipher suite lets it; TLS 1.3 changes it before, and TLS 1.2, which
//! cannot, ends the connection. A peer that asks for a change of ours has one before our next plaintext, however often
//! it asked.

use rustls::{ExtractedSecrets, SupportedCipherSuite};

use super::alert::{self, Fault};
use super::client_names::ClientNames;
use super::connection::Role;
use super::failure::{Failure, alert_name};
use super::key_schedule::KeySchedule;
use super::messages::{Fate, Messages};
use super::patience::Patience;
use super::policy::Version;
use super::record::{self, Form, Keys, Opener, PLAINTEXT_MAX, Sealer};
use super::summary::Summary;
use crate::pool::SendBuf;

/// Handshake messages (RFC 8446, section 4; RFC 5246, section 7.4).
const HELLO_REQUEST: u8 = 0;
const CLIENT_HELLO: u8 = 1;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

const UPDATE_NOT_REQUESTED: u8 = 0;
const UPDATE_REQUESTED: u8 = 1;
/// A KeyUpdate: type, length, whether the peer shall change its keys as well.
const KEY_UPDATE_LEN: usize = 5;

/// The longest ticket message that is taken. OpenSSL's have 250 bytes, and a certificate of the client more.
const TICKET_BYTES_MAX: usize = 48 * 1024;

/// Whether more may come from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It goes on.
    More,
    /// It has sent close_notify.
    Closed,
}

/// An open connection.
pub(super) struct Traffic {
    form: Form,
    role: Role,
    opener: Opener,
    sealer: Sealer,
    /// TLS 1.2 has none: its keys stay.
    schedule: Option<KeySchedule>,
    messages: Messages,
    patience: Patience,
    /// The peer has asked for a change of our keys.
    update_owed: bool,
    summary: Summary,
    client_identity: Option<Box<str>>,
    /// The names in the client's certificate, which few have.
    client_names: Option<Box<ClientNames>>,
}

impl Traffic {
    /// Goes on where the library's handshake has ended. None when its keys are of an unknown kind.
    pub(super) fn new(
        role: Role,
        suite: SupportedCipherSuite,
        secrets: ExtractedSecrets,
        schedule: KeySchedule,
        summary: Summary,
        client_identity: Option<Box<str>>,
    ) -> Option<Self> {
        let (sending, receiving) = (Keys::extracted(secrets.tx)?, Keys::extracted(secrets.rx)?);
        let (form, schedule, records_max) = match suite {
            SupportedCipherSuite::Tls13(suite) => (Form::Tls13, Some(schedule), suite.common.confidentiality_limit),
            SupportedCipherSuite::Tls12(suite) => {
                let form = if sending.has_explicit_nonce() { Form::Tls12ExplicitNonce } else { Form::Tls12 };
                (form, None, suite.common.confidentiality_limit)
            }
        };
        Some(Self {
            form,
            role,
            opener: Opener::new(receiving, form),
            sealer: Sealer::new(sending, form, records_max),
            schedule,
            messages: Messages::default(),
            patience: Patience::default(),
            update_owed: false,
            summary,
            client_identity,
            client_names: None,
        })
    }

    pub(super) const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// With the names in the client's certificate.
    pub(super) fn of_client(self, names: Option<ClientNames>) -> Self {
        Self { client_names: names.map(Box::new), ..self }
    }

    pub(super) fn client_names(&self) -> Option<&ClientNames> {
        self.client_names.as_deref()
    }

    pub(super) fn client_identity(&self) -> Option<&str> {
        self.client_identity.as_deref()
    }

    /// How many bytes of a message wait for the rest.
    pub(super) const fn kept_bytes(&self) -> usize {
        self.messages.kept_bytes()
    }

    /// Judges a record of which only the start is here.
    pub(super) fn check_unfinished(&self, bytes: &[u8]) -> Result<(), Fault> {
        record::check_header(self.form.version(), bytes)
    }

    /// Opens a whole record in place. Its plaintext, where there is any, goes to `plaintext`. An answer goes to
    /// `replies`, or nowhere when `closed` says that nothing may follow what was sent.
    pub(super) fn open(
        &mut self,
        record: &mut [u8],
        replies: &mut Vec<u8>,
        closed: bool,
        plaintext: impl FnOnce(&[u8]),
    ) -> Result<Heard, Fault> {
        record::check_header(self.form.version(), record)?;
        let content = self.opener.open(record)?;
        if content.kind != record::HANDSHAKE && self.messages.is_within() {
            return Err(Fault::unexpected());
        }
        if content.bytes.is_empty() {
            self.patience.empty_record()?;
        } else {
            self.patience.full_record();
        }
        match (content.kind, content.bytes) {
            (record::APPLICATION_DATA, []) => {}
            (record::APPLICATION_DATA, bytes) => {
                self.patience.traffic();
                plaintext(bytes);
            }
            // RFC 8446, section 5.4.
            (record::ALERT | record::HANDSHAKE, []) if self.form == Form::Tls13 => return Err(Fault::unexpected()),
            (record::ALERT, bytes) => return self.hear_alert(bytes),
            (record::HANDSHAKE, fragment) => self.hear_messages(fragment, replies, closed)?,
            _ => return Err(Fault::unexpected()),
        }
        Ok(Heard::More)
    }

    fn hear_alert(&mut self, bytes: &[u8]) -> Result<Heard, Fault> {
        let &[level, description] = bytes else { return Err(Fault::malformed()) };
        let received = Failure::AlertReceived(alert_name(description));
        match (level, description) {
            (alert::WARNING | alert::FATAL, alert::CLOSE_NOTIFY) => return Ok(Heard::Closed),
            (alert::WARNING, alert::USER_CANCELED) => self.patience.warning()?,
            (alert::WARNING, _) if self.form != Form::Tls13 => self.patience.warning()?,
            (alert::WARNING | alert::FATAL, _) => return Err(Fault { failure: received, alert: None }),
            _ => return Err(Fault::told(received, alert::ILLEGAL_PARAMETER)),
        }
        Ok(Heard::More)
    }

    fn hear_messages(&mut self, mut fragment: &[u8], replies: &mut Vec<u8>, closed: bool) -> Result<(), Fault> {
        let (version, role) = (self.form.version(), self.role);
        while let Some(message) = self.messages.next(&mut fragment, |kind, len| judge(version, role, kind, len))? {
            match (message.kind, message.body) {
                (KEY_UPDATE, &[request]) => {
                    // What follows is sealed with other keys, so nothing may follow in the same record.
                    if !fragment.is_empty() {
                        return Err(Fault::unexpected());
                    }
                    self.update_receiving(request)?;
                }
                (NEW_SESSION_TICKET, body) => {
                    self.schedule.as_mut().ok_or(Fault::unexpected())?.take_ticket(body)?;
                }
                (HELLO_REQUEST | CLIENT_HELLO, _) => {
                    self.patience.renegotiation()?;
                    if !closed {
                        self.seal_alert(alert::WARNING, alert::NO_RENEGOTIATION, replies);
                    }
                }
                _ => return Err(Fault::unexpected()),
            }
        }
        Ok(())
    }

    fn update_receiving(&mut self, request: u8) -> Result<(), Fault> {
        self.patience.key_update()?;
        match request {
            UPDATE_NOT_REQUESTED => {}
            UPDATE_REQUESTED => self.update_owed = true,
            _ => return Err(Fault::told(Failure::Malformed, alert::ILLEGAL_PARAMETER)),
        }
        let schedule = self.schedule.as_mut().ok_or(Fault::internal())?;
        self.opener.rekey(schedule.next_for_receiving()?);
        Ok(())
    }

    /// Appends `plaintext` in records to `out`, behind the changes of keys that are due. Empty plaintext makes none.
    ///
    /// Fails with [`Failure::KeysExhausted`] before it seals anything.
    ///
    /// # Panics
    /// When `out` has less room than [`Traffic::sealed_len_max`].
    pub(super) fn seal(&mut self, plaintext: &[u8], out: &mut SendBuf) -> Result<(), Failure> {
        let records = plaintext.len().div_ceil(PLAINTEXT_MAX) as u64;
        if self.schedule.is_none() && records > self.sealer.records_left() {
            return Err(Failure::KeysExhausted);
        }
        if self.update_owed && !plaintext.is_empty() {
            self.update_owed = false;
            self.update_sending(UPDATE_NOT_REQUESTED, out)?;
        }
        for content in plaintext.chunks(PLAINTEXT_MAX) {
            // The last record of a key is the change to the next.
            if self.schedule.is_some() && self.sealer.records_left() <= 1 && !self.sealer.is_fresh() {
                self.update_sending(UPDATE_REQUESTED, out)?;
            }
            let sealed = self.sealer.seal(record::APPLICATION_DATA, content, out.room_mut());
            out.fill(sealed);
        }
        Ok(())
    }

    fn update_sending(&mut self, request: u8, out: &mut SendBuf) -> Result<(), Failure> {
        let Some(schedule) = &mut self.schedule else { return Err(Failure::Internal) };
        let sealed = self.sealer.seal(record::HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, request], out.room_mut());
        out.fill(sealed);
        self.sealer.rekey(schedule.next_for_sending().map_err(|fault| fault.failure)?);
        Ok(())
    }

    /// The room that [`Traffic::seal`] needs for `plaintext_len` bytes.
    pub(super) fn sealed_len_max(&self, plaintext_len: usize) -> usize {
        let records = plaintext_len.div_ceil(PLAINTEXT_MAX);
        // The answer to a change of the peer's keys, and one change of ours in as many records as a key may seal.
        let mut updates = 1;
        if self.schedule.is_some() && records as u64 >= self.sealer.records_left() {
            let between = self.sealer.records_max().saturating_sub(1).max(1);
            updates += 1 + records / usize::try_from(between).unwrap_or(usize::MAX);
        }
        plaintext_len + records * self.form.overhead() + updates * self.sealer.sealed_len(KEY_UPDATE_LEN)
    }

    /// Appends an alert to `replies`.
    pub(super) fn seal_alert(&mut self, level: u8, description: u8, replies: &mut Vec<u8>) {
        let alert = [level, description];
        let start = replies.len();
        replies.resize(start + self.sealer.sealed_len(alert.len()), 0);
        self.sealer.seal(record::ALERT, &alert, &mut replies[start..]);
    }
}

/// What becomes of a handshake message of this length in an open connection.
fn judge(version: Version, role: Role, kind: u8, len: usize) -> Result<Fate, Fault> {
    match (version, role, kind) {
        (Version::Tls13, _, KEY_UPDATE) if len == 1 => Ok(Fate::Kept),
        (Version::Tls13, Role::Client, NEW_SESSION_TICKET) if len <= TICKET_BYTES_MAX => Ok(Fate::Kept),
        (Version::Tls13, _, KEY_UPDATE) | (Version::Tls13, Role::Client, NEW_SESSION_TICKET) => Err(Fault::malformed()),
        (Version::Tls12, Role::Server, CLIENT_HELLO) | (Version::Tls12, Role::Client, HELLO_REQUEST) => {
            Ok(Fate::PassedOver)
        }
        _ => Err(Fault::unexpected()),
    }
}
