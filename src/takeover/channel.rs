//! The pair of sockets between two processes: short messages, each with one descriptor at most.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown, socketpair,
};
use zeroize::Zeroizing;

/// The longest message. Reasons are cut to fit.
pub(super) const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// One end of the pair.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

/// What came: a word, what stands behind it and a blank, and a descriptor.
#[derive(Debug)]
pub(super) struct Message {
    bytes: Zeroizing<Vec<u8>>,
    pub(super) descriptor: Option<OwnedFd>,
}

impl Message {
    /// The first word, and what follows it.
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        match self.bytes.iter().position(|&byte| byte == b' ') {
            Some(at) => (&self.bytes[..at], &self.bytes[at + 1..]),
            None => (&self.bytes, &[]),
        }
    }
}

impl Channel {
    /// Both ends; neither is inherited by a program.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(own), other))
    }

    pub(super) const fn from_end(end: OwnedFd) -> Self {
        Self(end)
    }

    /// The same end once more.
    pub(super) fn duplicate(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Waits at most so long in each [`Channel::send`] and [`Channel::receive`] from here on; `None`: for ever.
    pub(super) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        set_socket_timeout(&self.0, Timeout::Recv, patience)?;
        Ok(set_socket_timeout(&self.0, Timeout::Send, patience)?)
    }

    /// Sends `word`, and `rest` behind it. What is too long is cut.
    pub(super) fn send(&self, word: &str, rest: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut message = Zeroizing::new([word.as_bytes(), b" ", rest].concat());
        message.truncate(if rest.is_empty() { word.len() } else { MESSAGE_BYTES_MAX });
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let descriptors: &[_] = descriptor.as_slice();
        if !descriptors.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        sendmsg(&self.0, &[IoSlice::new(&message)], &mut beside, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for a message; `None` when the other end is closed. A wait that takes too long is `WouldBlock`.
    pub(super) fn receive(&self) -> io::Result<Option<Message>> {
        let mut bytes = Zeroizing::new(vec![0; MESSAGE_BYTES_MAX]);
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut room = [IoSliceMut::new(&mut bytes)];
        let received = loop {
            match recvmsg(&self.0, &mut room, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                // The other end was closed with messages unread. That is told once, ahead of what it had sent before.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                received => break received?,
            }
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        let descriptor = beside.drain().find_map(|message| {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message { descriptors.next() } else { None }
        });
        bytes.truncate(received.bytes);
        Ok(Some(Message { bytes, descriptor }))
    }

    /// Ends both directions: whoever waits at either end waits no more.
    pub(super) fn end(&self) {
        // It fails when the other end is gone, and then there is nothing to end.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn messages_stay_apart_and_a_descriptor_comes_beside_its_own() {
        let (near, far) = Channel::pair().unwrap();
        let far = Channel::from_end(far);
        let (_reader, writer) = io::pipe().unwrap();
        near.send("all", b"", None).unwrap();
        near.send("admin", b"unix:/a b", Some(writer.as_fd())).unwrap();
        let first = far.receive().unwrap().unwrap();
        assert_eq!((first.parts(), first.descriptor.is_some()), ((&b"all"[..], &b""[..]), false));
        let second = far.receive().unwrap().unwrap();
        assert_eq!((second.parts(), second.descriptor.is_some()), ((&b"admin"[..], &b"unix:/a b"[..]), true));
        drop(near);
        assert!(far.receive().unwrap().is_none());
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_and_a_wait_ends() {
        let (near, far) = Channel::pair().unwrap();
        let far = Channel::from_end(far);
        near.send("failed", &[b'x'; 10_000], None).unwrap();
        let message = far.receive().unwrap().unwrap();
        assert_eq!(message.parts(), (&b"failed"[..], &[b'x'; 8 * 1024 - 7][..]));
        far.set_patience(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(far.receive().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        near.end();
        assert!(far.receive().unwrap().is_none());
    }
}
