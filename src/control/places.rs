//! Where a change of a file shows itself.
//!
//! A path leads to its file through folders and symbolic links. The file is another one when its name in the last
//! folder is given to another file, or one of those links: this is how certificates are replaced at once, as by
//! Kubernetes (`tls.crt -> ..data/tls.crt`, `..data -> ..2025_01_01`) and by certbot (`live/x.pem -> ../archive/x2.pem`).
//! Each such name stands in a folder, and these folders are what can be watched.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf, absolute};

use crate::config::TlsFiles;

/// Most links on the way to a file, as the kernel has it.
const LINKS_MAX: usize = 40;

/// Which names in a folder matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Names {
    All,
    Some(HashSet<OsString>),
}

impl Names {
    /// Whether a change under this name matters; none stands for the folder itself.
    pub(super) fn contain(&self, name: Option<&OsStr>) -> bool {
        match (self, name) {
            (Self::All, _) | (_, None) => true,
            (Self::Some(names), Some(name)) => names.contains(name),
        }
    }
}

/// Folders, and the names in them that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places(pub(super) BTreeMap<PathBuf, Names>);

impl Places {
    /// Where changes of these files show themselves, as things stand.
    pub(super) fn of(files: &TlsFiles) -> Self {
        let mut places = Self::default();
        for file in &files.files {
            places.follow(file);
        }
        for folder in &files.folders {
            if let Some(folder) = places.follow(folder) {
                places.0.insert(folder, Names::All);
            }
        }
        places
    }

    /// Notes each link on the way and the last name, or the first that is not there. Gives the file's real path.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let path = absolute(path).ok()?;
        let mut ahead: VecDeque<OsString> = path.components().map(|part| part.as_os_str().to_owned()).collect();
        let mut here = PathBuf::new();
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            match Path::new(&name).components().next() {
                Some(Component::RootDir) => here = PathBuf::from("/"),
                Some(Component::ParentDir) => {
                    here.pop();
                }
                Some(Component::Normal(_)) => {
                    let there = here.join(&name);
                    if let Ok(target) = fs::read_link(&there) {
                        self.note(&here, name);
                        links += 1;
                        if links > LINKS_MAX {
                            return None;
                        }
                        for part in target.components().rev() {
                            ahead.push_front(part.as_os_str().to_owned());
                        }
                    } else if ahead.is_empty() || !there.exists() {
                        self.note(&here, name);
                        return there.exists().then_some(there);
                    } else {
                        here = there;
                    }
                }
                Some(Component::CurDir | Component::Prefix(_)) | None => {}
            }
        }
        Some(here)
    }

    fn note(&mut self, folder: &Path, name: OsString) {
        let names = self.0.entry(folder.into()).or_insert_with(|| Names::Some(HashSet::new()));
        if let Names::Some(names) = names {
            names.insert(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The places of one path in `folder`, with the folder's name left out.
    fn places(folder: &Path, files: &[&str], folders: &[&str]) -> Vec<(String, Vec<String>)> {
        let full = |names: &[&str]| names.iter().map(|name| folder.join(name)).collect();
        let Places(places) = Places::of(&TlsFiles { files: full(files), folders: full(folders) });
        let shown = places.into_iter().map(|(place, names)| {
            let mut names: Vec<_> = match names {
                Names::All => vec!["*".to_owned()],
                Names::Some(names) => names.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
            };
            names.sort();
            (place.strip_prefix(folder).unwrap().display().to_string(), names)
        });
        shown.collect()
    }

    fn place(folder: &str, names: &[&str]) -> (String, Vec<String>) {
        (folder.to_owned(), names.iter().map(ToString::to_string).collect())
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    #[test]
    fn plain_files_are_looked_for_in_their_folder() {
        let (_owner, path) = folder();
        fs::create_dir(path.join("tls")).unwrap();
        fs::write(path.join("tls/a.crt"), "").unwrap();
        assert_eq!(places(&path, &["tls/a.crt", "tls/../tls/./a.key"], &[]), [place("tls", &["a.crt", "a.key"])]);
    }

    #[test]
    fn each_link_on_the_way_is_a_place() {
        let (_owner, path) = folder();
        fs::create_dir(path.join("..2025")).unwrap();
        fs::write(path.join("..2025/tls.crt"), "").unwrap();
        symlink("..2025", path.join("..data")).unwrap();
        symlink("..data/tls.crt", path.join("tls.crt")).unwrap();
        let expected = [place("", &["..data", "tls.crt"]), place("..2025", &["tls.crt"])];
        assert_eq!(places(&path, &["tls.crt"], &[]), expected);
        symlink(path.join("tls.crt"), path.join("..2025/absolute")).unwrap();
        let expected = [place("", &["..data", "tls.crt"]), place("..2025", &["absolute", "tls.crt"])];
        assert_eq!(places(&path, &["..2025/absolute"], &[]), expected);
    }

    #[test]
    fn what_is_not_there_is_waited_for_in_the_folder_that_is() {
        let (_owner, path) = folder();
        assert_eq!(places(&path, &["tls/live/a.crt"], &[]), [place("", &["tls"])]);
        symlink("nowhere/a", path.join("a.crt")).unwrap();
        assert_eq!(places(&path, &["a.crt"], &[]), [place("", &["a.crt", "nowhere"])]);
    }

    #[test]
    fn a_link_to_itself_is_given_up() {
        let (_owner, path) = folder();
        symlink("b", path.join("a")).unwrap();
        symlink("a", path.join("b")).unwrap();
        assert_eq!(places(&path, &["a"], &[]), [place("", &["a", "b"])]);
    }

    #[test]
    fn of_a_folder_every_name_matters() {
        let (_owner, path) = folder();
        fs::create_dir(path.join("real")).unwrap();
        symlink("real", path.join("certs")).unwrap();
        assert_eq!(places(&path, &["real/a.crt"], &["certs"]), [place("", &["certs", "real"]), place("real", &["*"])]);
    }
}
