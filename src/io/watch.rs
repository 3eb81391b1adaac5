//! Who has heard of the end of a connection.
//!
//! A multishot receive may miss it. When data and the end (a reset, or a close of a unix socket) are both there before
//! the kernel looks, it receives the data, is told that no more waits, and goes to sleep for a wake-up that has come
//! already: on older kernels in every such race, on 6.18 still when the receive was armed after the end. So each
//! socket with such a receive also has a one-shot poll for its end, its *watch*. When
//! that fires, the receive goes on as a row of single ones, which look at the socket before they sleep.
//!
//! Single receives from the start would cost 300 to 450 ns more each; the watch costs about 40 (loopback TCP, 64 bytes,
//! write and receive together 8 to 11 µs, kernel 6.18).
//!
//! A watch stays until its socket is closed; the descriptor is closed only when the kernel has let go of the watch,
//! because a descriptor in use sends no FIN. The user sees nothing of all this.

use std::collections::HashMap;

use super::{Fd, OpId};

/// What is known of a socket that is watched.
#[derive(Debug)]
struct Watch {
    /// The multishot receive in flight.
    receive: Option<OpId>,
    /// The poll has fired: the other side has ended its direction, or the connection is broken.
    fired: bool,
    /// To be closed when the poll is gone.
    closing: bool,
}

/// The sockets that are watched.
#[derive(Debug)]
pub(super) struct Watches {
    sockets: HashMap<Fd, Watch>,
    polls: usize,
}

/// How to start a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// As a multishot, and with a poll beside it.
    WithPoll,
    /// As a multishot: the poll is there.
    Alone,
    /// As single receives: the end is known.
    Singly,
}

/// What to do after a poll has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fired {
    /// Close the socket.
    Close,
    /// Cancel this receive, which may be asleep; it goes on singly.
    Cancel(OpId),
    Nothing,
}

impl Watches {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { sockets: HashMap::with_capacity(capacity), polls: 0 }
    }

    /// A multishot receive starts.
    pub(super) fn start(&mut self, socket: Fd, receive: OpId) -> Start {
        if let Some(watch) = self.sockets.get_mut(&socket) {
            watch.receive = Some(receive);
            return if watch.fired { Start::Singly } else { Start::Alone };
        }
        self.polls += 1;
        self.sockets.insert(socket, Watch { receive: Some(receive), fired: false, closing: false });
        Start::WithPoll
    }

    /// The receive has completed for the last time.
    pub(super) fn finish(&mut self, socket: Fd) {
        if let Some(watch) = self.sockets.get_mut(&socket) {
            watch.receive = None;
        }
    }

    /// The poll has completed, whatever its result: without one, single receives are what is safe.
    pub(super) fn fire(&mut self, socket: Fd) -> Fired {
        let watch = self.sockets.get_mut(&socket).expect("polls only of sockets that are watched");
        self.polls -= 1;
        if watch.closing {
            self.sockets.remove(&socket);
            return Fired::Close;
        }
        watch.fired = true;
        watch.receive.map_or(Fired::Nothing, Fired::Cancel)
    }

    /// Whether the socket's end is known, so that its receives must not sleep unless they have looked.
    pub(super) fn has_fired(&self, socket: Fd) -> bool {
        self.sockets.get(&socket).is_some_and(|watch| watch.fired)
    }

    /// The user closes the socket. True when that can be done at once; else its poll must be cancelled first.
    pub(super) fn close(&mut self, socket: Fd) -> bool {
        match self.sockets.get_mut(&socket) {
            Some(watch) if !watch.fired => {
                watch.closing = true;
                false
            }
            Some(_) => {
                self.sockets.remove(&socket);
                true
            }
            None => true,
        }
    }

    /// How many polls the kernel holds.
    pub(super) const fn polls(&self) -> usize {
        self.polls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: Fd = Fd(7);

    #[test]
    fn a_socket_gets_one_poll_however_often_it_receives() {
        let mut watches = Watches::with_capacity(1);
        assert_eq!(watches.start(SOCKET, OpId(1)), Start::WithPoll);
        watches.finish(SOCKET);
        assert_eq!(watches.start(SOCKET, OpId(2)), Start::Alone);
        assert_eq!(watches.polls(), 1);
    }

    #[test]
    fn a_receive_in_flight_is_cancelled_when_the_end_is_heard_of() {
        let mut watches = Watches::with_capacity(1);
        watches.start(SOCKET, OpId(1));
        assert!(!watches.has_fired(SOCKET));
        assert_eq!(watches.fire(SOCKET), Fired::Cancel(OpId(1)));
        assert!(watches.has_fired(SOCKET));
        watches.finish(SOCKET);
        assert_eq!(watches.start(SOCKET, OpId(2)), Start::Singly);
    }

    #[test]
    fn nothing_is_cancelled_when_no_receive_is_in_flight() {
        let mut watches = Watches::with_capacity(1);
        watches.start(SOCKET, OpId(1));
        watches.finish(SOCKET);
        assert_eq!(watches.fire(SOCKET), Fired::Nothing);
    }

    #[test]
    fn a_socket_is_closed_when_its_poll_is_gone() {
        let mut watches = Watches::with_capacity(1);
        watches.start(SOCKET, OpId(1));
        watches.finish(SOCKET);
        assert!(!watches.close(SOCKET));
        assert_eq!(watches.fire(SOCKET), Fired::Close);
        assert_eq!(watches.polls(), 0);
        assert_eq!(watches.start(SOCKET, OpId(2)), Start::WithPoll);
    }

    #[test]
    fn a_socket_whose_poll_has_fired_or_never_was_is_closed_at_once() {
        let mut watches = Watches::with_capacity(1);
        assert!(watches.close(SOCKET));
        watches.start(SOCKET, OpId(1));
        watches.fire(SOCKET);
        watches.finish(SOCKET);
        assert!(watches.close(SOCKET));
        assert!(!watches.has_fired(SOCKET));
    }
}
