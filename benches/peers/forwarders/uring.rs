//! The least that a proxy can do on io_uring: one receive for a whole connection, and each buffer that it fills sent to
//! the other side from where it lies.

use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use slab::Slab;

use super::buffers::{self, Buffers};
use super::dial;

/// Of the submission queue; the completion queue is several times as long, so that it takes a burst of all connections.
const ENTRIES: u32 = 1024;
const COMPLETIONS: u32 = 32 * 1024;

/// Names the accept; other operations are named by [`Token`].
const ACCEPT: u64 = u64::MAX;

/// The operation of one side of a pair.
#[derive(Clone, Copy)]
struct Token {
    pair: usize,
    side: usize,
    sends: bool,
}

impl Token {
    fn encode(self) -> u64 {
        (self.pair * 4 + self.side * 2 + usize::from(self.sends)) as u64
    }

    fn decode(word: u64) -> Self {
        let word = usize::try_from(word).expect("an index");
        Self { pair: word / 4, side: word / 2 % 2, sends: word % 2 == 1 }
    }
}

/// Forwards on one thread until it is ended.
pub(super) fn serve(listen: &str, server: &str) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    let ring =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(COMPLETIONS).build(ENTRIES)?;
    let buffers = Buffers::register(&ring)?;
    let mut forwarder = Forwarder { ring, buffers, server, pairs: Slab::new(), dry: VecDeque::new() };
    forwarder.push(&opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).build().user_data(ACCEPT))?;
    let mut completions = Vec::new();
    loop {
        forwarder.ring.submit_and_wait(1)?;
        completions.extend(forwarder.ring.completion());
        for completion in completions.drain(..) {
            forwarder.handle(&completion)?;
        }
        forwarder.buffers.publish();
        forwarder.receive_again()?;
    }
}

struct Forwarder<'a> {
    ring: IoUring,
    buffers: Buffers,
    server: &'a str,
    pairs: Slab<Pair>,
    /// Receives that found no buffer.
    dry: VecDeque<Token>,
}

struct Pair {
    ends: [End; 2],
    is_over: bool,
}

struct End {
    socket: OwnedFd,
    receives: bool,
    sends: bool,
    /// What is to be sent to it; the first is being sent.
    queue: VecDeque<Piece>,
}

/// What a receive has put into a buffer and no send has taken yet.
#[derive(Clone, Copy)]
struct Piece {
    buffer: u16,
    start: usize,
    end: usize,
}

impl Forwarder<'_> {
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        #[expect(unsafe_code, reason = "the kernel reads and writes the memory that an entry names")]
        // SAFETY: entries name buffers of `Buffers`, which live as long as the ring, and sockets of a pair, which is
        // not removed while an operation is in flight.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn handle(&mut self, completion: &cqueue::Entry) -> io::Result<()> {
        if completion.user_data() == ACCEPT {
            return self.accept(completion.result());
        }
        let token = Token::decode(completion.user_data());
        if token.sends { self.handle_sent(token, completion.result()) } else { self.handle_received(token, completion) }
    }

    fn accept(&mut self, client: RawFd) -> io::Result<()> {
        if client < 0 {
            return Err(io::Error::from_raw_os_error(-client));
        }
        #[expect(unsafe_code, reason = "the ring gives sockets as numbers")]
        // SAFETY: the kernel has opened it for this completion, and nobody else knows the number.
        let client = unsafe { OwnedFd::from_raw_fd(client) };
        rustix::net::sockopt::set_tcp_nodelay(&client, true)?;
        let ends = [client, dial(self.server)?].map(|socket| End {
            socket,
            receives: false,
            sends: false,
            queue: VecDeque::new(),
        });
        let pair = self.pairs.insert(Pair { ends, is_over: false });
        self.receive(Token { pair, side: 0, sends: false })?;
        self.receive(Token { pair, side: 1, sends: false })
    }

    fn receive(&mut self, token: Token) -> io::Result<()> {
        let end = &mut self.pairs[token.pair].ends[token.side];
        end.receives = true;
        let entry = opcode::RecvMulti::new(types::Fd(end.socket.as_raw_fd()), buffers::GROUP).build();
        self.push(&entry.user_data(token.encode()))
    }

    /// Lets the receives that found no buffer try again, as many as there are buffers.
    fn receive_again(&mut self) -> io::Result<()> {
        for _ in 0..self.dry.len().min(self.buffers.free()) {
            let Some(token) = self.dry.pop_front() else { break };
            self.receive(token)?;
        }
        Ok(())
    }

    fn handle_received(&mut self, token: Token, completion: &cqueue::Entry) -> io::Result<()> {
        let to = Token { side: 1 - token.side, sends: true, ..token };
        let more = cqueue::more(completion.flags());
        let pair = &mut self.pairs[token.pair];
        pair.ends[token.side].receives = more;
        match (completion.result(), cqueue::buffer_select(completion.flags())) {
            (bytes @ 1.., Some(buffer)) => {
                self.buffers.lend();
                let end = usize::try_from(bytes).expect("it is above 0");
                pair.ends[to.side].queue.push_back(Piece { buffer, start: 0, end });
                self.send(to)?;
                if !more && !self.pairs[token.pair].is_over {
                    self.receive(token)?;
                }
            }
            (result, _) if result == -libc::ENOBUFS && !pair.is_over => {
                // Counted as receiving, so that the pair stays until it has tried again.
                pair.ends[token.side].receives = true;
                self.dry.push_back(token);
            }
            _ => self.end(token.pair),
        }
        self.remove_if_over(token.pair);
        Ok(())
    }

    /// Sends the first piece, unless one is being sent.
    fn send(&mut self, token: Token) -> io::Result<()> {
        let end = &mut self.pairs[token.pair].ends[token.side];
        let Some(&Piece { buffer, start, end: stop }) = end.queue.front().filter(|_| !end.sends) else { return Ok(()) };
        end.sends = true;
        let bytes = &self.buffers.bytes(buffer)[start..stop];
        let length = u32::try_from(bytes.len()).expect("a buffer is shorter");
        let entry = opcode::Send::new(types::Fd(end.socket.as_raw_fd()), bytes.as_ptr(), length)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        self.push(&entry.user_data(token.encode()))
    }

    fn handle_sent(&mut self, token: Token, result: i32) -> io::Result<()> {
        let pair = &mut self.pairs[token.pair];
        let end = &mut pair.ends[token.side];
        end.sends = false;
        match usize::try_from(result) {
            Ok(sent) => {
                let first = end.queue.front_mut().expect("it is being sent");
                first.start += sent;
                if first.start == first.end {
                    let first = *first;
                    end.queue.pop_front();
                    self.buffers.give_back(first.buffer);
                }
                self.send(token)?;
            }
            Err(_) => self.end(token.pair),
        }
        self.remove_if_over(token.pair);
        Ok(())
    }

    /// Whatever ends one side ends both: their receives end then, and sends fail.
    fn end(&mut self, pair: usize) {
        let pair = &mut self.pairs[pair];
        pair.is_over = true;
        for end in &pair.ends {
            // It may be so already.
            let _ = rustix::net::shutdown(&end.socket, rustix::net::Shutdown::Both);
        }
    }

    fn remove_if_over(&mut self, index: usize) {
        let pair = &self.pairs[index];
        if pair.is_over && pair.ends.iter().all(|end| !end.receives && !end.sends) {
            for piece in self.pairs.remove(index).ends.into_iter().flat_map(|end| end.queue) {
                self.buffers.give_back(piece.buffer);
            }
        }
    }
}
