//! Secrets that the service manager hands over (`LoadCredential=` and its kin of `systemd.exec(5)`): written as
//! `credential:NAME` where a path can stand.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable by which a service manager says where they are.
const FOLDER_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// What stands in front of a credential's name.
const PREFIX: &str = "credential:";

/// The file of a credential, where `path` names one: else `None`.
pub(super) fn path(path: &str) -> Option<Result<PathBuf, String>> {
    path.strip_prefix(PREFIX).map(|name| in_folder(name, std::env::var_os(FOLDER_VARIABLE)))
}

fn in_folder(name: &str, folder: Option<OsString>) -> Result<PathBuf, String> {
    // As systemd takes them: a file name, and no way out of the folder.
    if name.is_empty() || name.contains(['/', '\0']) || [".", ".."].contains(&name) {
        return Err("is not the name of a credential: write credential: and a name without slashes".to_owned());
    }
    match folder {
        Some(folder) if !folder.is_empty() => Ok(Path::new(&folder).join(name)),
        Some(_) | None => Err(format!(
            "is handed over by the service manager, and {FOLDER_VARIABLE} is not set: start ringwall as a systemd service \
             with LoadCredential={name}:/path, or write the path of a file"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_a_file_in_the_manager_s_folder() {
        let folder = Some(OsString::from("/run/credentials/ringwall.service"));
        let path = in_folder("server.key", folder).unwrap();
        assert_eq!(path, Path::new("/run/credentials/ringwall.service/server.key"));
        assert_eq!(super::path("/etc/ringwall/server.key"), None);
    }

    #[test]
    fn without_a_manager_there_is_none() {
        for folder in [None, Some(OsString::new())] {
            assert_eq!(
                in_folder("server.key", folder).unwrap_err(),
                "is handed over by the service manager, and CREDENTIALS_DIRECTORY is not set: start ringwall as a systemd \
                 service with LoadCredential=server.key:/path, or write the path of a file"
            );
        }
    }

    #[test]
    fn a_name_does_not_lead_out_of_the_folder() {
        for name in ["", ".", "..", "../shadow", "a/b", "a\0b"] {
            let problem = in_folder(name, Some("/run".into())).unwrap_err();
            assert_eq!(problem, "is not the name of a credential: write credential: and a name without slashes");
        }
    }
}
