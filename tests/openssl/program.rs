//! The real program in a folder of its own, with OpenSSL's client in front of it or its server behind it.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    RevokedCertParams, date_time_ymd,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a line that must come may take on a busy machine before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate authority, whose certificate clients trust.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
    key_pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Test Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let key_pem = key.serialize_pem();
        Self { issuer: Issuer::new(params, key), pem, key_pem }
    }

    /// A certificate for `names` with its key, both in PEM. The subject is the first name.
    pub(crate) fn certify(&self, names: &[&str], key: &KeyPair) -> (String, String) {
        static NEXT: AtomicU64 = AtomicU64::new(1_000);
        self.certify_as(names, key, NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// As [`Self::certify`], with this serial number.
    pub(crate) fn certify_as(&self, names: &[&str], key: &KeyPair, serial: u64) -> (String, String) {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, names[0]);
        params.serial_number = Some(serial.into());
        (params.signed_by(key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Writes `name` into `folder`: the answer of this authority's OCSP responder about a serial number in hexadecimal.
    /// It begins with `V` for a valid certificate, and with `R` and a date for one that is revoked.
    pub(crate) fn respond(&self, folder: &Folder, name: &str, serial: &str, status: &str) {
        folder.write("ca.key", &self.key_pem);
        // As `openssl ca` keeps its books: status, expiry, revocation, serial number, file, subject.
        let (kind, revoked) = status.split_at(1);
        folder.write("index.txt", &format!("{kind}\t491231235959Z\t{revoked}\t{serial}\tunknown\t/CN=redis.test\n"));
        let serial = format!("0x{serial}");
        let output = openssl(
            folder.path(),
            &[
                "ocsp",
                "-index",
                "index.txt",
                "-CA",
                "ca.pem",
                "-rsigner",
                "ca.pem",
                "-rkey",
                "ca.key",
                "-issuer",
                "ca.pem",
                "-serial",
                &serial,
                "-ndays",
                "7",
                "-noverify",
                "-respout",
                "new.ocsp",
            ],
        );
        std::fs::rename(folder.path().join("new.ocsp"), folder.path().join(name))
            .unwrap_or_else(|_| panic!("{output}"));
    }

    /// A list in PEM that revokes these serial numbers.
    pub(crate) fn revoke(&self, serials: &[u64]) -> String {
        let revoked = serials.iter().map(|&serial| RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

/// A folder with what the program and its clients read.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with `ca.pem` and, of it, `server.crt` and `server.key` for `redis.test`.
    pub(crate) fn with_server() -> (Self, Authority) {
        let (folder, authority) = (Self::new(), Authority::new());
        folder.write("ca.pem", &authority.pem);
        folder.write_pair("server", authority.certify(&["redis.test"], &KeyPair::generate().unwrap()));
        (folder, authority)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Writes `name.crt` and `name.key`.
    pub(crate) fn write_pair(&self, name: &str, (certificate, key): (String, String)) {
        self.write(&format!("{name}.crt"), &certificate);
        self.write(&format!("{name}.key"), &key);
    }
}

/// The program while it serves. Its server ends each connection at once, so that each session ends.
pub(crate) struct Program {
    child: Child,
    log: Receiver<String>,
    address: String,
    /// What it has logged before it served.
    pub(crate) warnings: Vec<String>,
    folder: PathBuf,
}

impl Program {
    /// Starts it with one listener, whose `tls` table has these lines.
    pub(crate) fn start(folder: &Folder, tls: &str) -> Self {
        Self::start_with(folder, tls, "", &[])
    }

    /// As [`Self::start`], with more sections and arguments.
    pub(crate) fn start_with(folder: &Folder, tls: &str, sections: &str, arguments: &[&str]) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap().to_string();
        thread::spawn(move || server.incoming().for_each(drop));
        Self::launch(&address, folder, &format!("[listener.tls]\n{tls}"), sections, 2, arguments)
    }

    /// Starts it in front of this server, with these lines for its one listener and its backend.
    pub(crate) fn in_front_of(server: &str, folder: &Folder, listener: &str, backend: &str, shards: usize) -> Self {
        Self::launch(server, folder, listener, backend, shards, &[])
    }

    fn launch(server: &str, folder: &Folder, listener: &str, rest: &str, shards: usize, arguments: &[&str]) -> Self {
        let config = format!(
            "[[listener]]\nname = \"public\"\nbind = \"127.0.0.1:0\"\nbackend = \"valkey\"\n{listener}\n\
             [[backend]]\nname = \"valkey\"\nservers = [\"{server}\"]\n{rest}\n\
             [limits]\nmax_connections = 100\n[runtime]\nshards = {shards}\n",
        );
        folder.write("ringwall.toml", &config);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringwall"));
        command.current_dir(folder.path()).args(["run", "--config", "ringwall.toml"]).args(arguments);
        command.env_remove("RINGWALL_LOG").env_remove("NOTIFY_SOCKET").stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stderr.take().unwrap()).lines();
        let (lines, log) = channel();
        thread::spawn(move || output.map_while(Result::ok).try_for_each(|line| lines.send(line)));
        let (address, warnings, folder) = (String::new(), Vec::new(), folder.path().into());
        let mut program = Self { child, log, address, warnings, folder };
        let mut started = program.line();
        while started.contains("WARN") {
            program.warnings.push(started);
            started = program.line();
        }
        let (_, rest) = started.split_once("public on ").unwrap_or_else(|| panic!("{started}"));
        program.address = rest.split_once(' ').unwrap().0.to_owned();
        program
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn line(&mut self) -> String {
        self.log.recv_timeout(PATIENCE).expect("the program goes on and writes what is waited for")
    }

    /// The next line about a closed session.
    pub(crate) fn closed(&mut self) -> String {
        self.line_with("session closed")
    }

    /// The next line with this text.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What `openssl s_client` with these arguments says at length, sessions, certificates and all.
    pub(crate) fn verbose_s_client(&self, arguments: &[&str]) -> String {
        let fixed = ["s_client", "-verify_return_error", "-CAfile", "ca.pem", "-connect", &self.address];
        openssl(&self.folder, &[&fixed, arguments].concat())
    }

    /// The serial number of the certificate that a client is shown, in hexadecimal as openssl prints it.
    pub(crate) fn shown_serial(&self) -> String {
        std::fs::write(self.folder.join("shown.txt"), self.verbose_s_client(&[])).unwrap();
        let text = openssl(&self.folder, &["x509", "-in", "shown.txt", "-noout", "-serial"]);
        text.trim().strip_prefix("serial=").unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    /// What `openssl s_client` with these arguments says about the handshake. It trusts `ca.pem`.
    pub(crate) fn s_client(&self, arguments: &[&str]) -> String {
        self.s_client_at_length(&[&["-brief"], arguments].concat())
    }

    /// As [`Self::s_client`], and all that there is to say.
    pub(crate) fn s_client_at_length(&self, arguments: &[&str]) -> String {
        let fixed = ["s_client", "-verify_return_error", "-CAfile", "ca.pem", "-connect", &self.address];
        openssl(&self.folder, &[&fixed, arguments].concat())
    }
}

/// What the openssl program writes when it works in `folder`.
pub(crate) fn openssl(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command.current_dir(folder).stdin(Stdio::null()).args(arguments);
    let output = command.output().expect("the tests need the openssl program");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
