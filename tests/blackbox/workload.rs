//! What one client says in a life with many connections, and how many replies that has.
//!
//! A seed decides all of it, and nothing that others do changes a reply: the keys and channels are the client's own, and
//! where another one has to act, a feeder that belongs to this client does. A feeder never waits.

use crate::commands::Commands;
use crate::resp::request;

/// What is said at once, before anything is read.
#[derive(Default)]
pub(crate) struct Burst {
    /// Requests as on the wire, and how many replies each has.
    pub(crate) said: Vec<(Vec<u8>, usize)>,
    /// What the feeder says meanwhile; each has one reply.
    pub(crate) fed: Vec<Vec<u8>>,
    /// Pushes that come because of what is fed.
    pub(crate) pushes: usize,
    /// The server closes the connection then.
    pub(crate) ends: bool,
}

impl Burst {
    fn say(&mut self, arguments: &[impl AsRef<[u8]>]) {
        self.said.push((request(arguments), 1));
    }

    fn of(requests: &[&[&str]]) -> Self {
        let mut burst = Self::default();
        requests.iter().for_each(|arguments| burst.say(arguments));
        burst
    }

    fn fed(requests: &[&[&str]], pushes: usize) -> Self {
        Self { fed: requests.iter().map(|arguments| request(arguments)).collect(), pushes, ..Self::default() }
    }

    /// Requests in it.
    pub(crate) fn requests(&self) -> usize {
        self.said.len() + self.fed.len()
    }

    pub(crate) fn replies(&self) -> usize {
        self.said.iter().map(|(_, replies)| replies).sum::<usize>() + self.pushes
    }
}

/// A client's life.
pub(crate) struct Workload {
    pub(crate) commands: Commands,
    /// It may have selected another database than its feeder.
    may_be_elsewhere: bool,
}

impl Workload {
    pub(crate) fn new(seed: u64, client: usize) -> Self {
        Self { commands: Commands::new(seed, client), may_be_elsewhere: false }
    }

    /// What it does next.
    pub(crate) fn scene(&mut self) -> Vec<Burst> {
        let (mut bursts, may_quit) = match self.commands.rng.below(100) {
            0..66 => (vec![self.plain()], false),
            66..76 => (self.transactions(), false),
            76..82 => (vec![self.changes()], false),
            82..88 => (vec![self.blocking()], false),
            88..91 => (vec![self.scripts()], false),
            91 => (self.watched(), false),
            92 => (vec![self.watching()], false),
            93 => (self.subscribing(), true),
            94 => (vec![self.silent()], true),
            95 => (vec![self.pinned()], true),
            96 => (vec![self.large()], true),
            97 => (vec![self.unbalanced()], false),
            _ => (Vec::new(), true),
        };
        if may_quit && self.commands.rng.chance(900) {
            let mut quit = self.plain();
            quit.say(&["QUIT"]);
            quit.ends = true;
            self.may_be_elsewhere = false;
            bursts.push(quit);
        }
        bursts
    }

    /// A pipeline, often of one.
    fn plain(&mut self) -> Burst {
        let mut burst = Burst::default();
        let length = if self.commands.rng.chance(300) { 1 } else { self.commands.rng.size(40) };
        self.add_data(&mut burst, length);
        burst
    }

    fn add_data(&mut self, burst: &mut Burst, length: usize) {
        for _ in 0..length {
            let arguments = self.commands.data();
            match self.commands.rng.below(50) {
                0 => burst.said.push((format!("{}\r\n", arguments.join(" ")).into_bytes(), 1)),
                1 => burst.said.push((format!("  {}\n", arguments.join("  ")).into_bytes(), 1)),
                // Requests without a word have no reply.
                2 => burst.said.push((b"*0\r\n\r\n*-1\r\n".to_vec(), 0)),
                _ => burst.say(&arguments),
            }
        }
    }

    /// Some end well, some are given up, some are spoilt, and some have in them what needs a connection of one's own.
    fn transactions(&mut self) -> Vec<Burst> {
        let (mut before, mut burst) = (Vec::new(), self.plain());
        for _ in 0..self.commands.rng.size(3) {
            burst.say(match self.commands.rng.below(12) {
                0 => &["MULTI", "extra"][..],
                _ => &["MULTI"],
            });
            let length = self.commands.rng.index(6);
            self.add_data(&mut burst, length);
            match self.commands.rng.below(16) {
                0 => self.add_change(&mut burst),
                1 => burst.say(&["MULTI"]),
                2 => burst.say(&["BLPOP", &self.commands.key("empty"), "0.001"]),
                3 => burst.say(&["WATCH", &self.commands.key("string")]),
                4 => burst.say(&self.commands.script()),
                5 => burst.say(&["DISCARD"]),
                // It goes on, and others say something before the rest of it comes.
                6 => {
                    burst.say(&["DISCARD", "extra"]);
                    before.push(std::mem::take(&mut burst));
                }
                7 => burst.say(&["EXEC", "extra"]),
                _ => {}
            }
            // Twice, so that no transaction outlives its scene: one that was left open queues what would block.
            burst.say(&["EXEC"]);
            self.add_data(&mut burst, 1);
        }
        burst.say(&["DISCARD"]);
        before.push(burst);
        before
    }

    /// Where it stands, with commands in between that show it.
    fn changes(&mut self) -> Burst {
        let mut burst = Burst::default();
        for _ in 0..self.commands.rng.size(4) {
            self.add_change(&mut burst);
            let length = self.commands.rng.index(4);
            self.add_data(&mut burst, length);
        }
        if self.commands.rng.chance(400) {
            burst.say(&["RESET"]);
            self.may_be_elsewhere = false;
        }
        burst
    }

    fn add_change(&mut self, burst: &mut Burst) {
        burst.say(&self.commands.change());
        self.may_be_elsewhere = true;
    }

    /// Comes to where its feeder is.
    fn come_back(&mut self, burst: &mut Burst) {
        if std::mem::take(&mut self.may_be_elsewhere) {
            burst.say(&["SELECT", "0"]);
        }
    }

    fn blocking(&mut self) -> Burst {
        let mut burst = self.plain();
        self.come_back(&mut burst);
        for _ in 0..self.commands.rng.size(2) {
            let (wait, feed) = self.commands.blocking();
            burst.say(&wait);
            burst.fed.push(request(&feed));
            self.add_data(&mut burst, 2);
        }
        if self.commands.rng.chance(200) {
            burst.say(&["BLPOP", &self.commands.key("empty"), "0.001"]);
        }
        burst
    }

    fn scripts(&mut self) -> Burst {
        let mut burst = Burst::default();
        for _ in 0..self.commands.rng.size(6) {
            burst.say(&self.commands.script());
        }
        burst
    }

    /// Another one writes to what it watches, in half of all cases.
    fn watched(&mut self) -> Vec<Burst> {
        let (key, value) = (format!("{}:watched", self.commands.name), self.commands.value());
        let other = if self.commands.rng.chance(500) { key.clone() } else { self.commands.key("unwatched") };
        let mut rest = Burst::of(&[&["MULTI"], &["GET", &key], &["ECHO", &value], &["EXEC"]]);
        self.add_data(&mut rest, 2);
        let mut first = Burst::default();
        self.come_back(&mut first);
        first.say(&["WATCH", &key]);
        first.say(&["GET", &key]);
        vec![first, Burst::fed(&[&["SET", &other, &value]], 0), rest]
    }

    /// It writes itself to what it watches, or gives it up.
    fn watching(&mut self) -> Burst {
        let (key, value) = (self.commands.key("string"), self.commands.value());
        let mut burst = Burst::of(&[&["WATCH", &key], &["SET", &key, &value]]);
        match self.commands.rng.below(4) {
            0 => burst.say(&["UNWATCH"]),
            1 => burst.say(&["EXEC"]),
            2 => burst.say(&["WATCH", &key]),
            _ => {}
        }
        for arguments in [&["MULTI"][..], &["APPEND", &key, "x"], &["EXEC"], &["GET", &key]] {
            burst.say(arguments);
        }
        burst
    }

    fn subscribing(&mut self) -> Vec<Burst> {
        let (one, two) = (format!("{}:one", self.commands.name), format!("{}:two", self.commands.name));
        let subscribe = Burst { said: vec![(request(&["SUBSCRIBE", &one, &two]), 2)], ..Burst::default() };
        let pattern = Burst::of(&[&["PSUBSCRIBE", &format!("{}:o*", self.commands.name)], &["PING"]]);
        let (first, second, third) = (self.commands.value(), self.commands.value(), self.commands.value());
        // The first two are heard twice, by the pattern as well.
        let told =
            Burst::fed(&[&["PUBLISH", &one, &first], &["PUBLISH", &one, &second], &["PUBLISH", &two, &third]], 5);
        let mut rest = Burst { said: vec![(request(&["UNSUBSCRIBE", &one, &two]), 2)], ..Burst::default() };
        rest.say(&["PUNSUBSCRIBE"]);
        self.add_data(&mut rest, 3);
        vec![self.plain(), subscribe, pattern, told, rest]
    }

    /// Replies are not wanted for a while.
    fn silent(&mut self) -> Burst {
        let mut burst = self.plain();
        let mut quiet = Burst::default();
        self.add_data(&mut quiet, 3);
        burst.said.push((request(&["CLIENT", "REPLY", "OFF"]), 0));
        burst.said.extend(quiet.said.into_iter().map(|(bytes, _)| (bytes, 0)));
        burst.say(&["CLIENT", "REPLY", "ON"]);
        burst.said.push((request(&["CLIENT", "REPLY", "SKIP"]), 0));
        burst.said.push((request(&["ECHO", &self.commands.value()]), 0));
        self.add_data(&mut burst, 2);
        burst
    }

    fn pinned(&mut self) -> Burst {
        let mut burst = self.plain();
        burst.say(&self.commands.pinning());
        self.add_data(&mut burst, 3);
        burst
    }

    /// More than a shared connection takes.
    fn large(&mut self) -> Burst {
        let (key, name) = (self.commands.key("string"), self.commands.name.clone());
        let value = name.repeat(1_100_000 / name.len() + self.commands.rng.index(200_000));
        let mut burst = self.plain();
        burst.say(&["SET", &key, &value]);
        burst.say(&["GET", &key]);
        burst.say(&["DEL", &key]);
        burst
    }

    /// A line that is no request: the server says so and closes.
    fn unbalanced(&mut self) -> Burst {
        let mut burst = self.plain();
        burst.said.push((format!("SET {} \"a b\\x41\"\r\n", self.commands.key("string")).into_bytes(), 1));
        burst.said.push((b"GET \"unbalanced\r\n".to_vec(), 1));
        burst.ends = true;
        self.may_be_elsewhere = false;
        burst
    }
}
