//! What every driver does.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ringwall::io::uring::{Uring, UringOptions, probe};
use ringwall::io::{Driver, Fd, Op, Outcome, Token, Wait};
use ringwall::pool::SendBuf;

#[test]
fn this_kernel_passes_the_probe() {
    probe().unwrap();
}

#[test]
fn bytes_go_both_ways() {
    let mut driver = Uring::new(&UringOptions::default()).unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    let socket = Fd(near.as_raw_fd());
    let receive = driver.push(Token(1), Op::ReceiveMany { socket });
    let mut buffer = SendBuf::with_capacity(16);
    buffer.append(b"ping");
    driver.push(Token(2), Op::Send { socket, buffer });
    driver.enter(Wait::Until(driver.now() + Duration::from_secs(5))).unwrap();
    let sent = driver.next_completion().unwrap();
    assert!(matches!(sent.outcome, Outcome::Sent { result: Ok(4), .. }));
    let mut answer = [0; 4];
    far.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
    far.write_all(b"pong").unwrap();
    driver.enter(Wait::Until(driver.now() + Duration::from_secs(5))).unwrap();
    let received = driver.next_completion().unwrap();
    assert!(received.more);
    let Outcome::Received { result: Ok(Some(lease)), .. } = received.outcome else { panic!("{received:?}") };
    assert_eq!(driver.bytes_mut(&lease), b"pong");
    driver.recycle(lease);
    driver.push(Token(3), Op::Cancel { op: receive });
    driver.enter(Wait::Until(driver.now() + Duration::from_secs(5))).unwrap();
    let last = driver.next_completion().unwrap();
    assert_eq!((last.token, last.more), (Token(1), false));
    driver.enter(Wait::Until(driver.now() + Duration::from_millis(5))).unwrap();
    assert!(driver.next_completion().is_none());
}
