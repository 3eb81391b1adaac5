//! A load whose requests leave at times that do not depend on the answers: a slow answer holds no later request up, and
//! its whole delay is measured from the time at which the request was to leave.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ringwall::io::sys::now;
use ringwall::time::Time;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::thread::set_current_timer_slack;

use crate::client::{Buffers, Client};
use crate::draws::Draws;

/// Events taken in one go.
const EVENTS_MAX: usize = 1024;

/// Nothing takes longer than this: a proxy that does not answer within it has lost a byte.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The load.
pub(crate) struct OpenLoop {
    request: Vec<u8>,
    reply_bytes: usize,
    poll: OwnedFd,
    events: Vec<Event>,
    clients: Vec<Asking>,
    outstanding: usize,
    buffers: Buffers,
    latencies: Vec<Duration>,
}

struct Asking {
    client: Client,
    /// When the requests that are not answered were to leave.
    due: VecDeque<Time>,
    /// Bytes of the reply that has begun.
    begun: usize,
}

impl OpenLoop {
    /// A load without clients that asks `request` and gets replies of so many bytes.
    pub(crate) fn new(request: &[u8], reply_bytes: usize) -> Self {
        Self {
            request: request.to_vec(),
            reply_bytes,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll"),
            events: Vec::with_capacity(EVENTS_MAX),
            clients: Vec::new(),
            outstanding: 0,
            buffers: Buffers::default(),
            latencies: Vec::new(),
        }
    }

    /// Adds a client, the index of which is the number of those before it.
    pub(crate) fn join(&mut self, client: Client) {
        let index = EventData::new_u64(self.clients.len() as u64);
        epoll::add(&self.poll, &client, index, EventFlags::IN).expect("a socket can be polled");
        self.clients.push(Asking { client, due: VecDeque::new(), begun: 0 });
    }

    /// Lets requests leave at `rate` per second for this long, each at a time of its own and from a client that `who`
    /// draws; one that is not there asks nothing.
    pub(crate) fn run_for(
        &mut self,
        duration: Duration,
        rate: f64,
        draws: &mut Draws,
        mut who: impl FnMut(&mut Draws) -> usize,
    ) {
        // Else the kernel lets the thread sleep for 50 us more than it asks for.
        set_current_timer_slack(NonZeroU64::new(1)).expect("a thread may say how exact it is");
        let mut due = now() + draws.gap(rate);
        let end = now() + duration;
        loop {
            let at = now();
            while due <= at.min(end) {
                self.ask(who(draws), due);
                due = due + draws.gap(rate);
            }
            if at >= end {
                break;
            }
            self.turn(due.min(end).since(at));
        }
        // What is started from this thread later has it from here.
        set_current_timer_slack(None).expect("a thread may be as it was");
    }

    /// Takes all that is still to come.
    pub(crate) fn rest(&mut self) {
        while self.outstanding > 0 {
            assert!(self.turn(ANSWER_TIMEOUT), "no reply within {ANSWER_TIMEOUT:?}");
        }
    }

    /// The time from when each request was to leave to the end of its reply, for all replies since the last call.
    pub(crate) fn take_latencies(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.latencies)
    }

    fn ask(&mut self, index: usize, due: Time) {
        if let Some(asking) = self.clients.get_mut(index) {
            asking.client.send(&self.request, &mut self.buffers);
            asking.due.push_back(due);
            self.outstanding += 1;
        }
    }

    /// Waits for `timeout` at most and takes what has come. Says whether anything has.
    fn turn(&mut self, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).expect("it is short");
        epoll::wait(&self.poll, spare_capacity(&mut self.events), Some(&timeout)).expect("an epoll can be waited for");
        let any = !self.events.is_empty();
        while let Some(event) = self.events.pop() {
            let index = usize::try_from(event.data.u64()).expect("an index");
            let Asking { client, due, begun } = &mut self.clients[index];
            client.receive(&mut self.buffers, |plaintext| *begun += plaintext.len());
            let at = now();
            while *begun >= self.reply_bytes {
                *begun -= self.reply_bytes;
                let due = due.pop_front().expect("no more comes than was asked for");
                self.latencies.push(at.since(due));
                self.outstanding -= 1;
            }
        }
        any
    }
}
