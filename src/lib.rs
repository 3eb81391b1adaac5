//! ringwall is a TLS-terminating reverse proxy for Valkey and Redis on Linux's io_uring. Clients speak TLS to it; it
//! speaks plain RESP, over TCP or a unix socket, to the server. Each side may be either, too: servers can speak TLS, and
//! clients plain RESP. This page is its architecture: read it first.
//!
//! # Bird's eye
//!
//! ```text
//!              accept                hand-off                       bytes
//!   clients ──────────► dispatcher ─────────────► shard 0 ◄─────────────────► servers
//!                        │    ▲    ─────────────► shard 1 ◄─────────────────►
//!                        │    └── pending, load ──┘  │
//!                        └───────── events ──────────┴──► control plane ──► log, service manager
//! ```
//!
//! - A **shard** is one pinned thread with a ring of its own. It does everything for its sessions: handshakes, records,
//!   the connection to the server, timers. Nothing on its path is shared with another shard.
//! - The **dispatcher** is one thread with a ring of its own. It accepts, applies limits, places each client on a shard
//!   and hands it over. It sees neither ciphertext nor plaintext.
//! - The **control plane** is the main thread: signals, the log, the service manager and its watchdog. It touches no
//!   session. A thread beside it reloads, another checks servers and listens to Sentinels, and another answers
//!   administrators and Prometheus: it reads what each thread of the data plane counts, where that is.
//!
//! # Code map, bottom up
//!
//! Imports go down this list only; `tests/tidy.rs` holds the table and checks it.
//!
//! | layer | module | owns |
//! |---|---|---|
//! | 0 | [`time`] | points on the monotonic clock, as plain numbers |
//! | 0 | [`pool`] | buffers for outgoing bytes, recycled |
//! | 0 | [`metrics`] | what one shard counts, or the dispatcher |
//! | 0 | [`files`] | reads the files that the configuration names |
//! | 0 | [`cgroup`] | what the control groups leave this process |
//! | 0 | [`secrecy`] | no core files, no debuggers |
//! | 0 | [`date`] | seconds since 1970 as a date |
//! | 0 | [`slots`] | places with names that are never given twice |
//! | 0 | [`hex`] | bytes as hexadecimal digits |
//! | 0 | [`networks`] | sets of addresses, put together from networks |
//! | 0 | [`takeover`] | hands sockets to the process that takes this one's place |
//! | 0 | `labels` | enums whose variants have names in logs and metrics |
//! | 0 | [`rwlock`] | a read-write lock that never sleeps in the kernel |
//! | 1 | [`secret`] | passwords in files of their own |
//! | 1 | [`quota`] | so many a second, and how many there were beyond |
//! | 1 | [`auth_check`] | whether a server asks for a password, as last seen |
//! | 1 | [`io`] | operations in, completions out: [`Driver`](io::Driver), its io_uring, all `unsafe` but that of `pthread` |
//! | 1 | [`tls`] | the only user of rustls: one connection as bytes in and bytes out, its records, certificates, tickets |
//! | 1 | `pthread` | with the feature `pthread-emulation` only: that lock as the one of C libraries, with the `unsafe` of it |
//! | 1 | [`wire`] | PROXY headers; the few commands and replies that are ours; where requests and replies end |
//! | 2 | [`mailbox`] | hand-off ring, doorbell, pending flags: where dispatcher and shard meet |
//! | 2 | [`sources`] | how many connections each source has open |
//! | 2 | [`ledger`] | a listener as all threads see it: its name, what has come to it |
//! | 2 | [`load`] | how much a shard has to do, as it publishes it |
//! | 2 | [`roster`] | a backend's servers as all threads see them: standing, connections |
//! | 2 | [`pulse`] | whether the threads of the data plane make progress |
//! | 2 | [`events`] | what the data plane tells the control plane |
//! | 2 | [`session::coalescer`], [`session::queue`] | which small writes leave together; the bytes one side has still to send |
//! | 3 | [`session`] | one client and its server, as a state machine without io |
//! | 3 | [`multiplex`] | many clients over few connections, as a state machine without io |
//! | 4 | [`shard`] | the event loop, the session table: the only place that knows sessions and io |
//! | 4 | [`dispatcher`] | accept, admission, placement, the pending list, drain |
//! | 5 | [`config`] | the file, checked; valid by construction |
//! | 5 | [`control`] | signals, log, service manager, when to reload, [health checks](control::health) |
//! | 5 | [`server`] | starts and ends the threads and ties them together |
//! | 5 | [`doctor`] | looks at what the program needs before it needs it |
//! | 5 | [`cli`] | the commands; `ctl` and `top` are clients of the admin listener |
//!
//! # Two seams
//!
//! [`Session`](session::Session) is sans-IO: it is told what came and what time it is, and says what to do. Examples,
//! properties and the fuzz target drive it directly. [`io::Driver`] is a kernel: [`Uring`](io::uring::Uring) in
//! production, a seeded simulated one in the tests, under which the real shards and the real dispatcher run through
//! faults that a real kernel shows once a year.
//!
//! # A session's life
//!
//! The dispatcher's multishot accept yields a socket. Admission judges where it comes from, how fast and how many, and
//! counts it; placement takes the shard that will
//! have the least to do, the socket's number goes into that shard's mailbox, and its doorbell rings if it sleeps. The shard
//! gives the session a slot and arms a receive. The handshake's messages are served after the data of other sessions,
//! within a budget, the newest first in a storm. When it is complete, a ticket leaves at once and a server is picked
//! and dialled; for a client without TLS, as soon as it is accepted. With a server that speaks TLS hands are shaken within
//! the same budget and the time of the attempt; while that may fail, what the client says is held back, so that the
//! next server gets all of it. Where the configuration asks for it, a proxy's header comes in front of the client's
//! handshake, one of ours in front of the server's, and a greeting behind that: a few commands in one write, whose replies
//! are swallowed while the client's bytes still wait. From there bytes are relayed one to one; no command is parsed, so every command works.
//!
//! Each side of a session is a transport, TLS or plain, and the relay between them knows only plaintext. Client bytes
//! are decrypted in the receive buffer and appended to the server's send buffer: the one copy. Server bytes join the
//! client's cork, or pass it when they are large, and are sealed straight from where they lie into the send buffer.
//! rustls shakes hands and keeps the key schedule; the records behind the handshake are [`tls`]'s own. Where the server speaks
//! TLS, the same is done to the bytes of either direction; where the client does not, its bytes are appended as they
//! came. At the end of a turn each side that has bytes and no send in flight gets one send. While a send is in flight,
//! it is the cork: what comes meanwhile leaves with the next.
//!
//! A session ends when both sides are over: an orderly end is carried to the other side with what preceded it, and a
//! failure of the server stays visible to the client as a cut without close_notify; a TLS server that ends without
//! close_notify has failed. The slot is free again when the last operation in flight has come home. One
//! [`CloseRecord`](events::CloseRecord) tells the story to the log.
//!
//! # Sessions that share connections
//!
//! Where a listener multiplexes, its sessions stay what they are, and each has a seat at a trunk in the stead of a
//! connection to the server. A trunk is a [`Multiplexer`](multiplex::Multiplexer) for one listener and one server of one shard.
//! It cuts what sessions say into requests, which go over connections that all clients of a class share, or over one of
//! the client's own where the connection's state matters; replies come back to whoever is next. All sessions are settled
//! before the trunks, so that what came in one turn leaves as one write, and what a trunk has for sessions is settled in the
//! same turn. A buffer between the two is the session's send in flight, or the multiplexer's: so either can make the other
//! wait. Greetings, users and failed attempts are the session's business as ever. What requests come to, and how long they
//! take, each shard counts on its page of the listener's ledger.
//!
//! Whom a server lets in it decides when a connection is made. Clients that log in are judged by it one by one; for those
//! that do not, it is asked again whenever some have come since it last said, and they wait for its word together.
//!
//! # A failover
//!
//! The checking thread keeps a connection to each server and two to each Sentinel. What comes over them is judged by pure
//! code: replies make outcomes, outcomes in a row make a state, epochs make a belief about who is the primary. A state is
//! stored as the standing of a [`Member`](roster::Member), which each shard reads when it next places a session; a new
//! belief is another [`Roster`](roster::Roster). Only a definite answer, another role or another primary, dismisses the
//! sessions of a server, by an order to each shard behind the standing that keeps them from coming back.
//!
//! # A reload
//!
//! A signal or a changed file wakes the reloading thread. After a signal it reads the configuration, all of it; after a change
//! of a file it keeps the one in force; and all files that either names. When everything is good and each new address is
//! bound, it makes for each shard a [`Renewal`](shard::Renewal): the listeners and backends as they are from the next client
//! on, with keys parsed anew. One command takes these to the dispatcher, which cancels what it accepts on sockets that are
//! left, takes whoever has connected to them, and passes one order on to each shard, in the same mailbox as the clients:
//! whoever was handed over before is served by what was in force then. Until that command is sent everything can fail, and
//! nothing has changed; behind it nothing can.
//!
//! What outlives a reload has an identity that others refer to. A [`Ledger`](ledger::Ledger) is a listener's, a
//! [`BackendId`](roster::BackendId) a backend's, a [`Member`](roster::Member)'s record a server's: they are kept by name or
//! address, and counts, standings and places go on. Sessions hold what they began with, their listener's rules and their
//! engines; those whose listener or backend is not in the renewal are drained, and the backend stays in the shard's table until
//! the last of them has ended. A shard sends acceptors and connectors that it uses no more back to the reloading thread, which
//! drops them, notes what is [in force](control::InForce), and tells the control plane; that has checks and look-ups follow.
//!
//! # A takeover
//!
//! A signal has the control plane start the program once more, from its own path. Over a pair of sockets the two speak the
//! few words of [`takeover`]: the old process hands over its listening sockets, the admin socket and the ticket secret, and
//! the new one starts as ever, but takes these in place of binding its own. Both accept until the new one has said that it
//! is ready; then the old one names it to the service manager, leaves everything to it, and drains. Until that moment the
//! old one owns everything: it ends a process that fails or is late, and a process whose predecessor is gone ends itself.
//!
//! # Servers come and go
//!
//! A [`Member`](roster::Member) is one server of a backend as all threads see it, a [`Roster`](roster::Roster) a snapshot of
//! them. The control plane has a hold on all, [`Rosters`](control::Rosters): it sets a member's standing, which the next
//! session of each shard heeds, exchanges a roster, and has sessions leave a server, by an order to each shard. A shard
//! picks a member by the backend's [`Balance`](roster::balance::Balance) and takes a [`Place`](roster::Place) there, which
//! is counted until it is dropped. Where every member is full, the session waits in its shard's queue; shards tell each
//! other since when their first one waits, so that none is passed by for long. Sessions keep the member they went to,
//! whatever becomes of it.
//!
//! # Signs of life
//!
//! A service manager that wants them is told that the program is alive while all threads of the data plane are. A
//! command brings the dispatcher one [`Ping`](pulse::Ping) for each thread, which it passes on as orders, and each thread
//! answers at its next turn by a store into a cell of its own. Whoever sleeps is woken for it; nothing is counted or
//! looked at in between.
//!
//! # Invariants
//!
//! - Memory lent to the kernel is lent by move, and comes back with the last completion.
//! - Receives and sends of a session are bounded: the directions are independent, and each stops at the other side's
//!   high-water mark.
//! - What a peer sent before it ended is delivered, whatever it does to its socket afterwards.
//! - One enter of the kernel per turn; no allocation, lock or futex in the steady state.
//! - Pending is what a shard has received and not yet served. It is known right after the read, published on
//!   transitions only, and never asked for.
//! - Credentials are immutable and each shard has its own. A reload exchanges everything or nothing.
//! - Nothing a peer sends panics: a peer's fault is a value that ends in a
//!   [`CloseReason`](session::close::CloseReason).
//!
//! What is deliberately absent: a parser of commands on the data path of sessions, an async runtime under the shards, locks and
//! globals on the data path, 0-RTT (requests of Redis are not safe to replay), kernel TLS.
//!
//! # Lexicon
//!
//! *Side*: client or backend of a session. *Leg*: what a session knows of a side. *Transport*: what a side speaks.
//! *Role*: which part of TLS we play, the server's towards clients and the client's towards servers. *Acceptor* and
//! *connector*: what makes the TLS of either. *Ciphertext* and *plaintext*: before and after TLS on whichever side.
//! *Cork*: plaintext gathered during one turn. *Turn*: one pass of a loop, from one enter of the kernel to the next.
//! *Edge*: what stands in front of a client's first byte. *Introduction*: what a proxy in front says of a client.
//! *Opening*: what a server is told first; *greeting*: the commands among that.
//! *Settle*: carry out what a session asks for at the end of a turn. *Lease*: a filled receive buffer on loan.
//! *Class*: clients that may share a connection. *Link*: what a multiplexer knows of a connection; *line*: its socket.
//! *Trunk*: a multiplexer with its sessions and lines; *seat*: a session's place there.
//! *Room*: free bytes at the end of a buffer. *Drain*: end in good order, losing nothing that is owed.

pub mod auth_check;
pub mod cgroup;
pub mod cli;
pub mod config;
pub mod control;
pub mod date;
pub mod dispatcher;
pub mod doctor;
pub mod events;
pub mod files;
pub mod hex;
pub mod io;
mod labels;
pub mod ledger;
pub mod load;
pub mod mailbox;
pub mod metrics;
pub mod multiplex;
pub mod networks;
pub mod pool;
#[cfg(all(feature = "pthread-emulation", not(feature = "loom")))]
pub mod pthread;
pub mod pulse;
pub mod quota;
pub mod roster;
pub mod rwlock;
pub mod secrecy;
pub mod secret;
pub mod server;
pub mod session;
pub mod shard;
pub mod slots;
pub mod sources;
pub mod takeover;
pub mod time;
pub mod tls;
pub mod wire;
