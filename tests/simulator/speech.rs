//! What peers say to each other through the proxy: bytes that are recognised wherever they turn up.
//!
//! Every peer has a stream of its own: four bytes with its name, then the bytes of a large table from a place of its
//! own on. A byte lost, doubled or out of order, or one of somebody else's, is the wrong byte where it is heard.

use std::sync::LazyLock;

use crate::simulation::Rng;

/// More than any peer says, so that no two places of a stream look alike.
const TABLE_BYTES: usize = 4 << 20;

static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut rng = Rng::new(0x0074_6162_6c65);
    (0..TABLE_BYTES / 8).flat_map(|_| rng.next().to_le_bytes()).collect()
});

/// Bytes of a stream's name.
const NAME_BYTES: u64 = 4;

/// Who speaks: the number of a client, or of a server's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    Client(u16),
    Backend(u16),
}

impl Speaker {
    const fn name(self) -> [u8; 4] {
        let (mark, number) = match self {
            Self::Client(number) => (0xc1, number),
            Self::Backend(number) => (0xb2, number),
        };
        let [high, low] = number.to_be_bytes();
        [mark, high, low, mark]
    }

    fn named(name: [u8; 4]) -> Self {
        let [mark, high, low, _] = name;
        let number = u16::from_be_bytes([high, low]);
        let speaker = if mark == 0xc1 { Self::Client(number) } else { Self::Backend(number) };
        assert!(speaker.name() == name, "these first bytes name nobody: {name:?}");
        speaker
    }

    /// The `len` bytes of its stream from `from` on.
    pub(crate) fn bytes(self, from: u64, len: usize) -> Vec<u8> {
        let name = self.name();
        let rest_of_name = &name[usize::try_from(from.min(NAME_BYTES)).expect("at most 4")..];
        let named = rest_of_name.len().min(len);
        let mut bytes = rest_of_name[..named].to_vec();
        let number = match self {
            Self::Client(number) => usize::from(number) * 2,
            Self::Backend(number) => usize::from(number) * 2 + 1,
        };
        let skipped = usize::try_from(from.saturating_sub(NAME_BYTES)).expect("streams are short");
        let mut at = (number * 50_021 + skipped) % TABLE_BYTES;
        while bytes.len() < len {
            let piece = (len - bytes.len()).min(TABLE_BYTES - at);
            bytes.extend_from_slice(&TABLE[at..at + piece]);
            at = 0;
        }
        bytes
    }
}

/// What has been heard of a stream.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    name: Vec<u8>,
    /// Who speaks, once its name is complete.
    pub(crate) speaker: Option<Speaker>,
    /// Bytes heard.
    pub(crate) bytes: u64,
}

impl Heard {
    /// Takes the next bytes and panics when they are not the stream's next ones.
    pub(crate) fn hear(&mut self, who: &str, mut bytes: &[u8]) {
        while self.speaker.is_none() {
            let Some((&first, rest)) = bytes.split_first() else { return };
            bytes = rest;
            self.name.push(first);
            self.bytes += 1;
            self.speaker = <[u8; 4]>::try_from(&self.name[..]).ok().map(Speaker::named);
        }
        let Some(speaker) = self.speaker else { return };
        let expected = speaker.bytes(self.bytes, bytes.len());
        if expected != bytes {
            let at = expected.iter().zip(bytes).take_while(|(expected, heard)| expected == heard).count();
            panic!("{who} hears a wrong byte of {speaker:?} at {}", self.bytes + at as u64);
        }
        self.bytes += bytes.len() as u64;
    }
}
