//! Files that the program reads at its start: whole, regular, and up to a bound.
//!
//! A path is an operator's: it may name a device that never ends, or a pipe that nobody writes to. Neither may hold the
//! program up or fill its memory, so only regular files are read, and never more than the bound of each.

use std::fs::{FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use zeroize::Zeroizing;

/// A file in memory. It may hold a key, so it is wiped when dropped.
pub struct Contents {
    /// All its bytes.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Its permissions; see `chmod(2)`.
    pub mode: u32,
}

/// Reads the regular file at `path`, which may have at most `bytes_max` bytes. Symlinks are followed.
///
/// # Errors
///
/// The kernel's; or one that says what else the path names, or that the file is too large.
pub fn read(path: &Path, bytes_max: usize) -> io::Result<Contents> {
    // Without O_NONBLOCK, to open a pipe is to wait for somebody who writes to it. A regular file does not mind it.
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if let Some(other) = other_than_regular(metadata.file_type()) {
        return Err(io::Error::other(format!("it is {other}, and must be a regular file")));
    }
    // With its final capacity at once, so that no reallocation leaves a copy behind.
    let capacity = usize::try_from(metadata.len()).unwrap_or(usize::MAX).min(bytes_max).saturating_add(1);
    let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
    // What a file says of its length is not asked again: those of /proc have none, and others may grow meanwhile.
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    file.by_ref().take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        return Err(io::Error::other(format!("it is larger than {bytes_max} bytes, the most that is read")));
    }
    Ok(Contents { bytes, mode: metadata.permissions().mode() })
}

/// What a path names instead of a regular file.
fn other_than_regular(kind: FileType) -> Option<&'static str> {
    let kinds = [
        (kind.is_file(), None),
        (kind.is_dir(), Some("a folder")),
        (kind.is_fifo(), Some("a pipe")),
        (kind.is_char_device(), Some("a character device")),
        (kind.is_block_device(), Some("a block device")),
    ];
    kinds.into_iter().find(|(is, _)| *is).map_or(Some("something else"), |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    fn error(path: &Path) -> String {
        read(path, 16).map(|contents| contents.bytes.len()).unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_and_not_beyond() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [7; 16]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let contents = read(&path, 16).unwrap();
        assert_eq!((&contents.bytes[..], contents.mode & 0o777), (&[7; 16][..], 0o640));
        fs::write(&path, [7; 17]).unwrap();
        assert_eq!(error(&path), "it is larger than 16 bytes, the most that is read");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert_eq!(read(&link, 17).unwrap().bytes.len(), 17);
    }

    #[test]
    fn what_is_no_regular_file_is_named_at_once_and_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for (path, problem) in [
            (Path::new("/dev/zero"), "it is a character device, and must be a regular file"),
            (&pipe, "it is a pipe, and must be a regular file"),
            (folder.path(), "it is a folder, and must be a regular file"),
            (&socket, "No such device or address (os error 6)"),
            (&folder.path().join("none"), "No such file or directory (os error 2)"),
        ] {
            assert_eq!(error(path), problem, "{}", path.display());
        }
    }

    #[test]
    fn a_file_that_does_not_know_its_length_is_read() {
        assert!(read(Path::new("/proc/sys/kernel/osrelease"), 1_024).unwrap().bytes.len() > 3);
        assert_eq!(error(Path::new("/proc/self/status")), "it is larger than 16 bytes, the most that is read");
    }
}
