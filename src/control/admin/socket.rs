//! The socket that administrators connect to.

use std::fs::{self, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::umask;

use crate::config;
use crate::io::Address;

/// A bound socket; the file of one in the file system goes when this is dropped.
#[derive(Debug)]
pub struct AdminSocket {
    pub(super) listener: Listener,
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
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
        }
    }
}

impl AdminSocket {
    /// Binds it. The socket of a program that has ended is replaced. To be called while no other thread makes files: the
    /// permissions of a unix socket are those of all new files for a moment.
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
                // Nobody else may connect before the permissions are what they should be.
                let before = umask(Mode::from_raw_mode(0o177));
                let bound = UnixListener::bind(path);
                umask(before);
                let listener = bound?;
                let file = SocketFile { path: path.clone(), inode: Some(fs::metadata(path)?.ino()) };
                fs::set_permissions(path, Permissions::from_mode(admin.socket_mode))?;
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

    /// Leaves the file to another process.
    pub(super) fn disown(&mut self) {
        if let Some(file) = &mut self.file {
            file.inode = None;
        }
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

/// The file of a unix socket.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// `None`: it belongs to another process.
    inode: Option<u64>,
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
        left.disown();
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
