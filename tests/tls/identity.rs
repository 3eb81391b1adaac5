//! Certificate and key files: what is taken, and what is said about each way to get them wrong.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::KeyPair;
use ringwall::tls::{Identity, unix_time};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::{TLS12, TLS13};

use crate::support::{Authority, Folder, KeyKind, World, openssl, server_params, shake_hands};

/// The error of loading both files, with the folder's path replaced.
fn error(folder: &Folder, certificate: &Path, private_key: &Path) -> String {
    let error = Identity::load(certificate, private_key).unwrap_err();
    error.to_string().replace(&folder.path("").display().to_string(), "/etc/ringwall/")
}

#[test]
fn keys_in_each_format_of_openssl_serve_both_versions() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name).display().to_string();
    openssl(&["genrsa", "-traditional", "-out", &path("pkcs1.key"), "2048"]);
    openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", &path("rsa8.key")]);
    // With a section of parameters in front of the key, as this command does by default.
    openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-out", &path("sec1.key")]);
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384", "-out", &path("ec8.key")]);
    openssl(&["genpkey", "-algorithm", "ED25519", "-out", &path("ed.key")]);
    let authority = Authority::new("Test Authority");
    for (name, label) in [
        ("pkcs1.key", "-----BEGIN RSA PRIVATE KEY-----"),
        ("rsa8.key", "-----BEGIN PRIVATE KEY-----"),
        ("sec1.key", "-----BEGIN EC PRIVATE KEY-----"),
        ("ec8.key", "-----BEGIN PRIVATE KEY-----"),
        ("ed.key", "-----BEGIN PRIVATE KEY-----"),
    ] {
        let pem = std::fs::read_to_string(folder.path(name)).unwrap();
        assert!(pem.contains(label), "{name}");
        // rcgen reads one section, and not RSA in PKCS#8.
        let key = KeyPair::from_pem(&pem[pem.find(label).unwrap()..]).unwrap();
        let certificate = folder.write("server.crt", authority.server(&key));
        let world = World::load(&authority, &certificate, &folder.path(name));
        for version in [&TLS13, &TLS12] {
            shake_hands(&mut world.client(&[version]), &mut world.server());
        }
    }
}

#[test]
fn one_file_may_hold_certificate_and_key() {
    let folder = Folder::new();
    let (authority, key) = (Authority::new("Test Authority"), KeyKind::Ecdsa.generate());
    let both = folder.write("both.pem", authority.server(&key) + &key.serialize_pem());
    let world = World::load(&authority, &both, &both);
    shake_hands(&mut world.client(&[&TLS13]), &mut world.server());
}

#[test]
fn a_chain_with_its_intermediate_is_sent_whole() {
    let folder = Folder::new();
    let (root, key) = (Authority::new("Root"), KeyKind::Ecdsa.generate());
    let intermediate = root.intermediate("Intermediate");
    let chain = folder.write("server.crt", intermediate.server(&key) + &intermediate.certificate.pem());
    let private_key = folder.write("server.key", key.serialize_pem());
    let world = World::load(&root, &chain, &private_key);
    shake_hands(&mut world.client(&[&TLS13]), &mut world.server());
}

#[test]
fn files_that_are_missing_or_empty_are_named() {
    let folder = Folder::new();
    let key = KeyKind::Ecdsa.generate();
    let certificate = folder.write("server.crt", Authority::new("Test Authority").server(&key));
    let private_key = folder.write("server.key", key.serialize_pem());
    let empty = folder.write("empty", " \n");
    let missing = folder.path("missing");
    assert_eq!(
        error(&folder, &missing, &private_key),
        "certificate /etc/ringwall/missing: cannot be read: No such file or directory (os error 2); it must be a file \
         that ringwall's user may read"
    );
    assert_eq!(
        error(&folder, &certificate, &missing),
        "private_key /etc/ringwall/missing: cannot be read: No such file or directory (os error 2); it must be a file \
         that ringwall's user may read"
    );
    assert_eq!(
        error(&folder, &folder.path(""), &private_key),
        "certificate /etc/ringwall/: cannot be read: it is a folder, and must be a regular file"
    );
    assert_eq!(
        error(&folder, &empty, &private_key),
        "certificate /etc/ringwall/empty: the file is empty; it must hold PEM"
    );
    assert_eq!(
        error(&folder, &certificate, &empty),
        "private_key /etc/ringwall/empty: the file is empty; it must hold PEM"
    );
}

#[test]
fn pipes_devices_and_files_without_an_end_are_named_and_not_read() {
    let folder = Folder::new();
    let key = KeyKind::Ecdsa.generate();
    let certificate = folder.write("server.crt", Authority::new("Test Authority").server(&key));
    let private_key = folder.write("server.key", key.serialize_pem());
    let pipe = folder.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(
        error(&folder, &pipe, &private_key),
        "certificate /etc/ringwall/pipe: cannot be read: it is a pipe, and must be a regular file"
    );
    assert_eq!(
        error(&folder, &certificate, Path::new("/dev/zero")),
        "private_key /dev/zero: cannot be read: it is a character device, and must be a regular file"
    );
    let long = folder.write("long", vec![b' '; 1_048_577]);
    assert_eq!(
        error(&folder, &long, &private_key),
        "certificate /etc/ringwall/long: cannot be read: it is larger than 1048576 bytes, the most that is read"
    );
}

#[test]
fn files_that_hold_something_else_say_what_was_found() {
    let folder = Folder::new();
    let key = KeyKind::Ecdsa.generate();
    let pem = Authority::new("Test Authority").server(&key);
    let certificate = folder.write("server.crt", &pem);
    let private_key = folder.write("server.key", key.serialize_pem());
    let needs_certificate = "and no certificate; it must hold the server's certificate and then its intermediates, \
                             each as -----BEGIN CERTIFICATE-----";
    let needs_key = "and no private key; it must hold one as -----BEGIN PRIVATE KEY----- (PKCS#8), RSA PRIVATE KEY \
                     (PKCS#1) or EC PRIVATE KEY (SEC1)";
    assert_eq!(
        error(&folder, &private_key, &certificate),
        format!(
            "certificate /etc/ringwall/server.key: found PRIVATE KEY, {needs_certificate} (are certificate and \
             private_key exchanged?)"
        )
    );
    assert_eq!(
        error(&folder, &certificate, &certificate),
        format!(
            "private_key /etc/ringwall/server.crt: found CERTIFICATE, {needs_key} (are certificate and private_key \
             exchanged?)"
        )
    );
    let text = folder.write("text", "bind 127.0.0.1\n");
    assert_eq!(
        error(&folder, &text, &private_key),
        format!("certificate /etc/ringwall/text: found nothing in PEM, {needs_certificate}")
    );
    assert_eq!(
        error(&folder, &certificate, &text),
        format!("private_key /etc/ringwall/text: found nothing in PEM, {needs_key}")
    );
    let public = folder.write("public", key.public_key_pem());
    assert_eq!(
        error(&folder, &certificate, &public),
        format!("private_key /etc/ringwall/public: found PUBLIC KEY, {needs_key}")
    );
    let two = folder.write("two", key.serialize_pem() + &key.serialize_pem());
    assert_eq!(
        error(&folder, &certificate, &two),
        "private_key /etc/ringwall/two: found 2 private keys; it must hold exactly one"
    );
}

#[test]
fn damaged_files_say_where() {
    let folder = Folder::new();
    let key = KeyKind::Ecdsa.generate();
    let authority = Authority::new("Test Authority");
    let pem = authority.server(&key);
    let certificate = folder.write("server.crt", &pem);
    let private_key = folder.write("server.key", key.serialize_pem());
    let cut = folder.write("cut.crt", &pem[..pem.len() - 30]);
    assert_eq!(
        error(&folder, &cut, &private_key),
        "certificate /etc/ringwall/cut.crt: the PEM is damaged (-----END CERTIFICATE----- is missing); it must be \
         complete, from BEGIN to END"
    );
    let bad = folder.write("bad.crt", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    assert_eq!(
        error(&folder, &bad, &private_key),
        "certificate /etc/ringwall/bad.crt: the PEM is damaged (what stands between BEGIN and END is not base64); it must \
         be complete, from BEGIN to END"
    );

    let hollow =
        folder.write("hollow.crt", pem.clone() + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let message = error(&folder, &hollow, &private_key);
    assert!(
        message.starts_with("certificate /etc/ringwall/hollow.crt: certificate number 2 is damaged ("),
        "{message}"
    );
    let hollow = folder.write("hollow.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    assert_eq!(
        error(&folder, &certificate, &hollow),
        "private_key /etc/ringwall/hollow.key: the key cannot be used (failed to parse private key as RSA, ECDSA, or \
         EdDSA); it must be ECDSA (P-256, P-384, P-521), RSA of 2048 bits or more, or Ed25519"
    );
}

#[test]
fn files_in_another_form_than_pem_say_which() {
    let folder = Folder::new();
    let key = KeyKind::Ecdsa.generate();
    let authority = Authority::new("Test Authority");
    let pem = authority.server(&key);
    let certificate = folder.write("server.crt", &pem);
    let private_key = folder.write("server.key", key.serialize_pem());
    let is_der = "this is DER; it must be PEM: convert it with `openssl x509` or `openssl pkey` and -inform DER, or with \
                  `openssl pkcs12` if it is PKCS#12";
    let der = folder.write("der.crt", authority.certificate.der());
    assert_eq!(error(&folder, &der, &private_key), format!("certificate /etc/ringwall/der.crt: {is_der}"));
    // An elliptic curve key in SEC1 begins with 30 77, an Ed25519 key in PKCS#8 with 30 2e: their length is one byte.
    let path = |name: &str| folder.path(name).display().to_string();
    openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-outform", "DER", "-out", &path("sec1.der")]);
    openssl(&["genpkey", "-algorithm", "ED25519", "-outform", "DER", "-out", &path("ed.der")]);
    for (name, start) in [("sec1.der", [0x30, 0x77]), ("ed.der", [0x30, 0x2e])] {
        assert_eq!(std::fs::read(folder.path(name)).unwrap()[..2], start);
        let message = error(&folder, &certificate, &folder.path(name));
        assert_eq!(message, format!("private_key /etc/ringwall/{name}: {is_der}"));
    }
    let has_mark = "it has a byte order mark, as some programs put before text; it must be PEM: save it as plain ASCII";
    let utf_16: Vec<u8> = [0xfeff].into_iter().chain(pem.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    for (name, text) in [("bom.crt", format!("\u{feff}{pem}").into_bytes()), ("utf16.crt", utf_16)] {
        let file = folder.write(name, text);
        assert_eq!(error(&folder, &file, &private_key), format!("certificate /etc/ringwall/{name}: {has_mark}"));
    }
    let joined = folder.write("joined.pem", format!("{pem}\u{feff}{}", key.serialize_pem()));
    assert_eq!(error(&folder, &joined, &joined), format!("certificate /etc/ringwall/joined.pem: {has_mark}"));
    let indented = folder.write("indented.crt", pem.replace("-----BEGIN", "  -----BEGIN"));
    assert_eq!(
        error(&folder, &indented, &private_key),
        "certificate /etc/ringwall/indented.crt: a line with -----BEGIN has space before it; in PEM each such line begins \
         with the dashes"
    );
}

#[test]
fn a_key_whose_line_breaks_are_lost_is_not_repeated() {
    let folder = Folder::new();
    let key = KeyKind::Ecdsa.generate();
    let certificate = folder.write("server.crt", Authority::new("Test Authority").server(&key));
    let (text, start) = (key.serialize_pem(), "private_key /etc/ringwall/one_line.key: the PEM is damaged");
    let message = |text: String| error(&folder, &certificate, &folder.write("one_line.key", text));
    assert_eq!(
        message(text.replace('\n', " ")),
        format!("{start} (the END of a section is missing); it must be complete, from BEGIN to END")
    );
    assert_eq!(
        message(text.replacen('\n', "", 1)),
        format!("{start} (a line with -----BEGIN goes on behind its label); it must be complete, from BEGIN to END")
    );
}

#[test]
fn an_encrypted_key_comes_with_the_command_that_decrypts_it() {
    let folder = Folder::new();
    let key = KeyKind::Rsa.generate();
    let certificate = folder.write("server.crt", Authority::new("Test Authority").server(&key));
    let plain = folder.write("plain.key", key.serialize_pem()).display().to_string();
    let path = |name: &str| folder.path(name).display().to_string();
    let secret = ["-passout", "pass:secret"];
    openssl(&[&["pkcs8", "-topk8", "-in", &plain, "-out", &path("pkcs8.key")][..], &secret].concat());
    openssl(&[&["rsa", "-traditional", "-aes128", "-in", &plain, "-out", &path("pkcs1.key")][..], &secret].concat());
    for name in ["pkcs8.key", "pkcs1.key"] {
        assert_eq!(
            error(&folder, &certificate, &folder.path(name)),
            format!(
                "private_key /etc/ringwall/{name}: the key is encrypted with a passphrase; it must not be: decrypt it \
                 with `openssl pkey -in /etc/ringwall/{name} -out plain.key` and restrict who can read the result"
            )
        );
    }
}

#[test]
fn a_key_that_does_not_belong_is_told_apart_from_a_chain_in_the_wrong_order() {
    let folder = Folder::new();
    let (root, key) = (Authority::new("Root"), KeyKind::Ecdsa.generate());
    let middle = root.intermediate("Intermediate");
    let (server, middle_pem, root_pem) = (middle.server(&key), middle.certificate.pem(), root.certificate.pem());
    let private_key = folder.write("server.key", key.serialize_pem());
    let other_key = folder.write("other.key", KeyKind::Ecdsa.generate().serialize_pem());
    let good = folder.write("good.crt", format!("{server}{middle_pem}{root_pem}"));
    Identity::load(&good, &private_key).unwrap();
    assert_eq!(
        error(&folder, &good, &other_key),
        "private_key /etc/ringwall/other.key: the key does not belong to certificate /etc/ringwall/good.crt (subject \
         CN=redis.test); it must be the one that the certificate was made for"
    );
    let upside_down = folder.write("upside_down.crt", format!("{middle_pem}{server}"));
    assert_eq!(
        error(&folder, &upside_down, &private_key),
        "certificate /etc/ringwall/upside_down.crt: the private key belongs to certificate number 2 (subject \
         CN=redis.test); the server's own certificate must come first, then its intermediates"
    );
    let exchanged = folder.write("exchanged.crt", format!("{server}{root_pem}{middle_pem}"));
    assert_eq!(
        error(&folder, &exchanged, &private_key),
        "certificate /etc/ringwall/exchanged.crt: certificate number 1 is issued by CN=Intermediate, which is number \
         3; each certificate must be followed by its issuer's"
    );
}

#[test]
fn what_works_but_is_odd_is_warned_about() {
    let folder = Folder::new();
    let (root, key) = (Authority::new("Root"), KeyKind::Ecdsa.generate());
    let mut params = server_params(&["redis.test"]);
    params.not_before = rcgen::date_time_ymd(2021, 1, 1);
    params.not_after = rcgen::date_time_ymd(2022, 1, 1);
    let server = root.certify(&params, &key).pem();
    let stranger = Authority::new("Stranger").certificate.pem();
    let certificate = folder.write("server.crt", server + &stranger);
    let private_key = folder.write("server.key", key.serialize_pem());
    let set_mode = |mode| std::fs::set_permissions(&private_key, std::fs::Permissions::from_mode(mode)).unwrap();
    let warnings = |unix_time| {
        let identity = Identity::load(&certificate, &private_key).unwrap();
        let texts = identity.warnings(unix_time).into_iter().map(|warning| warning.to_string());
        texts.map(|text| text.replace(&folder.path("").display().to_string(), "/etc/ringwall/")).collect::<Vec<_>>()
    };
    let stray = "certificate /etc/ringwall/server.crt: number 2 issued none of those before it; clients do not need it";

    // The middle of 2021; a group may have the key.
    set_mode(0o640);
    assert_eq!(warnings(1_625_000_000), [stray]);
    set_mode(0o644);
    assert_eq!(
        warnings(1_650_000_000),
        [
            "certificate /etc/ringwall/server.crt: number 1 (subject CN=redis.test) expired on Jan  1 00:00:00 2022 \
             +00:00; clients will refuse it",
            stray,
            "private_key /etc/ringwall/server.key: everybody on this machine may read or change it; restrict it with \
             `chmod o-rw /etc/ringwall/server.key`",
        ]
    );
    set_mode(0o600);
    assert_eq!(
        warnings(1_600_000_000),
        [
            "certificate /etc/ringwall/server.crt: number 1 (subject CN=redis.test) is not valid before Jan  1 \
             00:00:00 2021 +00:00; clients will refuse it",
            stray,
        ]
    );
    // The system's clock is right about the century.
    assert!((1_750_000_000..4_000_000_000).contains(&unix_time()));
}

#[test]
fn a_chain_that_is_longer_than_clients_take_is_warned_about() {
    let folder = Folder::new();
    let (root, key) = (Authority::new("Root"), KeyKind::Ecdsa.generate());
    let private_key = folder.write("server.key", key.serialize_pem());
    std::fs::set_permissions(&private_key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (server, root_der, root_pem) = (root.server(&key), root.certificate.der().len(), root.certificate.pem());
    let server_der = CertificateDer::from_pem_slice(server.as_bytes()).unwrap().len();
    let warnings = |roots: usize| {
        let certificate = folder.write("long.crt", server.clone() + &root_pem.repeat(roots));
        let warnings = Identity::load(&certificate, &private_key).unwrap().warnings(unix_time());
        let texts = warnings.into_iter().map(|warning| warning.to_string());
        texts.map(|text| text.replace(&folder.path("").display().to_string(), "/etc/ringwall/")).collect::<Vec<_>>()
    };
    // With 3 bytes of length and 2 of extensions for each certificate, and 4 for the list.
    let fitting = (65_535 - 4 - 5 - server_der) / (root_der + 5);
    assert_eq!(warnings(fitting), Vec::<String>::new());
    assert_eq!(
        warnings(fitting + 1),
        [format!(
            "certificate /etc/ringwall/long.crt: its {} certificates make a message of {} bytes; some clients refuse more \
             than 65535, and OpenSSL more than 102400: leave out those that clients have or do not need",
            fitting + 2,
            4 + server_der + 5 + (fitting + 1) * (root_der + 5)
        )]
    );
}

#[test]
fn no_text_about_an_identity_holds_its_key() {
    let folder = Folder::new();
    let key = KeyKind::Ecdsa.generate();
    let certificate = folder.write("server.crt", Authority::new("Test Authority").server(&key));
    let private_key = folder.write("server.key", key.serialize_pem());
    let text = format!("{:?}", Identity::load(&certificate, &private_key).unwrap());
    let expected = "Identity { certificate: \"/etc/ringwall/server.crt\", private_key: \
                    \"/etc/ringwall/server.key\", certificates: 1, .. }";
    assert_eq!(text.replace(&folder.path("").display().to_string(), "/etc/ringwall/"), expected);
}
