//! The socket that administrators connect to.

use std::fs::{self, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::config;
use crate::io::Address;

/// Connections that wait to be accepted at most: as many as the standard library has.
const BACKLOG: i32 = 128;

/// A bound socket; the file of one in the file system goes when this is dropped.
#[derive(Debug)]
pub struct AdminSocket {
    listener: Listener,
    file: Option<SocketFile>,
    /// The file that becomes this one's, and its permissions.
    inherited: Option<(PathBuf, u32)>,
}

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
        }
    }
}

impl AdminSocket {
    /// Binds it. The socket of a program that has ended is replaced.
    ///
    /// # Errors
    ///
    /// The system's; or that another program listens there, or that the path names something else.
    pub fn bind(admin: &config::Admin) -> io::Result<Self> {
        match &admin.listen {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Self { listener: Listener::Tcp(listener), file: None, inherited: None })
            }
            Address::Unix(path) => {
                remove_left_behind(path)?;
                let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
                // Nobody else may connect before the permissions are what they should be: the file begins with the socket's.
                fchmod(&socket, Mode::from_raw_mode(0o600))?;
                rustix::net::bind(&socket, &SocketAddrUnix::new(path.as_path())?)?;
                let file = SocketFile { path: path.clone(), inode: Some(fs::metadata(path)?.ino()) };
                rustix::net::listen(&socket, BACKLOG)?;
                set_socket_mode(admin)?;
                let listener = UnixListener::from(socket);
                listener.set_nonblocking(true)?;
                Ok(Self { listener: Listener::Unix(listener), file: Some(file), inherited: None })
            }
        }
    }

    /// The socket of another process that listens there already and leaves it to this one. Its file is left
    /// alone until the control plane starts.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn inherit(admin: &config::Admin, socket: OwnedFd) -> io::Result<Self> {
        let (listener, inherited) = match &admin.listen {
            Address::Tcp(_) => (Listener::Tcp(socket.into()), None),
            Address::Unix(path) => (Listener::Unix(socket.into()), Some((path.clone(), admin.socket_mode))),
        };
        Ok(Self { listener, file: None, inherited })
    }

    /// The same socket, for another process.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(match self.listener.try_clone()? {
            Listener::Tcp(listener) => listener.into(),
            Listener::Unix(listener) => listener.into(),
        })
    }

    /// What was inherited is this process's from here on: the permissions of the file, and its end.
    pub(super) fn own(&mut self) -> io::Result<()> {
        let Some((path, mode)) = self.inherited.take() else { return Ok(()) };
        let inode = Some(fs::metadata(&path)?.ino());
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        self.file = Some(SocketFile { path, inode });
        Ok(())
    }

    /// What is listened on, and what is removed in the end.
    pub(super) fn into_parts(self) -> (Listener, Option<SocketFile>) {
        (self.listener, self.file)
    }
}

/// Gives the file of a bound unix socket the permissions that are configured.
///
/// # Errors
///
/// The system's.
pub fn set_socket_mode(admin: &config::Admin) -> io::Result<()> {
    match &admin.listen {
        Address::Tcp(_) => Ok(()),
        Address::Unix(path) => fs::set_permissions(path, Permissions::from_mode(admin.socket_mode)),
    }
}

/// Removes a socket that nobody listens on.
fn remove_left_behind(path: &Path) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::other("there is something else than a socket"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens there")),
    }
}

/// The file of a unix socket, removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// `None`: it belongs to another process.
    inode: Option<u64>,
}

impl SocketFile {
    /// Leaves it to another process.
    pub(super) const fn disown(&mut self) {
        self.inode = None;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another program may have put its own there since.
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| Some(metadata.ino()) == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admin(path: &Path, socket_mode: u32) -> config::Admin {
        config::Admin { listen: Address::Unix(path.to_owned()), socket_mode, allow_changes: false }
    }

    #[test]
    fn a_socket_has_its_permissions_replaces_one_left_behind_and_goes_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let socket = AdminSocket::bind(&admin(&path, 0o660)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o660);
        let taken = AdminSocket::bind(&admin(&path, 0o600)).unwrap_err();
        assert_eq!(taken.to_string(), "another program listens there");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn an_inherited_socket_has_its_file_once_it_is_owned_and_whoever_left_it_leaves_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let mut left = AdminSocket::bind(&admin(&path, 0o600)).unwrap();
        drop(AdminSocket::inherit(&admin(&path, 0o660), left.duplicate().unwrap()).unwrap());
        assert!(path.exists(), "who never owned it has removed it");
        let mut heir = AdminSocket::inherit(&admin(&path, 0o660), left.duplicate().unwrap()).unwrap();
        heir.own().unwrap();
        left.file.as_mut().unwrap().disown();
        drop(left);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o660);
        UnixStream::connect(&path).unwrap();
        drop(heir);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_socket_and_a_socket_of_another_program_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        fs::write(&path, "precious").unwrap();
        let error = AdminSocket::bind(&admin(&path, 0o600)).unwrap_err();
        assert_eq!(error.to_string(), "there is something else than a socket");
        fs::remove_file(&path).unwrap();
        let socket = AdminSocket::bind(&admin(&path, 0o600)).unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(socket);
        assert!(path.exists());
    }
}
