//! What only a real ring can show.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ringwall::io::uring::{Step, Uring, UringOptions, probe};
use ringwall::io::{Address, Driver, Errno, Fd, Op, Outcome, Token, Wait};

use crate::rig::{Machine, filled, pattern};
use crate::uring_rig::{UringMachine, options};

#[test]
fn this_kernel_passes_the_probe() {
    probe().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_ring_that_cannot_be_made_names_the_step_and_the_errno() {
    let error = Uring::new(&UringOptions { submissions: 0, ..options() }).map(drop).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Ring, Errno(libc::EINVAL)));
}

#[test]
fn a_ring_wakes_a_driver_that_sleeps_in_another_thread() {
    let (tell, told) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        let mut driver = Uring::new(&options()).unwrap();
        tell.send(driver.ring_handle()).unwrap();
        let until = driver.now() + Duration::from_secs(20);
        driver.enter(Wait::Until(until)).unwrap();
        assert!(driver.now() < until);
        assert!(matches!(driver.next_completion().unwrap().outcome, Outcome::Rung));
    });
    let ring = told.recv().unwrap();
    let mut driver = Uring::new(&options()).unwrap();
    driver.push(Token(1), Op::Ring { ring });
    driver.enter(Wait::No).unwrap();
    sleeper.join().unwrap();
}

#[test]
fn one_system_call_starts_a_batch_and_brings_its_completions() {
    let mut driver = Uring::new(&options()).unwrap();
    let pairs: Vec<_> = (0..8).map(|_| UnixStream::pair().unwrap()).collect();
    for (near, _) in &pairs {
        driver.push(Token(1), Op::Send { socket: Fd(near.as_raw_fd()), buffer: filled(b"x") });
    }
    driver.enter(Wait::Forever).unwrap();
    assert_eq!(std::iter::from_fn(|| driver.next_completion()).count(), 8);
    assert_eq!(driver.counts().enters, 1);
}

#[test]
fn an_enter_with_nothing_to_do_makes_no_system_call() {
    let mut driver = Uring::new(&options()).unwrap();
    driver.enter(Wait::No).unwrap();
    assert_eq!(driver.counts().enters, 0);
    // Nor does one that finds completions that have not been taken yet.
    let (near, _far) = UnixStream::pair().unwrap();
    driver.push(Token(1), Op::Send { socket: Fd(near.as_raw_fd()), buffer: filled(b"x") });
    driver.enter(Wait::Forever).unwrap();
    driver.enter(Wait::Forever).unwrap();
    assert_eq!(driver.counts().enters, 1);
    assert!(driver.next_completion().is_some());
}

#[test]
fn a_driver_that_never_waits_hears_of_everything() {
    let mut driver = Uring::new(&options()).unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    driver.push(Token(1), Op::ReceiveMany { socket: Fd(near.as_raw_fd()) });
    driver.enter(Wait::No).unwrap();
    far.write_all(b"x").unwrap();
    let deadline = driver.now() + Duration::from_secs(20);
    loop {
        driver.enter(Wait::No).unwrap();
        if let Some(completion) = driver.next_completion() {
            assert!(completion.more, "{completion:?}");
            break;
        }
        assert!(driver.now() < deadline);
    }
}

#[test]
fn completions_that_do_not_fit_are_kept_and_counted() {
    let mut driver = Uring::new(&UringOptions { completions: 8, ..options() }).unwrap();
    let pairs: Vec<_> = (0..50).map(|_| UnixStream::pair().unwrap()).collect();
    for (number, (near, _)) in (0..).zip(&pairs) {
        driver.push(Token(number), Op::Send { socket: Fd(near.as_raw_fd()), buffer: filled(b"x") });
    }
    let mut tokens = Vec::new();
    while tokens.len() < 50 {
        driver.enter(Wait::Forever).unwrap();
        tokens.extend(std::iter::from_fn(|| driver.next_completion()).map(|completion| completion.token.0));
    }
    assert_eq!(tokens, (0..50).collect::<Vec<_>>());
    assert!(driver.counts().overflows > 0);
}

#[test]
fn a_driver_that_is_dropped_lets_go_of_everything() {
    for _ in 0..50 {
        let mut machine = UringMachine::new();
        let (near, mut far) = UnixStream::pair().unwrap();
        let (full, _unread) = UnixStream::pair().unwrap();
        let (listener, address) = machine.listen();
        let driver = machine.driver();
        driver.push(Token(1), Op::Accept { listener });
        driver.push(Token(2), Op::ReceiveMany { socket: Fd(near.as_raw_fd()) });
        driver.push(Token(3), Op::Send { socket: Fd(full.as_raw_fd()), buffer: filled(&pattern(4 << 20)) });
        driver.enter(Wait::No).unwrap();
        let Address::Tcp(address) = address else { panic!("listeners are TCP") };
        let mut client = TcpStream::connect(address).unwrap();
        // The kernel accepts it, and nobody asks.
        driver.enter(Wait::Forever).unwrap();
        drop(machine);
        far.write_all(b"for whoever comes next").unwrap();
        let mut bytes = [0; 22];
        (&near).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"for whoever comes next");
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}
