//! A folder of certificates: which of its files belong together.

use std::path::{Path, PathBuf};

use super::tls::Pair;

/// What is said where a folder has nothing to use.
const FORM: &str = "NAME.crt (or .cer, .pem) with NAME.key, or NAME.pem with both";

/// The certificates of `folder` with their keys, in the order of the files' names. Hidden files and those with other
/// endings are passed over; folders in it are not entered.
pub(super) fn pairs(folder: &Path) -> Result<Vec<Pair>, String> {
    let unreadable = |error| format!("{}: cannot be read: {error}", folder.display());
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        files.push(entry.map_err(unreadable)?.path());
    }
    files.sort();
    let mut pairs = Vec::new();
    for certificate in files {
        let hidden = certificate.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let ending = certificate.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if hidden || !["crt", "cer", "pem"].contains(&ending) || certificate.is_dir() {
            continue;
        }
        let beside = certificate.with_extension("key");
        let private_key = match (beside.exists(), ending) {
            (true, _) => beside,
            (false, "pem") => certificate.clone(),
            (false, _) => return Err(format!("{}: its key is not there: {}", certificate.display(), beside.display())),
        };
        let ocsp = Some(certificate.with_extension("ocsp")).filter(|beside| beside.exists());
        pairs.push(Pair { certificate, private_key, ocsp });
    }
    if pairs.is_empty() { Err(format!("{}: holds no certificate: {FORM}", folder.display())) } else { Ok(pairs) }
}
