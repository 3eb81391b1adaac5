//! The least that a proxy can do on epoll: one read where something has come, and one write to the other side.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use slab::Slab;

use super::dial;

const BUFFER_BYTES: usize = 64 * 1024;
const EVENTS_MAX: usize = 512;
/// Names the listener; a socket is named by its pair's index, twice, plus its side.
const LISTENER: u64 = u64::MAX;

/// Forwards on one thread until it is ended.
pub(super) fn serve(listen: &str, server: &str) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut pairs = Slab::new();
    let (mut events, mut ended) = (Vec::with_capacity(EVENTS_MAX), Vec::new());
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        epoll::wait(&poll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            if event.data.u64() == LISTENER {
                accept(&listener, server, &poll, &mut pairs)?;
                continue;
            }
            let token = usize::try_from(event.data.u64()).expect("an index");
            let (index, side) = (token / 2, token % 2);
            let pair: &mut Pair = &mut pairs[index];
            // Whatever ends one side ends both.
            if !pair.is_over && pair.serve(index, side, event.flags, &mut buffer, &poll).is_err() {
                pair.is_over = true;
                ended.push(index);
            }
        }
        // Not before: an event of the other side may stand behind.
        for index in ended.drain(..) {
            pairs.remove(index);
        }
    }
}

fn accept(listener: &TcpListener, server: &str, poll: &OwnedFd, pairs: &mut Slab<Pair>) -> io::Result<()> {
    let client = match listener.accept() {
        Ok((client, _)) => client,
        // It is gone again.
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(error),
    };
    client.set_nodelay(true)?;
    let ends = [OwnedFd::from(client), dial(server)?].map(|socket| End { socket: socket.into(), held: Vec::new() });
    let index = pairs.insert(Pair { ends, is_over: false });
    for (side, end) in pairs[index].ends.iter().enumerate() {
        rustix::io::ioctl_fionbio(&end.socket, true)?;
        epoll::add(poll, &end.socket, token(index, side), EventFlags::IN)?;
    }
    Ok(())
}

struct Pair {
    ends: [End; 2],
    is_over: bool,
}

struct End {
    socket: File,
    /// What it has still to take. While there is anything, nothing is read from the other side.
    held: Vec<u8>,
}

impl Pair {
    /// Forwards what has come from `side`, and what it can take again. An error ends the pair; so does an end.
    fn serve(
        &mut self,
        index: usize,
        side: usize,
        flags: EventFlags,
        buffer: &mut [u8],
        poll: &OwnedFd,
    ) -> io::Result<()> {
        if flags.contains(EventFlags::OUT) && self.ends[side].write_held()? {
            self.watch(index, poll)?;
        }
        let [first, second] = &mut self.ends;
        let (from, to) = if side == 0 { (first, second) } else { (second, first) };
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) || !to.held.is_empty() {
            return Ok(());
        }
        let bytes = from.socket.read(buffer)?;
        if bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let written = write(&mut to.socket, &buffer[..bytes])?;
        if written < bytes {
            to.held.extend_from_slice(&buffer[written..bytes]);
            self.watch(index, poll)?;
        }
        Ok(())
    }

    /// Waits for what can be read and forwarded, and where something is held, for room.
    fn watch(&self, index: usize, poll: &OwnedFd) -> io::Result<()> {
        for (side, end) in self.ends.iter().enumerate() {
            let mut flags = EventFlags::empty();
            flags.set(EventFlags::IN, self.ends[1 - side].held.is_empty());
            flags.set(EventFlags::OUT, !end.held.is_empty());
            epoll::modify(poll, &end.socket, token(index, side), flags)?;
        }
        Ok(())
    }
}

impl End {
    /// Writes what is held, as far as the socket takes it. Says whether that was all.
    fn write_held(&mut self) -> io::Result<bool> {
        let written = write(&mut self.socket, &self.held)?;
        self.held.drain(..written);
        Ok(self.held.is_empty())
    }
}

fn token(index: usize, side: usize) -> EventData {
    EventData::new_u64((index * 2 + side) as u64)
}

/// Writes once; a socket that takes nothing has taken 0 bytes.
fn write(socket: &mut File, bytes: &[u8]) -> io::Result<usize> {
    match socket.write(bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        written => written,
    }
}
