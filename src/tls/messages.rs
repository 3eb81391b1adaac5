//! Handshake messages behind the handshake, whichever records they come in (RFC 8446, section 5.1).
//!
//! A message that is whole in its record is handed over where it lies. Of one that is not, what has come is kept; how
//! long it may get is judged when its header is here.

use super::alert::Fault;

/// Type and length (RFC 8446, section 4).
const HEADER_LEN: usize = 4;

/// What becomes of a message, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is handed over whole.
    Kept,
    /// It is handed over without its body as soon as its header is here, and the rest is passed over.
    PassedOver,
}

/// A handshake message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<'m> {
    pub(super) kind: u8,
    /// Empty when it is passed over.
    pub(super) body: &'m [u8],
}

/// The messages of one direction.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The start of a message whose end is not here yet, or such a message whole, just handed over.
    kept: Vec<u8>,
    /// How many bytes of a message that is passed over are still to come.
    passed_over: usize,
    /// What is kept is handed over.
    is_spent: bool,
}

impl Messages {
    /// Whether a message has begun and not ended.
    pub(super) const fn is_within(&self) -> bool {
        self.passed_over > 0 || !self.kept.is_empty() && !self.is_spent
    }

    /// How many bytes of a message wait for the rest.
    pub(super) const fn kept_bytes(&self) -> usize {
        if self.is_spent { 0 } else { self.kept.len() }
    }

    /// Takes the next message from `fragment`, what is left of a record's content, or keeps what there is of it.
    /// `judge` is told the type and the length of each message.
    pub(super) fn next<'m, 'f: 'm>(
        &'m mut self,
        fragment: &mut &'f [u8],
        judge: impl Fn(u8, usize) -> Result<Fate, Fault>,
    ) -> Result<Option<Message<'m>>, Fault> {
        if std::mem::take(&mut self.is_spent) {
            self.kept = Vec::new();
        }
        let over = fragment.split_off(..self.passed_over.min(fragment.len())).unwrap_or_default();
        self.passed_over -= over.len();
        if self.kept.is_empty()
            && let Some((kind, len)) = header(fragment)
        {
            if judge(kind, len)? == Fate::PassedOver {
                let _ = fragment.split_off(..HEADER_LEN);
                self.passed_over = len;
                return Ok(Some(Message { kind, body: &[] }));
            }
            if let Some(message) = fragment.split_off(..HEADER_LEN + len) {
                return Ok(Some(Message { kind, body: &message[HEADER_LEN..] }));
            }
        }
        self.keep_until(HEADER_LEN, fragment);
        let Some((kind, len)) = header(&self.kept) else { return Ok(None) };
        if judge(kind, len)? == Fate::PassedOver {
            self.kept = Vec::new();
            self.passed_over = len;
            return Ok(Some(Message { kind, body: &[] }));
        }
        self.keep_until(HEADER_LEN + len, fragment);
        if self.kept.len() < HEADER_LEN + len {
            return Ok(None);
        }
        self.is_spent = true;
        Ok(Some(Message { kind, body: &self.kept[HEADER_LEN..] }))
    }

    /// Moves bytes from the fragment until so many are kept, or it is empty.
    fn keep_until(&mut self, len: usize, fragment: &mut &[u8]) {
        let wanted = len.saturating_sub(self.kept.len()).min(fragment.len());
        self.kept.extend_from_slice(fragment.split_off(..wanted).unwrap_or_default());
    }
}

fn header(bytes: &[u8]) -> Option<(u8, usize)> {
    match bytes {
        [kind, high, middle, low, ..] => Some((*kind, u32::from_be_bytes([0, *high, *middle, *low]) as usize)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types 1 are passed over, types 24 kept.
    fn judge(kind: u8, len: usize) -> Result<Fate, Fault> {
        match (kind, len) {
            (1, _) => Ok(Fate::PassedOver),
            (24, ..=10) => Ok(Fate::Kept),
            _ => Err(Fault::unexpected()),
        }
    }

    /// All messages in these records, and whether the last one is incomplete.
    fn read(records: &[&[u8]]) -> (Vec<(u8, Vec<u8>)>, bool) {
        let (mut messages, mut found) = (Messages::default(), Vec::new());
        for mut fragment in records.iter().copied() {
            while let Some(message) = messages.next(&mut fragment, judge).unwrap() {
                found.push((message.kind, message.body.to_vec()));
            }
            assert_eq!(fragment, b"");
        }
        (found, messages.is_within())
    }

    const STREAM: [u8; 23] = [24, 0, 0, 3, 7, 8, 9, 1, 0, 0, 5, 1, 2, 3, 4, 5, 24, 0, 0, 0, 1, 0, 0];

    #[test]
    fn messages_cut_at_any_two_bytes_are_the_same() {
        let expected = vec![(24, vec![7, 8, 9]), (1, vec![]), (24, vec![])];
        for first in 0..=STREAM.len() {
            for second in first..=STREAM.len() {
                let pieces = [&STREAM[..first], &STREAM[first..second], &STREAM[second..]];
                assert_eq!(read(&pieces), (expected.clone(), true), "cut at {first} and {second}");
            }
        }
        let bytes: Vec<_> = STREAM.chunks(1).collect();
        assert_eq!(read(&bytes), (expected, true));
    }

    #[test]
    fn a_message_is_begun_until_its_last_byte_is_here() {
        for len in 0..=STREAM.len() {
            assert_eq!(read(&[&STREAM[..len]]).1, ![0, 7, 16, 20].contains(&len), "{len} bytes");
        }
    }

    #[test]
    fn a_message_is_judged_by_its_header_and_nothing_of_what_is_passed_over_is_kept() {
        let mut messages = Messages::default();
        let mut fragment = &[24, 0, 0, 11][..];
        assert_eq!(messages.next(&mut fragment, judge), Err(Fault::unexpected()));
        let mut messages = Messages::default();
        // 16 MiB are announced.
        let mut fragment = &[1, 0xff, 0xff, 0xff][..];
        assert_eq!(messages.next(&mut fragment, judge), Ok(Some(Message { kind: 1, body: &[] })));
        assert_eq!(messages.next(&mut &[0; 1000][..], judge), Ok(None));
        assert!(messages.is_within());
        assert_eq!(messages.kept_bytes(), 0);
    }
}
