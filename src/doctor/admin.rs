//! Whether administrators could connect where the configuration has them.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::finding::{Finding, at};
use crate::io::{Address, sys};

/// What is where administrators are to connect.
#[derive(Debug)]
pub(super) enum Place {
    /// Nothing, or the socket of a program that has ended.
    Free,
    /// Somebody listens.
    Taken,
    /// A file that is no socket.
    Other,
    /// The folder that the socket is to be in is not there.
    NoFolder(PathBuf),
    /// It cannot be had, or cannot be looked at.
    Unusable(io::Error),
}

/// Looks, and changes nothing.
pub(super) fn look(listen: &Address) -> Place {
    match listen {
        Address::Tcp(address) => match sys::bind(*address) {
            Ok(_) => Place::Free,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Place::Taken,
            Err(error) => Place::Unusable(error),
        },
        Address::Unix(path) => look_at(path),
    }
}

fn look_at(path: &Path) -> Place {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let in_folder = || match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Place::Free,
        Err(rustix::io::Errno::NOENT) => Place::NoFolder(folder.to_owned()),
        Err(error) => Place::Unusable(error.into()),
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => in_folder(),
        Err(error) => Place::Unusable(error),
        Ok(metadata) if !metadata.file_type().is_socket() => Place::Other,
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Place::Taken,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => in_folder(),
            Err(error) => Place::Unusable(error),
        },
    }
}

/// `runs` says that a ringwall answers there.
pub(super) fn judge(listen: &Address, place: Place, runs: bool) -> Finding {
    let what = "administrators";
    let bad = |found: &str, remedy: &str| Finding::bad(what, at(what, listen, found), remedy);
    match place {
        Place::Taken if runs => Finding::good(what, at(what, listen, " answers: a ringwall runs")),
        Place::Free => Finding::good(what, at(what, listen, " is free")),
        // The runtime directory of a service comes and goes with it.
        Place::NoFolder(folder) if folder.parent() == Some(Path::new("/run")) => {
            let found = format!(": {} is made when the service starts (RuntimeDirectory=)", folder.display());
            Finding::good(what, at(what, listen, &found))
        }
        Place::NoFolder(folder) => {
            let found = format!(": there is no folder {}", folder.display());
            bad(&found, "make the folder, and let ringwall's user write to it; or write another admin.listen")
        }
        Place::Taken => bad(
            " is in use, and by no ringwall that answers",
            "end the other program (`ss -lxtnp` shows who it is), or write another admin.listen",
        ),
        Place::Other => bad(" is a file and no socket", "remove it, or write another admin.listen"),
        Place::Unusable(error) => bad(
            &format!(": {error}"),
            "ask as the user that runs ringwall, who must be able to write to the folder; or write another admin.listen",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::finding::Verdict;
    use super::*;

    fn judged(path: &Path, runs: bool) -> (Verdict, String) {
        let listen = Address::Unix(path.to_owned());
        let finding = judge(&listen, look(&listen), runs);
        (finding.verdict, finding.found.replace(&format!("unix:{}", path.display()), "IT"))
    }

    #[test]
    fn what_is_in_the_place_of_a_socket_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        assert_eq!(judged(&path, false), (Verdict::Good, "IT is free".to_owned()));
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(judged(&path, true), (Verdict::Good, "IT answers: a ringwall runs".to_owned()));
        let taken = "IT is in use, and by no ringwall that answers";
        assert_eq!(judged(&path, false), (Verdict::Bad, taken.to_owned()));
        drop(listener);
        assert_eq!(judged(&path, false), (Verdict::Good, "IT is free".to_owned()));
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(judged(&path, false), (Verdict::Bad, "IT is a file and no socket".to_owned()));
        let nowhere = folder.path().join("none/admin.sock");
        let found = format!("IT: there is no folder {}", folder.path().join("none").display());
        assert_eq!(judged(&nowhere, false), (Verdict::Bad, found));
        let found = "IT: /run/none-of-this-name is made when the service starts (RuntimeDirectory=)".to_owned();
        assert_eq!(judged(Path::new("/run/none-of-this-name/admin.sock"), false), (Verdict::Good, found));
    }

    #[test]
    fn a_port_of_loopback_is_free_or_in_use() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let listen = Address::Tcp(address);
        assert!(matches!(look(&listen), Place::Taken));
        drop(taken);
        let finding = judge(&listen, look(&listen), false);
        assert_eq!(finding.found, format!("{address} is free"));
    }
}
