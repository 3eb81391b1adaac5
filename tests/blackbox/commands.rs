//! Random commands of one client: every type of data, on keys that nobody else touches.
//!
//! What a server answers to them depends on nothing but what this client has said before. So none of them draws lots,
//! tells the time, or asks about what others share; members of sets that would come in the order of a server's hash are
//! counted and not listed.

use crate::rng::Rng;

/// In these, `@x` is a key of family `x`, `$` a value that was never used, `&` one of a few members, `!` one of a few
/// numbers, `#` a small number, `%` a fraction, `^` the next ID of a stream.
const DATA: &[&[&str]] = &[STRINGS, LISTS, SETS, HASHES, SORTED_SETS, STREAMS, BITS, SKETCHES, PLACES, MISTAKES];

const STRINGS: &[&str] = &[
    "SET @string $",
    "SET @string $",
    "GET @string",
    "GET @string",
    "SET @string $ NX GET",
    "SET @string $ XX PXAT 4102444800000",
    "GETEX @string PERSIST",
    "GETEX @string EXAT 4102444800",
    "GETDEL @string",
    "GETSET @string $",
    "APPEND @string $",
    "SETRANGE @string # &",
    "GETRANGE @string # #",
    "STRLEN @string",
    "MSET @string $ @string $",
    "MSETNX @string $ @string $",
    "MGET @string @string @list",
    "INCR @number",
    "INCRBY @number #",
    "DECRBY @number #",
    "INCRBYFLOAT @number %",
    "LCS @number @number LEN",
    "EXPIREAT @string 4102444800 NX",
    "EXPIRETIME @string",
    "PEXPIREAT @string 1",
    "PERSIST @string",
    "TYPE @string",
    "EXISTS @string @list @hash",
    "DEL @string",
    "UNLINK @list",
    "RENAME @string @string",
    "COPY @string @string REPLACE",
    "OBJECT ENCODING @string",
    "DUMP @string",
    "PING",
    "PING $",
    "ECHO $",
];

const LISTS: &[&str] = &[
    "RPUSH @list $ $",
    "LPUSH @list $",
    "LPUSHX @list $",
    "LPOP @list",
    "RPOP @list 2",
    "LLEN @list",
    "LINDEX @list #",
    "LINSERT @list BEFORE & $",
    "LSET @list # $",
    "LRANGE @list 0 -1",
    "LRANGE @list # #",
    "LTRIM @list 0 20",
    "LREM @list 0 &",
    "RPUSH @list & &",
    "LMOVE @list @list LEFT RIGHT",
    "RPOPLPUSH @list @list",
    "LPOS @list & RANK -1",
    "LMPOP 2 @list @list RIGHT COUNT 2",
    "BLPOP @list -1",
    "BLPOP @list no",
];

const SETS: &[&str] = &[
    "SADD @set & &",
    "SREM @set &",
    "SISMEMBER @set &",
    "SMISMEMBER @set & & &",
    "SCARD @set",
    "SMOVE @set @set &",
    "SINTERCARD 2 @set @set",
    "SUNIONSTORE @set @set @set",
    "SDIFFSTORE @set @set @set",
    "SADD @integers ! ! !",
    "SREM @integers !",
    "SMEMBERS @integers",
    "SINTER @integers @integers",
    "SUNION @integers @integers",
    "SDIFF @integers @integers",
    "SSCAN @integers 0",
];

const HASHES: &[&str] = &[
    "HSET @hash f# & f# &",
    "HGET @hash f#",
    "HGETALL @hash",
    "HKEYS @hash",
    "HVALS @hash",
    "HMGET @hash f# f#",
    "HDEL @hash f#",
    "HINCRBY @hash n# #",
    "HINCRBYFLOAT @hash n# %",
    "HINCRBY @hash f# 1",
    "HEXISTS @hash f#",
    "HLEN @hash",
    "HSETNX @hash f# &",
    "HSTRLEN @hash f#",
    "HSCAN @hash 0",
];

const SORTED_SETS: &[&str] = &[
    "ZADD @sorted % & % &",
    "ZADD @sorted GT CH % &",
    "ZADD @sorted NX INCR % &",
    "ZINCRBY @sorted % &",
    "ZRANGE @sorted 0 -1 WITHSCORES",
    "ZRANGE @sorted # # REV",
    "ZRANGE @sorted (% +inf BYSCORE LIMIT 0 5",
    "ZRANGEBYLEX @sorted - +",
    "ZSCORE @sorted &",
    "ZMSCORE @sorted & &",
    "ZRANK @sorted &",
    "ZREVRANK @sorted &",
    "ZCARD @sorted",
    "ZCOUNT @sorted -inf %",
    "ZREM @sorted &",
    "ZPOPMIN @sorted",
    "ZPOPMAX @sorted 2",
    "ZREMRANGEBYRANK @sorted 10 -1",
    "ZUNIONSTORE @sorted 2 @sorted @sorted WEIGHTS 1 0.5",
    "ZINTER 2 @sorted @sorted WITHSCORES",
    "ZDIFF 2 @sorted @sorted",
    "ZRANGESTORE @sorted @sorted 0 5",
    "ZMPOP 1 @sorted MAX",
    "ZSCAN @sorted 0",
];

const STREAMS: &[&str] = &[
    "XADD @stream ^ field $",
    "XADD @stream MAXLEN 20 ^ field $ other &",
    "XADD @stream NOMKSTREAM ^ field $",
    "XADD @stream 0-1 field late",
    "XLEN @stream",
    "XRANGE @stream - +",
    "XREVRANGE @stream + - COUNT 3",
    "XTRIM @stream MAXLEN 10",
    "XREAD COUNT 2 STREAMS @stream 0",
    "XREAD COUNT 1 STREAMS @stream @stream 0 0",
    "XGROUP CREATE @stream group 0 MKSTREAM",
    "XREADGROUP GROUP group & COUNT 3 STREAMS @stream >",
    "XPENDING @stream group",
    "XACK @stream group 1-0 2-0",
    "XGROUP DELCONSUMER @stream group &",
    "XDEL @stream ^",
];

const BITS: &[&str] = &[
    "SETBIT @bits # 1",
    "GETBIT @bits #",
    "BITCOUNT @bits",
    "BITPOS @bits 1",
    "BITOP XOR @bits @bits @bits",
    "BITOP NOT @bits @bits",
    "BITFIELD @bits INCRBY u8 # 7 GET i4 0",
    "BITFIELD_RO @bits GET u4 8",
];

const SKETCHES: &[&str] =
    &["PFADD @sketch & &", "PFCOUNT @sketch", "PFCOUNT @sketch @sketch", "PFMERGE @sketch @sketch @sketch"];

const PLACES: &[&str] = &[
    "GEOADD @places % % &",
    "GEODIST @places & & km",
    "GEOHASH @places & &",
    "GEOPOS @places & &",
    "GEOSEARCH @places FROMLONLAT 0 0 BYRADIUS 3000 km ASC COUNT 5",
    "GEOSEARCHSTORE @places @places FROMLONLAT 0 0 BYBOX 2000 2000 km ASC",
];

const MISTAKES: &[&str] = &[
    "GET",
    "GET @string extra",
    "SET @string",
    "ECHO",
    "LPUSH @list",
    "HSET @hash f#",
    "ZADD @sorted 1",
    "ZADD @sorted no &",
    "XADD @stream",
    "XREAD BLOCK",
    "LSET @list no $",
    "SELECT",
    "EXEC",
    "DISCARD",
    "UNWATCH",
    "WATCH",
    "OBJECT FREQ @string",
    "BITCOUNT @bits 1",
];

/// What changes where a client stands, or asks for it.
const CHANGES: &[&str] = &[
    "SELECT 0",
    "SELECT 0",
    "SELECT 1",
    "SELECT 2",
    "SELECT 9",
    "SELECT 16",
    "SELECT no",
    "CLIENT SETNAME $",
    "CLIENT SETNAME",
    "CLIENT GETNAME",
    "CLIENT GETNAME",
    "CLIENT SETINFO LIB-NAME test",
    "HELLO",
    "HELLO 2",
    "HELLO 3",
    "HELLO 3",
    "HELLO 4",
    "HELLO 3 SETNAME &",
    "HELLO 3 AUTH alice wonder",
    "HELLO 2 AUTH alice wrong",
    "AUTH alice wonder",
    "AUTH alice wrong",
    "AUTH default any",
    "AUTH a b c",
    "ACL WHOAMI",
    "ACL WHOAMI",
    "READONLY",
    "RESET",
    "RESET",
];

/// What keeps a client on a connection of its own.
const PINNING: &[&str] = &[
    "SORT @list ALPHA",
    "NOSUCH $ &",
    "OBJECT NOSUCH @string",
    "CONFIG GET proto-max-bulk-len",
    "SCRIPT EXISTS 098e0f0d1448c0a81dafe820f66d460eb09263da",
    "CLIENT NO-EVICT OFF",
    "WAIT 0 0",
    "CLIENT REPLY ON",
];

/// What waits for an element in a queue, and what puts one there. The key of the queue is `queue`.
const BLOCKING: &[(&str, &str)] = &[
    ("BLPOP queue 0", "RPUSH queue $"),
    ("BRPOP @empty queue 0", "LPUSH queue $"),
    ("BLMOVE queue @list LEFT RIGHT 0", "RPUSH queue $"),
    ("BRPOPLPUSH queue @list 0", "RPUSH queue $"),
    ("BLMPOP 0 2 @empty queue LEFT", "RPUSH queue $"),
    ("BZPOPMIN queue 0", "ZADD queue % $"),
    ("BZPOPMAX @empty queue 0", "ZADD queue % $"),
    ("BZMPOP 0 1 queue MIN", "ZADD queue % $"),
    ("XREAD BLOCK 0 STREAMS queue 0", "XADD queue ^ field $"),
    ("XREAD COUNT 1 block 0 STREAMS @empty queue 0 0", "XADD queue ^ field $"),
];

/// Scripts, each with one key of strings and one argument.
const SCRIPTS: &[&str] = &[
    "return ARGV[1]",
    "return {KEYS[1], ARGV[1], {1, 'two', false}}",
    "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])",
    "redis.call('SELECT', 3) redis.call('SET', KEYS[1], ARGV[1]) return redis.status_reply(ARGV[1])",
    "redis.setresp(3) return redis.call('GET', KEYS[1])",
    "return redis.error_reply('ERR ' .. ARGV[1])",
    "return redis.call('LPUSH', KEYS[1], ARGV[1])",
    "return redis.call('NOSUCH', ARGV[1])",
    "local n = 0 for i = 1, 20 do n = n + redis.call('APPEND', KEYS[1], 'x') end return n",
    "no script at all",
];

/// The script that every server of a test has loaded, and the name it has there.
pub(crate) const LOADED: &str = "return ARGV[1]";
const LOADED_SHA: &str = "098e0f0d1448c0a81dafe820f66d460eb09263da";

/// What one client says, from a seed.
pub(crate) struct Commands {
    pub(crate) rng: Rng,
    /// Stands in every key and value of this client, and in none of another's.
    pub(crate) name: String,
    number: usize,
    counter: u64,
}

impl Commands {
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        let mut rng = Rng::new(seed);
        let rng = Rng::new(rng.next() ^ number as u64);
        Self { rng, name: format!("<{number}>"), number, counter: 0 }
    }

    /// One that reads or writes data.
    pub(crate) fn data(&mut self) -> Vec<String> {
        let family = DATA[self.rng.index(DATA.len())];
        self.one_of(family)
    }

    pub(crate) fn change(&mut self) -> Vec<String> {
        self.one_of(CHANGES)
    }

    pub(crate) fn pinning(&mut self) -> Vec<String> {
        self.one_of(PINNING)
    }

    /// One that blocks, and what ends that when another says it. The other order gives the same replies.
    pub(crate) fn blocking(&mut self) -> (Vec<String>, Vec<String>) {
        let (wait, feed) = BLOCKING[self.rng.index(BLOCKING.len())];
        self.counter += 1;
        let queue = format!("{}:queue:{}", self.name, self.counter);
        let in_queue = |word: String| if word == "queue" { queue.clone() } else { word };
        let wait = self.filled(wait).into_iter().map(in_queue).collect();
        (wait, self.filled(feed).into_iter().map(in_queue).collect())
    }

    /// A script, or what has to do with a function of this client's.
    pub(crate) fn script(&mut self) -> Vec<String> {
        let (key, value) = (self.key("string"), self.value());
        let script = SCRIPTS[self.rng.index(SCRIPTS.len())];
        let number = self.number;
        let words: &[&str] = match self.rng.below(8) {
            0 => &["EVALSHA", LOADED_SHA, "1", &key, &value],
            1 => &["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"],
            2 => &["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", &key],
            3 => &["FCALL", &format!("f{number}"), "1", &key, &value],
            4 => {
                let code = format!(
                    "#!lua name=library{number}\nredis.register_function('f{number}', function(keys, args) return \
                     {{'{value}', redis.call('GET', keys[1]), args[1]}} end)"
                );
                return ["FUNCTION", "LOAD", "REPLACE", &code].map(str::to_owned).to_vec();
            }
            5 => &["EVAL", script],
            _ => &["EVAL", script, "1", &key, &value],
        };
        words.iter().map(ToString::to_string).collect()
    }

    /// A value that was never used.
    pub(crate) fn value(&mut self) -> String {
        self.counter += 1;
        let padding = match self.rng.below(20) {
            0 => self.rng.index(3_000),
            1..6 => self.rng.index(100),
            _ => 0,
        };
        format!("{}{}{}", self.name, self.counter, "x".repeat(padding))
    }

    pub(crate) fn key(&mut self, family: &str) -> String {
        // Seldom one of another type. Not for sets, so that no set of strings gets a key where members are listed; not for
        // bits, which would change names into others; not for numbers, which stay short for LCS; and not for what must stay
        // empty.
        let is_strict = ["set", "integers", "bits", "number", "empty"].contains(&family);
        let family = if !is_strict && self.rng.chance(30) { ["string", "list"][self.rng.index(2)] } else { family };
        format!("{}:{family}:{}", self.name, self.rng.index(3))
    }

    fn one_of(&mut self, templates: &[&str]) -> Vec<String> {
        let template = templates[self.rng.index(templates.len())];
        self.filled(template)
    }

    fn filled(&mut self, template: &str) -> Vec<String> {
        template.split(' ').map(|word| self.word(word)).collect()
    }

    fn word(&mut self, word: &str) -> String {
        if let Some(family) = word.strip_prefix('@') {
            return self.key(family);
        }
        let mut filled = String::new();
        for letter in word.chars() {
            match letter {
                '$' => filled += &self.value(),
                '&' => filled += &format!("{}m{}", self.name, self.rng.index(20)),
                '!' => filled += &format!("{}", 1_000 * self.number + self.rng.index(100)),
                '#' => filled += &format!("{}", self.rng.index(24) as i64 - 3),
                '%' => filled += &format!("{}.{}", self.rng.index(80), self.rng.index(100)),
                '^' => {
                    self.counter += 1;
                    filled += &format!("{}-0", self.counter);
                }
                other => filled.push(other),
            }
        }
        filled
    }
}
