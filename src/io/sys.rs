//! The system calls that do not go through the ring, as safe functions.
//!
//! A file descriptor is passed as a plain [`Fd`]: a number that names nothing makes the kernel answer `EBADF`, so no
//! function here can harm memory. Nothing here waits for a peer.

#![expect(unsafe_code, reason = "calls into libc")]

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use libc::{c_int, sockaddr, socklen_t};

use super::{Address, Errno, Fd, SocketOptions};
use crate::time::Time;

/// Probes without an answer after which a peer counts as gone, and the part of the idle time between two of them:
/// what a Redis server does with its `tcp-keepalive`.
const KEEPALIVE_PROBES: c_int = 3;

impl Errno {
    /// The calling thread's `errno`.
    fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}

/// A [`Address`] in the kernel's form.
pub(super) enum SockAddr {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
    Unix(libc::sockaddr_un),
}

impl SockAddr {
    /// `ENAMETOOLONG` when a path does not fit, `EINVAL` when it is empty or holds a zero byte.
    pub(super) fn new(address: &Address) -> Result<Self, Errno> {
        match address {
            Address::Tcp(SocketAddr::V4(address)) => Ok(Self::v4(address)),
            Address::Tcp(SocketAddr::V6(address)) => Ok(Self::v6(address)),
            Address::Unix(path) => Self::unix(path),
        }
    }

    const fn v4(address: &SocketAddrV4) -> Self {
        Self::V4(libc::sockaddr_in {
            sin_family: family(libc::AF_INET),
            sin_port: address.port().to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
            sin_zero: [0; 8],
        })
    }

    const fn v6(address: &SocketAddrV6) -> Self {
        Self::V6(libc::sockaddr_in6 {
            sin6_family: family(libc::AF_INET6),
            sin6_port: address.port().to_be(),
            sin6_flowinfo: address.flowinfo(),
            sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
            sin6_scope_id: address.scope_id(),
        })
    }

    fn unix(path: &Path) -> Result<Self, Errno> {
        let bytes = path.as_os_str().as_bytes();
        let mut address = libc::sockaddr_un { sun_family: family(libc::AF_UNIX), sun_path: [0; 108] };
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(Errno(libc::EINVAL));
        }
        // One byte stays for the zero that ends the path.
        if bytes.len() >= address.sun_path.len() {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = libc::c_char::from_ne_bytes([*from]);
        }
        Ok(Self::Unix(address))
    }

    /// The address for as long as `self` lives and does not move.
    pub(super) const fn as_ptr(&self) -> *const sockaddr {
        match self {
            Self::V4(address) => ptr::from_ref(address).cast(),
            Self::V6(address) => ptr::from_ref(address).cast(),
            Self::Unix(address) => ptr::from_ref(address).cast(),
        }
    }

    /// Bytes behind [`SockAddr::as_ptr`].
    pub(super) const fn len(&self) -> socklen_t {
        match self {
            Self::V4(_) => len_of::<libc::sockaddr_in>(),
            Self::V6(_) => len_of::<libc::sockaddr_in6>(),
            Self::Unix(_) => len_of::<libc::sockaddr_un>(),
        }
    }

    const fn domain(&self) -> c_int {
        match self {
            Self::V4(_) => libc::AF_INET,
            Self::V6(_) => libc::AF_INET6,
            Self::Unix(_) => libc::AF_UNIX,
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "AF_* are below 50")]
const fn family(domain: c_int) -> libc::sa_family_t {
    domain as libc::sa_family_t
}

#[expect(clippy::cast_possible_truncation, reason = "only for C structures of at most 128 bytes")]
const fn len_of<T>() -> socklen_t {
    mem::size_of::<T>() as socklen_t
}

/// The time on `CLOCK_MONOTONIC`.
#[must_use]
pub fn now() -> Time {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec, and `time` is one.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert!(result == 0, "CLOCK_MONOTONIC: {}", Errno::last());
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Time::from_nanos(seconds * 1_000_000_000 + nanos)
}

/// How many files the process may have open (`RLIMIT_NOFILE`, the soft limit).
#[must_use]
pub fn open_files_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes one rlimit, and `limit` is one.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert!(result == 0, "RLIMIT_NOFILE: {}", Errno::last());
    limit.rlim_cur
}

/// An eventfd for [`Op::Notify`](super::Op::Notify). It is non-blocking: a blocking one would cost a kernel worker
/// thread per notification.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: eventfd takes no pointer.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    Ok(owned(fd)?)
}

/// A listening TCP socket, non-blocking and close-on-exec. A v6 socket takes v6 connections only, so that `[::]` and
/// `0.0.0.0` may both be bound.
pub fn listen(address: SocketAddr, backlog: u32) -> io::Result<OwnedFd> {
    let socket = bind(address)?;
    // SAFETY: listen takes no pointer.
    check(unsafe { libc::listen(socket.as_raw_fd(), saturate(backlog)) })?;
    Ok(socket)
}

/// As [`listen`], without listening yet.
pub fn bind(address: SocketAddr) -> io::Result<OwnedFd> {
    bind_with(address, false)
}

/// As [`bind`], of a socket that shares its address; see [`share_address`].
pub fn bind_sharing(address: SocketAddr) -> io::Result<OwnedFd> {
    bind_with(address, true)
}

fn bind_with(address: SocketAddr, shares: bool) -> io::Result<OwnedFd> {
    let sockaddr = SockAddr::new(&Address::Tcp(address))?;
    let socket = stream_socket(&sockaddr)?;
    let fd = Fd(socket.as_raw_fd());
    set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if address.is_ipv6() {
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    if shares {
        share_address(fd, true)?;
    }
    // SAFETY: bind reads `len` bytes at the pointer; `sockaddr` is alive and that long.
    check(unsafe { libc::bind(fd.0, sockaddr.as_ptr(), sockaddr.len()) })?;
    Ok(socket)
}

/// Has a bound socket share its address with others of this user that share it, too (`SO_REUSEPORT`), or with none.
///
/// # Errors
/// `EBADF` or `ENOTSOCK` when it is none.
pub fn share_address(socket: Fd, shares: bool) -> Result<(), Errno> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, shares.into())
}

/// Has new clients pass a listening socket by, for another that listens at their address; those that have connected stay in
/// its queue. It listens to an interface that does not exist from here on, which cannot be taken back.
///
/// # Errors
/// `EPERM` when it listens to one interface already.
pub fn pass_by(listener: Fd) -> Result<(), Errno> {
    set_option(listener, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, c_int::MAX)
}

/// Takes over the listening TCP socket that this process was started with under this number, and makes it non-blocking
/// and close-on-exec. Nobody else in this process may own the number.
///
/// # Errors
/// `ENOTSOCK` or `EBADF` when it is none, `EINVAL` when it does not listen, `EAFNOSUPPORT` when it has no address of TCP.
pub fn inherited_listener(number: c_int) -> io::Result<(OwnedFd, SocketAddr)> {
    let (mut listens, mut len) = (0, len_of::<c_int>());
    // SAFETY: getsockopt writes at most `len` bytes to `listens`, which is that long.
    check(unsafe {
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, (&raw mut listens).cast(), &raw mut len)
    })?;
    if listens == 0 {
        return Err(Errno(libc::EINVAL).into());
    }
    let address = local_address(Fd(number)).ok_or(Errno(libc::EAFNOSUPPORT))?;
    // SAFETY: these commands of fcntl take no pointer.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: as above. A listening socket has no other flag of its own that this could take away.
    check(unsafe { libc::fcntl(number, libc::F_SETFL, libc::O_NONBLOCK) })?;
    Ok((owned(number)?, address))
}

/// Another descriptor of the same file, close-on-exec.
///
/// # Errors
/// `EBADF` when it names nothing, `EMFILE` when there are too many.
pub fn duplicate(fd: Fd) -> io::Result<OwnedFd> {
    // SAFETY: this command of fcntl takes no pointer.
    Ok(owned(unsafe { libc::fcntl(fd.0, libc::F_DUPFD_CLOEXEC, 0) })?)
}

/// Has a listening socket refuse clients: on Linux a listening socket that is shut down stops listening and stays bound.
pub(super) fn close_listener(listener: Fd) {
    // SAFETY: shutdown takes no pointer. It fails on what is no listening socket, and then there is nothing to close.
    let _ = unsafe { libc::shutdown(listener.0, libc::SHUT_RD) };
}

/// Has a bound socket listen again; one that listens takes the `backlog`.
///
/// # Errors
/// `EBADF` or `ENOTSOCK` when it is none, `EADDRINUSE` when another has taken its address.
pub fn open_listener(listener: Fd, backlog: u32) -> Result<(), Errno> {
    // SAFETY: listen takes no pointer.
    check(unsafe { libc::listen(listener.0, saturate(backlog)) }).map(drop)
}

/// A new socket fit to connect to `address`.
pub(super) fn open_socket(address: &Address, options: &SocketOptions) -> Result<OwnedFd, Errno> {
    let socket = stream_socket(&SockAddr::new(address)?)?;
    if matches!(address, Address::Tcp(_)) {
        tune_socket(Fd(socket.as_raw_fd()), options);
        if let Some(source) = options.source {
            bind_source(Fd(socket.as_raw_fd()), source)?;
        }
    }
    Ok(socket)
}

/// Sets the address that a socket will connect from. The port is chosen when it connects, from all that are free towards
/// that destination: bind(2) alone would take one that is free towards all (`IP_BIND_ADDRESS_NO_PORT` in ip(7)).
fn bind_source(socket: Fd, source: IpAddr) -> Result<(), Errno> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    let sockaddr = SockAddr::new(&Address::Tcp(SocketAddr::new(source, 0)))?;
    // SAFETY: bind reads `len` bytes at the pointer; `sockaddr` is alive and that long.
    check(unsafe { libc::bind(socket.0, sockaddr.as_ptr(), sockaddr.len()) })
}

/// Whether sockets can be bound to an address: it is one of this machine, or what the kernel says instead.
pub fn check_source(source: IpAddr) -> io::Result<()> {
    let socket = stream_socket(&SockAddr::new(&Address::Tcp(SocketAddr::new(source, 0)))?)?;
    Ok(bind_source(Fd(socket.as_raw_fd()), source)?)
}

/// Sets `options` on a TCP socket; set on a listening one, the sockets accepted from it have them too. Failures are ignored: on another kind of socket there is nothing to tune, and a
/// connection that was reset already fails soon enough by itself.
pub fn tune_socket(socket: Fd, options: &SocketOptions) {
    let set = |level, name, value| {
        let _ = set_option(socket, level, name, value);
    };
    set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    if let Some(seconds) = options.keepalive_seconds {
        let idle = saturate(seconds).max(1);
        set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, idle);
        set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, (idle / KEEPALIVE_PROBES).max(1));
        set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_PROBES);
    }
    if let Some(millis) = options.user_timeout_ms {
        set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, saturate(millis));
    }
}

/// Takes a client that waits on `listener`; `None` when there is none, or none can be taken.
pub(super) fn accept(listener: Fd) -> Option<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: accept4 takes null pointers to mean that the peer's address is not wanted.
    let client = unsafe { libc::accept4(listener.0, ptr::null_mut(), ptr::null_mut(), flags) };
    // SAFETY: a result that is not negative is a new descriptor, which nobody else owns.
    (client >= 0).then(|| unsafe { OwnedFd::from_raw_fd(client) })
}

/// The socket's own address; `None` when it is not a TCP socket.
#[must_use]
pub fn local_address(socket: Fd) -> Option<SocketAddr> {
    // SAFETY: `address_from` passes what getsockname demands: room for an address, and the length of that room.
    address_from(|room, len| unsafe { libc::getsockname(socket.0, room, len) })
}

/// The address of the peer, also of one that has reset the connection meanwhile; `None` when it is not a TCP socket, or one
/// that was never connected.
#[must_use]
pub fn peer_address(socket: Fd) -> Option<SocketAddr> {
    address_from(|room, len| {
        // SAFETY: `address_from` passes what getpeername demands: room for an address, and the length of that room.
        let asked = unsafe { libc::getpeername(socket.0, room, len) };
        if asked == 0 || Errno::last() != Errno(libc::ENOTCONN) {
            return asked;
        }
        // Of a connection that was reset only this option tells it, for the exact length of an address of its family.
        let tell = |exact| {
            // SAFETY: getsockopt writes at most `exact` bytes, and `address_from` has room for any address.
            unsafe {
                *len = exact;
                libc::getsockopt(socket.0, libc::SOL_SOCKET, libc::SO_PEERNAME, room.cast(), len)
            }
        };
        let lengths = [len_of::<libc::sockaddr_in6>(), len_of::<libc::sockaddr_in>()];
        lengths.into_iter().map(tell).find(|&told| told == 0).unwrap_or(asked)
    })
}

/// Sends FIN. That the peer is gone already is no error.
pub(super) fn shutdown_write(socket: Fd) {
    // SAFETY: shutdown takes no pointer.
    unsafe { libc::shutdown(socket.0, libc::SHUT_WR) };
}

/// Closes a file descriptor. Linux frees the number whatever close(2) returns.
pub(super) fn close(fd: Fd) {
    // SAFETY: close takes no pointer; that nothing else uses the number is the caller's word (see `Driver`).
    unsafe { libc::close(fd.0) };
}

/// Has a write beyond the limit of a file's size (`RLIMIT_FSIZE`) fail with `EFBIG`, instead of ending the process with
/// SIGXFSZ.
pub fn survive_full_files() {
    // SAFETY: signal takes a number and a disposition; SIG_IGN is one, and no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn stream_socket(sockaddr: &SockAddr) -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointer.
    owned(unsafe { libc::socket(sockaddr.domain(), kind, 0) })
}

fn set_option(socket: Fd, level: c_int, name: c_int, value: c_int) -> Result<(), Errno> {
    let len = len_of::<c_int>();
    // SAFETY: setsockopt reads `len` bytes at the pointer; `value` is alive and that long.
    check(unsafe { libc::setsockopt(socket.0, level, name, ptr::from_ref(&value).cast(), len) })
}

fn address_from(ask: impl FnOnce(*mut sockaddr, *mut socklen_t) -> c_int) -> Option<SocketAddr> {
    // SAFETY: sockaddr_storage is made of integers, for which all zeroes are valid.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut len = len_of::<libc::sockaddr_storage>();
    if ask((&raw mut storage).cast(), &raw mut len) != 0 {
        return None;
    }
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel says it wrote a sockaddr_in; sockaddr_storage is at least as large and as aligned.
            let address = unsafe { ptr::from_ref(&storage).cast::<libc::sockaddr_in>().read() };
            let ip = address.sin_addr.s_addr.to_ne_bytes();
            Some(SocketAddrV4::new(ip.into(), u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for a sockaddr_in6.
            let address = unsafe { ptr::from_ref(&storage).cast::<libc::sockaddr_in6>().read() };
            let (ip, port) = (address.sin6_addr.s6_addr, u16::from_be(address.sin6_port));
            Some(SocketAddrV6::new(ip.into(), port, address.sin6_flowinfo, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn owned(fd: c_int) -> Result<OwnedFd, Errno> {
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: only called with what a system call has just opened for us, or with what the process was started with and
    // the caller has said is nobody's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// The kernel takes these as `int` and treats anything this large as "no limit".
fn saturate(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn option_of(socket: Fd, level: c_int, name: c_int) -> c_int {
        let (mut value, mut len) = (0, len_of::<c_int>());
        // SAFETY: getsockopt writes at most `len` bytes to `value`.
        check(unsafe { libc::getsockopt(socket.0, level, name, (&raw mut value).cast(), &raw mut len) }).unwrap();
        value
    }

    #[test]
    fn a_listener_takes_connections_and_tells_its_address() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = listen(host.parse().unwrap(), 16).unwrap();
            let address = local_address(Fd(listener.as_raw_fd())).unwrap();
            let client = TcpStream::connect(address).unwrap();
            assert_eq!(client.peer_addr().unwrap(), address);
            let (server, _) = TcpListener::from(listener).accept().unwrap();
            assert_eq!(peer_address(Fd(server.as_raw_fd())), Some(client.local_addr().unwrap()));
        }
    }

    #[test]
    fn a_peer_that_has_reset_the_connection_is_known_all_the_same() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::from(listen(host.parse().unwrap(), 16).unwrap());
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let address = client.local_addr().unwrap();
            let (mut server, _) = listener.accept().unwrap();
            server.write_all(b"x").unwrap();
            client.peek(&mut [0]).unwrap();
            // With that byte unread, it is a reset.
            drop(client);
            assert_eq!(server.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
            assert_eq!(server.peer_addr().unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
            assert_eq!(peer_address(Fd(server.as_raw_fd())), Some(address));
        }
        assert_eq!(peer_address(Fd(TcpListener::bind("127.0.0.1:0").unwrap().as_raw_fd())), None);
    }

    #[test]
    fn v4_and_v6_wildcards_share_a_port() {
        // The port that is free for v6 may be in use for v4: then another one is tried.
        let shared = (0..20).any(|_| {
            let v6 = listen("[::]:0".parse().unwrap(), 1).unwrap();
            let port = local_address(Fd(v6.as_raw_fd())).unwrap().port();
            listen(SocketAddr::from(([0, 0, 0, 0], port)), 1).is_ok()
        });
        assert!(shared);
    }

    #[test]
    fn an_address_in_use_is_an_error_with_its_errno() {
        let first = listen("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = local_address(Fd(first.as_raw_fd())).unwrap();
        assert_eq!(listen(address, 1).unwrap_err().raw_os_error(), Some(libc::EADDRINUSE));
    }

    #[test]
    fn a_listener_that_new_clients_pass_by_keeps_those_that_have_connected() {
        let narrow = listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let (fd, address) = (Fd(narrow.as_raw_fd()), local_address(Fd(narrow.as_raw_fd())).unwrap());
        share_address(fd, true).unwrap();
        let wide = bind_sharing(SocketAddr::from(([0, 0, 0, 0], address.port()))).unwrap();
        open_listener(Fd(wide.as_raw_fd()), 16).unwrap();
        let early = TcpStream::connect(address).unwrap();
        pass_by(fd).unwrap();
        let late = TcpStream::connect(address).unwrap();
        let [narrow, wide] = [narrow, wide].map(|listener| TcpListener::from(listener).accept().unwrap().1);
        assert_eq!([narrow, wide], [early.local_addr().unwrap(), late.local_addr().unwrap()]);
    }

    #[test]
    fn tcp_options_are_set_in_full() {
        let options = SocketOptions { keepalive_seconds: Some(300), user_timeout_ms: Some(30_000), source: None };
        let socket = open_socket(&Address::Tcp("127.0.0.1:1".parse().unwrap()), &options).unwrap();
        let fd = Fd(socket.as_raw_fd());
        assert_eq!(option_of(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
        assert_eq!(option_of(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
        assert_eq!(option_of(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), 300);
        assert_eq!(option_of(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL), 100);
        assert_eq!(option_of(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT), 3);
        assert_eq!(option_of(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), 30_000);
    }

    #[test]
    fn nodelay_is_set_even_without_options() {
        let options = SocketOptions { keepalive_seconds: None, user_timeout_ms: None, source: None };
        let socket = open_socket(&Address::Tcp("[::1]:1".parse().unwrap()), &options).unwrap();
        let fd = Fd(socket.as_raw_fd());
        assert_eq!(option_of(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
        assert_eq!(option_of(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 0);
    }

    #[test]
    fn a_unix_path_that_does_not_fit_is_refused() {
        let options = SocketOptions { keepalive_seconds: None, user_timeout_ms: None, source: None };
        let open = |path: String| open_socket(&Address::Unix(path.into()), &options).map(drop);
        assert_eq!(open("x".repeat(107)), Ok(()));
        assert_eq!(open("x".repeat(108)), Err(Errno(libc::ENAMETOOLONG)));
        assert_eq!(open(String::new()), Err(Errno(libc::EINVAL)));
        assert_eq!(open("a\0b".into()), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let earlier = now();
        assert!(now() >= earlier);
        assert!(earlier > Time::default());
    }
}
