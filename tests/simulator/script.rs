//! What peers are going to do: drawn before they meet the proxy, so that a seed says it all.

use std::time::Duration;

use crate::simulation::Rng;

/// How a peer reads what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appetite {
    /// Everything, as soon as it is there.
    Prompt,
    /// A little at a time.
    Slow {
        bytes: usize,
        every: Duration,
    },
    /// Nothing until this long after it connected, then everything.
    Late(Duration),
    Never,
}

/// How a peer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Shuts its write side and reads on.
    HalfClose,
    /// Closes its socket, which resets the connection when something is unread.
    Close,
    Reset,
}

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Tls13,
    Tls12,
    /// Its own words without TLS, as a plain listener expects.
    Plain,
    /// RESP without TLS, where TLS is expected.
    Plaintext,
    /// Bytes that mean nothing.
    Garbage,
    /// Connects and says nothing.
    Silent,
}

/// One thing a client does once its handshake is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Says this many bytes in one go.
    Say(usize),
    /// Says `records` times `bytes`, each in a record of its own.
    Flood {
        records: usize,
        bytes: usize,
    },
    /// Waits until this many bytes have been heard in all, or for so long.
    Await {
        bytes: u64,
        patience: Duration,
    },
    Wait(Duration),
    RefreshKeys,
    /// Sends what is no TLS record.
    Junk,
    CloseNotify,
    Leave(Leave),
}

/// A client's life.
#[derive(Clone, Debug)]
pub(crate) struct ClientScript {
    pub(crate) listener: usize,
    /// When it connects, from the start of the run.
    pub(crate) arrives: Duration,
    pub(crate) language: Language,
    pub(crate) appetite: Appetite,
    /// After how many bytes of its handshake it leaves, and how.
    pub(crate) flees: Option<(usize, Leave)>,
    pub(crate) steps: Vec<Step>,
    /// How long after the proxy has ended it closes; `None`: never.
    pub(crate) lingers: Option<Duration>,
}

/// What makes a server end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cue {
    Heard(u64),
    Said(u64),
    After(Duration),
}

/// How a server treats one connection.
#[derive(Clone, Debug)]
pub(crate) struct ServerScript {
    pub(crate) appetite: Appetite,
    /// Bytes of reply per thousand bytes heard.
    pub(crate) reply_permille: u64,
    /// How long it thinks before it replies.
    pub(crate) thinks: Duration,
    /// What it says unasked, and when after it was reached.
    pub(crate) pushes: Vec<(Duration, usize)>,
    /// How it ends by itself.
    pub(crate) ends: Option<(Cue, Leave)>,
    /// What it does when the proxy has ended; `None`: nothing at all.
    pub(crate) farewell: Option<Leave>,
    /// Where it speaks TLS, whether it ends without close_notify.
    pub(crate) is_curt: bool,
}

/// A time from none to `max` milliseconds.
pub(crate) fn millis(rng: &mut Rng, max: u64) -> Duration {
    Duration::from_micros(rng.below(max * 1000 + 1))
}

impl Appetite {
    fn draw(rng: &mut Rng) -> Self {
        match rng.below(20) {
            0..14 => Self::Prompt,
            14..17 => Self::Slow { bytes: 16 << rng.below(11), every: millis(rng, 20) },
            17..19 => Self::Late(millis(rng, 8_000)),
            _ => Self::Never,
        }
    }
}

impl Leave {
    fn draw(rng: &mut Rng) -> Self {
        [Self::HalfClose, Self::Close, Self::Reset][rng.index(3)]
    }
}

/// Sizes as they come: mostly small, some of a few records, few of more than 64 KiB.
fn size(rng: &mut Rng, budget: &mut usize) -> usize {
    let wanted = match rng.below(20) {
        0..12 => rng.size(200),
        12..17 => rng.size(8 * 1024),
        17..19 => rng.size(40 * 1024),
        _ => rng.size(200 * 1024),
    };
    let given = wanted.min(*budget).max(1);
    *budget = budget.saturating_sub(given);
    given
}

impl Step {
    fn draw(rng: &mut Rng, budget: &mut usize) -> Self {
        match rng.below(40) {
            0..22 => Self::Say(size(rng, budget)),
            22..25 => {
                let (records, bytes) = (rng.size(900).min(*budget / 30 + 1), rng.size(8));
                *budget = budget.saturating_sub(records * (bytes + 22));
                Self::Flood { records, bytes }
            }
            25..32 => Self::Await { bytes: rng.below(4_000), patience: millis(rng, 3_000) },
            32..38 => Self::Wait(millis(rng, 400)),
            _ => Self::RefreshKeys,
        }
    }

    /// How a script ends, if not by the other side.
    fn draw_last(rng: &mut Rng) -> Vec<Self> {
        match rng.below(12) {
            0..3 => vec![],
            3..6 => vec![Self::CloseNotify],
            6 => vec![Self::CloseNotify, Self::Leave(Leave::HalfClose)],
            7 => vec![Self::CloseNotify, Self::Leave(Leave::Close)],
            8 => vec![Self::Junk],
            _ => vec![Self::Leave(Leave::draw(rng))],
        }
    }
}

impl ClientScript {
    /// A client of an ordinary application: asks, reads, and ends in order or stays.
    pub(crate) fn calm(rng: &mut Rng, listener: usize, budget: &mut usize) -> Self {
        let steps = (0..rng.size(6)).map(|_| Step::Say(size(rng, budget))).collect::<Vec<_>>();
        let last = [vec![], vec![Step::CloseNotify], vec![Step::Leave(Leave::HalfClose)]][rng.index(3)].clone();
        Self {
            listener,
            arrives: millis(rng, 50),
            language: if rng.chance(800) { Language::Tls13 } else { Language::Tls12 },
            appetite: Appetite::Prompt,
            flees: None,
            steps: [steps, last].concat(),
            lingers: Some(Duration::ZERO),
        }
    }

    /// One of a crowd that comes at once and says nothing.
    pub(crate) fn silent(rng: &mut Rng, listener: usize, arrives: Duration) -> Self {
        Self {
            listener,
            arrives,
            language: Language::Silent,
            appetite: Appetite::Prompt,
            flees: None,
            steps: vec![Step::Wait(millis(rng, 20_000)), Step::Leave(Leave::Close)],
            lingers: Some(Duration::ZERO),
        }
    }

    pub(crate) fn rough(rng: &mut Rng, listener: usize, budget: &mut usize) -> Self {
        let language = match rng.below(30) {
            0..20 => Language::Tls13,
            20..26 => Language::Tls12,
            26 => Language::Garbage,
            27 => Language::Silent,
            _ => Language::Plaintext,
        };
        let steps = (0..rng.index(8)).map(|_| Step::draw(rng, budget)).collect::<Vec<_>>();
        Self {
            listener,
            arrives: millis(rng, 3_000),
            language,
            appetite: Appetite::draw(rng),
            flees: rng.chance(80).then(|| (rng.index(1_800), Leave::draw(rng))),
            steps: [steps, Step::draw_last(rng)].concat(),
            lingers: rng.chance(800).then(|| millis(rng, 100)),
        }
    }
}

impl ServerScript {
    /// A server that replies and ends when its client has.
    pub(crate) fn calm(rng: &mut Rng) -> Self {
        Self {
            appetite: Appetite::Prompt,
            reply_permille: rng.below(2_000),
            thinks: Duration::ZERO,
            pushes: vec![],
            ends: None,
            farewell: Some(Leave::Close),
            is_curt: false,
        }
    }

    pub(crate) fn rough(rng: &mut Rng, budget: &mut usize) -> Self {
        let cue = match rng.below(3) {
            0 => Cue::Heard(rng.below(20_000)),
            1 => Cue::Said(rng.below(20_000)),
            _ => Cue::After(millis(rng, 3_000)),
        };
        Self {
            appetite: Appetite::draw(rng),
            reply_permille: if rng.chance(700) { rng.below(3_000) } else { 0 },
            thinks: if rng.chance(500) { Duration::ZERO } else { millis(rng, 50) },
            pushes: (0..rng.index(4)).map(|_| (millis(rng, 3_000), size(rng, budget))).collect(),
            ends: rng.chance(350).then(|| (cue, Leave::draw(rng))),
            farewell: match rng.below(10) {
                0..7 => Some(Leave::Close),
                7 => Some(Leave::HalfClose),
                8 => Some(Leave::Reset),
                _ => None,
            },
            is_curt: rng.chance(200),
        }
    }
}
