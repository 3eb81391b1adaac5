//! Which way a command goes: over a connection that many clients share, or over one of the client's own.
//!
//! The rule behind the table: shared is what neither reads nor changes the state of the connection it runs on, and holds
//! up no other command behind it.

use super::commands::COMMANDS;
use super::family::Family;
use crate::wire::frame::{Form, short_length};

/// The way of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Over a shared connection.
    Shared,
    /// Over a connection of the client's own, until it is answered and what it has begun is over.
    Own(Effect),
    /// As [`Route::Own`] if it asks to block, as [`Route::Shared`] if it does not (XREAD and XREADGROUP).
    OwnIfBlocking,
    /// Over a connection of the client's own for life. Before it something must move that connection's replication
    /// offset past the writes that went over shared connections (WAIT and WAITAOF).
    Wait,
    /// The client takes its leave.
    Quit,
    /// Over a connection of the client's own for life.
    Pinned,
    /// The second argument decides.
    Container,
}

/// What a command does to the connection it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that lasts.
    Nothing,
    /// Another user.
    Auth,
    /// Another protocol, and perhaps another user and name.
    Hello,
    /// Another database.
    Select,
    /// Another name.
    SetName,
    /// Another name or version of the client's library.
    SetInfo,
    /// Reads from replicas in a cluster are welcome.
    ReadOnly,
    /// They are not.
    ReadWrite,
    /// Everything is as on a fresh connection.
    Reset,
    /// A transaction begins.
    Multi,
    /// A transaction ends.
    EndMulti,
    /// Keys are watched.
    Watch,
    /// No keys are watched.
    Unwatch,
    /// The next command may touch a slot that is being imported.
    Asking,
}

impl Effect {
    /// Whether its reply decides where the client stands.
    #[must_use]
    pub const fn changes_standing(self) -> bool {
        match self {
            Self::Auth
            | Self::Hello
            | Self::Select
            | Self::SetName
            | Self::SetInfo
            | Self::ReadOnly
            | Self::ReadWrite
            | Self::Reset => true,
            Self::Nothing | Self::Multi | Self::EndMulti | Self::Watch | Self::Unwatch | Self::Asking => false,
        }
    }
}

/// Most bytes of a name in the table, its subcommand included.
const NAME_BYTES_MAX: usize = 32;

/// A command of the table, as it was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command(u16);

impl Command {
    /// Set where an option makes it block.
    const BLOCKS: u16 = 1 << 15;

    const fn line(self) -> &'static (&'static str, Route, Family) {
        &COMMANDS[(self.0 & !Self::BLOCKS) as usize]
    }

    /// Its name in lower case, a subcommand's behind a bar.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.line().0
    }

    /// What it is about.
    #[must_use]
    pub const fn family(self) -> Family {
        if self.0 & Self::BLOCKS != 0 { Family::Blocking } else { self.line().2 }
    }
}

/// The way of the command with these arguments, its name first.
#[must_use]
pub fn route<'a>(arguments: impl Iterator<Item = &'a [u8]>) -> Route {
    look_up(arguments).map_or(Route::Pinned, |(_, route)| route)
}

/// The command with these arguments, its name first, and its way. What is not in the table is [`Route::Pinned`].
#[must_use]
pub fn look_up<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Option<(Command, Route)> {
    let name = arguments.next()?;
    let found = find_first(name)?;
    match found.line().1 {
        Route::Container => {
            let mut key = Key::default();
            let is_short = key.append(name) && key.append(b"|") && key.append(arguments.next()?);
            let found = find(key.bytes()).filter(|_| is_short)?;
            Some((found, found.line().1))
        }
        // Wherever the word stands: what is the name of a group or of a stream could hide the option.
        Route::OwnIfBlocking if arguments.any(|argument| argument.eq_ignore_ascii_case(b"BLOCK")) => {
            Some((Command(found.0 | Command::BLOCKS), Route::Own(Effect::Nothing)))
        }
        Route::OwnIfBlocking => Some((found, Route::Shared)),
        route @ (Route::Shared | Route::Own(_) | Route::Wait | Route::Quit | Route::Pinned) => Some((found, route)),
    }
}

/// What the table has for a name that is no subcommand's.
fn find_first(name: &[u8]) -> Option<Command> {
    if let Some(word) = Word::of(name) {
        return SHORT.binary_search_by_key(&word.0, |&(word, _)| word).ok().map(|at| SHORT[at].1);
    }
    let mut key = Key::default();
    // Only this side of a subcommand is a bar: servers know no command with one in its name.
    if name.contains(&b'|') || !key.append(name) { None } else { find(key.bytes()) }
}

/// A short name in lower case as a number: in the order of the names.
struct Word(u64);

impl Word {
    const BYTES_MAX: usize = size_of::<u64>();

    /// `None` for a longer name, and for one whose end could not be told from what fills the number up.
    fn of(name: &[u8]) -> Option<Self> {
        name.last().filter(|&&byte| byte != 0)?;
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        bytes.make_ascii_lowercase();
        Some(Self(u64::from_be_bytes(bytes)))
    }

    /// The same for a name of the table, unless it is a subcommand's.
    const fn listed(name: &[u8]) -> Option<Self> {
        if name.len() > Self::BYTES_MAX {
            return None;
        }
        let (mut word, mut at) = (0, 0);
        while at < Self::BYTES_MAX {
            let byte = if at < name.len() { name[at] } else { 0 };
            if byte == b'|' {
                return None;
            }
            word = word << 8 | byte as u64;
            at += 1;
        }
        Some(Self(word))
    }
}

/// The table's lines with short names: nearly all requests are for one of these.
static SHORT: [(u64, Command); SHORT_LINES] = {
    let mut lines = [(0, Command(0)); SHORT_LINES];
    let (mut line, mut at) = (0, 0_u16);
    while (at as usize) < COMMANDS.len() {
        if let Some(word) = Word::listed(COMMANDS[at as usize].0.as_bytes()) {
            lines[line] = (word.0, Command(at));
            line += 1;
        }
        at += 1;
    }
    lines
};

const SHORT_LINES: usize = {
    let (mut lines, mut at) = (0, 0);
    while at < COMMANDS.len() {
        if Word::listed(COMMANDS[at].0.as_bytes()).is_some() {
            lines += 1;
        }
        at += 1;
    }
    lines
};

/// A name on its way into the table, in lower case.
#[derive(Default)]
struct Key {
    storage: [u8; NAME_BYTES_MAX],
    len: usize,
}

impl Key {
    /// `false` when it is longer than any name of the table.
    fn append(&mut self, part: &[u8]) -> bool {
        let Some(room) = self.storage.get_mut(self.len..self.len + part.len()) else { return false };
        room.copy_from_slice(part);
        room.make_ascii_lowercase();
        self.len += part.len();
        true
    }

    fn bytes(&self) -> &[u8] {
        &self.storage[..self.len]
    }
}

/// For each first letter, where its commands begin; and the end.
const LETTERS: [u16; 27] = {
    let mut starts = [0; 27];
    let (mut letter, mut at) = (0, 0);
    while letter < 27 {
        while at < COMMANDS.len() && COMMANDS[at].0.as_bytes()[0] < b'a' + letter {
            at += 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the table has a few hundred lines")]
        {
            starts[letter as usize] = at as u16;
        }
        letter += 1;
    }
    starts
};

fn find(key: &[u8]) -> Option<Command> {
    let letter = key.first().filter(|byte| byte.is_ascii_lowercase()).map(|byte| usize::from(byte - b'a'))?;
    let first = LETTERS[letter];
    let commands = &COMMANDS[usize::from(first)..usize::from(LETTERS[letter + 1])];
    let at = commands.binary_search_by(|(name, ..)| name.as_bytes().cmp(key)).ok()?;
    Some(Command(first + u16::try_from(at).ok()?))
}

/// The names in the table, in their order.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, ..)| *name)
}

/// Whether servers split this inline request at blanks and nowhere else: not with quotes, nor with bytes that they see
/// as a blank in one place and as a part of an argument in another, nor with one that ends their reading.
#[must_use]
pub fn is_plain_line(line: &[u8]) -> bool {
    !line.iter().any(|byte| matches!(byte, b'"' | b'\'' | 0 | 0x0b | 0x0c))
}

/// The arguments of a complete request.
#[must_use]
pub const fn arguments(request: &[u8], form: Form) -> Arguments<'_> {
    Arguments { rest: request, form, is_first: true }
}

/// Iterates over the arguments of a request that a framer has found complete.
#[derive(Clone, Debug)]
pub struct Arguments<'a> {
    rest: &'a [u8],
    form: Form,
    is_first: bool,
}

impl<'a> Arguments<'a> {
    /// Behind the line that begins here, and the number in it.
    fn number_line(&mut self) -> Option<usize> {
        if let Some((number, len)) = short_length(self.rest.get(1..)?) {
            self.rest = &self.rest[1 + len..];
            return Some(number);
        }
        let (mut number, mut at) = (0_usize, 1);
        while let Some(&byte) = self.rest.get(at) {
            at += 1;
            match byte {
                b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(usize::from(byte - b'0'))?,
                b'\n' => {
                    self.rest = &self.rest[at..];
                    return Some(number);
                }
                _ => {}
            }
        }
        None
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self.form {
            Form::Array(_) => {
                if std::mem::take(&mut self.is_first) {
                    self.number_line()?;
                }
                let length = self.number_line()?;
                let (argument, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest.get(2..)?;
                Some(argument)
            }
            Form::Inline => {
                let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
                let start = self.rest.iter().position(|byte| !is_blank(byte))?;
                let argument = &self.rest[start..];
                let end = argument.iter().position(is_blank).unwrap_or(argument.len());
                self.rest = &argument[end..];
                Some(&argument[..end])
            }
        }
    }
}
