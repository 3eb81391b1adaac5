//! Client certificates: who is let in, who is told what, and what a ticket is worth afterwards.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use ::aws_lc_rs::digest::{SHA256, digest};
use rcgen::string::Ia5String;
use rcgen::{CertificateParams, DnType, DnValue, KeyPair, PublicKeyData, SanType};
use ringwall::tls::{
    Acceptor, ClientAuth, ClientRules, Clients, Coverage, Credentials, Failure, Identity, OpenStatus, Options,
    TicketKeys,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, Error, SupportedProtocolVersion};

use crate::support::{Authority, Folder, KeyKind, Peer, Server, roots, server_params};

/// The start of 11 June 2025, which is the start of a ticket epoch, too.
const JUNE_11: u64 = 81_000 * 21_600;

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(JUNE_11) };
}

/// A listener's files, and an authority for its clients.
struct Pki {
    folder: Folder,
    servers: Authority,
    authority: Authority,
    tickets: TicketKeys,
}

impl Pki {
    fn new() -> Self {
        let (folder, servers, authority) = (Folder::new(), Authority::new("Servers"), Authority::new("Clients"));
        let key = KeyKind::Ecdsa.generate();
        folder.write("server.crt", servers.server(&key));
        folder.write("server.key", key.serialize_pem());
        folder.write("ca.pem", authority.certificate.pem());
        Self { folder, servers, authority, tickets: crate::resumption::keys("a") }
    }

    fn required(&self) -> ClientAuth {
        ClientAuth {
            required: true,
            authorities: self.folder.path("ca.pem"),
            revocation_lists: Vec::new(),
            coverage: Coverage::Chain,
            rules: ClientRules::default(),
        }
    }

    /// One that revokes these serial numbers.
    fn with_list(&self, serials: &[u64], year: i32) -> ClientAuth {
        let list = self.folder.write("clients.crl", self.authority.revoke(serials, year).pem().unwrap());
        ClientAuth { revocation_lists: vec![list], ..self.required() }
    }

    fn with_rules(&self, rules: ClientRules) -> ClientAuth {
        ClientAuth { rules, ..self.required() }
    }

    fn acceptor(&self, auth: Option<&ClientAuth>) -> Acceptor {
        let identity = Identity::load(&self.folder.path("server.crt"), &self.folder.path("server.key")).unwrap();
        let clients = auth.map(|auth| Clients::load(auth).unwrap());
        let credentials = Credentials { identities: vec![identity], clients, ticket_secret: None };
        let tickets = Some(self.tickets.clone());
        Acceptor::new(&credentials, &Options { tickets, unix_time: || NOW.get(), ..Options::default() }).unwrap()
    }

    /// A client that shows a certificate, if one is given; it keeps its tickets.
    fn client(&self, version: &'static SupportedProtocolVersion, shown: Option<&Shown>) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots(self.servers.certificate.der()));
        Arc::new(match shown {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
                builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        })
    }
}

type Shown = (rcgen::Certificate, KeyPair);

/// The parameters of the client `worker`, whose serial number is 7.
fn worker() -> CertificateParams {
    let mut params = server_params(&["worker.test"]);
    params.distinguished_name.push(DnType::CommonName, "worker");
    params.serial_number = Some(7_u64.into());
    params
}

fn made(authority: &Authority, params: &CertificateParams) -> Shown {
    let key = KeyPair::generate().unwrap();
    (authority.certify(params, &key), key)
}

/// What a handshake came to: whether it resumed and who the client is, or the failure, the alert and who it would be.
type Outcome = Result<(bool, Option<Box<str>>), (Failure, AlertDescription, Option<Box<str>>)>;

fn connect(acceptor: &Acceptor, config: &Arc<ClientConfig>) -> Outcome {
    let mut client = Peer::client(config.clone(), "redis.test");
    let mut server = Server::new(acceptor.engine());
    loop {
        let flight = client.output();
        let status = server.open(&flight).status;
        let replies = server.engine.take_replies();
        if let OpenStatus::Failed(failure) = status {
            let Err(Error::AlertReceived(alert)) = client.take(&replies) else { panic!("no alert") };
            return Err((failure, alert, server.engine.client_identity()));
        }
        if flight.is_empty() && replies.is_empty() {
            let summary = server.engine.summary().unwrap();
            return Ok((summary.resumed, server.engine.client_identity()));
        }
        client.take(&replies).unwrap();
    }
}

fn known(resumed: bool) -> Outcome {
    Ok((resumed, Some("worker".into())))
}

#[test]
fn a_client_shows_a_certificate_where_it_must_or_may() {
    let pki = Pki::new();
    let shown = made(&pki.authority, &worker());
    let required = pki.acceptor(Some(&pki.required()));
    let optional = pki.acceptor(Some(&ClientAuth { required: false, ..pki.required() }));
    let stranger = made(&Authority::new("Clients"), &worker());
    for version in [&TLS13, &TLS12] {
        let (with, without) = (pki.client(version, Some(&shown)), pki.client(version, None));
        assert_eq!(connect(&required, &with), known(false));
        assert_eq!(connect(&optional, &with), known(false));
        assert_eq!(connect(&pki.acceptor(None), &with), Ok((false, None)));
        assert_eq!(connect(&optional, &without), Ok((false, None)));
        let missing = (Failure::ClientCertificateMissing, AlertDescription::CertificateRequired, None);
        assert_eq!(connect(&required, &without), Err(missing));
        // Where it may show one, what it shows must be good.
        let forged = (Failure::ClientSignatureBad, AlertDescription::DecryptError, None);
        assert_eq!(connect(&optional, &pki.client(version, Some(&stranger))), Err(forged));
    }
}

#[test]
fn a_certificate_that_is_no_good_is_told_why() {
    let pki = Pki::new();
    let mut old = worker();
    old.not_after = rcgen::date_time_ymd(2025, 6, 10);
    let mut young = worker();
    young.not_before = rcgen::date_time_ymd(2025, 6, 12);
    let mut server_only = worker();
    server_only.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let other = pki.folder.write("other.crl", Authority::new("Other").revoke(&[], 2100).pem().unwrap());
    let uncovered = ClientAuth { revocation_lists: vec![other], ..pki.required() };
    let nobody = pki.with_rules(ClientRules { common_names: vec!["boss".into()], ..ClientRules::default() });
    let good = || made(&pki.authority, &worker());
    let auth = pki.required();
    for (shown, auth, failure, alert) in [
        (made(&pki.authority, &old), &auth, Failure::ClientCertificateExpired, AlertDescription::CertificateExpired),
        (
            made(&pki.authority, &young),
            &auth,
            Failure::ClientCertificateNotYetValid,
            AlertDescription::CertificateExpired,
        ),
        (made(&pki.servers, &worker()), &auth, Failure::ClientCertificateUntrusted, AlertDescription::UnknownCA),
        (
            made(&pki.authority, &server_only),
            &auth,
            Failure::ClientCertificateBad,
            AlertDescription::UnsupportedCertificate,
        ),
        (good(), &pki.with_list(&[7], 2100), Failure::ClientCertificateRevoked, AlertDescription::CertificateRevoked),
        (good(), &uncovered, Failure::ClientCertificateUncovered, AlertDescription::UnknownCA),
        (good(), &nobody, Failure::ClientNotAllowed, AlertDescription::AccessDenied),
    ] {
        for version in [&TLS13, &TLS12] {
            let who = (failure == Failure::ClientNotAllowed).then(|| "worker".into());
            let config = pki.client(version, Some(&shown));
            assert_eq!(connect(&pki.acceptor(Some(auth)), &config), Err((failure, alert, who)));
        }
    }
    // A list of the right authority that is out of date.
    let config = pki.client(&TLS13, Some(&good()));
    let outcome = connect(&pki.acceptor(Some(&pki.with_list(&[], 2025))), &config);
    assert_eq!(outcome, Err((Failure::ClientCrlExpired, AlertDescription::UnknownCA, None)));
    assert_eq!(connect(&pki.acceptor(Some(&pki.with_list(&[8], 2100))), &config), known(false));
}

#[test]
fn revocation_lists_cover_what_the_operator_demands() {
    let pki = Pki::new();
    let middle = pki.authority.intermediate("Middle");
    let (certificate, key) = made(&middle, &worker());
    let builder = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into());
    let config = builder
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots(pki.servers.certificate.der()))
        .with_client_auth_cert(
            vec![certificate.der().clone(), middle.certificate.der().clone()],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    let config = Arc::new(config);
    let of_leaf = pki.folder.write("leaf.crl", middle.revoke(&[8], 2100).der());
    let of_middle = pki.folder.write("middle.crl", pki.authority.revoke(&[8], 2100).pem().unwrap());
    let uncovered = || Err((Failure::ClientCertificateUncovered, AlertDescription::UnknownCA, None));
    for (lists, coverage, outcome) in [
        (vec![of_leaf.clone()], Coverage::Chain, uncovered()),
        (vec![of_leaf.clone()], Coverage::Leaf, known(false)),
        (vec![of_middle.clone()], Coverage::Leaf, uncovered()),
        (vec![of_middle.clone()], Coverage::Available, known(false)),
        (vec![of_leaf, of_middle], Coverage::Chain, known(false)),
    ] {
        let auth = ClientAuth { revocation_lists: lists, coverage, ..pki.required() };
        assert_eq!(connect(&pki.acceptor(Some(&auth)), &config), outcome, "{coverage:?}");
    }
}

#[test]
fn one_rule_that_matches_lets_a_client_in() {
    let pki = Pki::new();
    let mut params = worker();
    params.subject_alt_names.push(SanType::URI(Ia5String::try_from("spiffe://a.test/worker/7").unwrap()));
    let shown = made(&pki.authority, &params);
    let spki = sha256(&shown.1.subject_public_key_info());
    let config = pki.client(&TLS13, Some(&shown));
    let none = ClientRules::default;
    let boss = || vec!["boss".into()];
    for (rules, allowed) in [
        (ClientRules { common_names: vec!["boss".into(), "worker".into()], ..none() }, true),
        (ClientRules { common_names: vec!["Worker".into()], ..none() }, false),
        (ClientRules { dns_names: vec!["*.test".into()], ..none() }, true),
        // A common name is no DNS name.
        (ClientRules { dns_names: vec!["worker".into()], ..none() }, false),
        (ClientRules { uris: vec!["spiffe://a.test/worker/*".into()], ..none() }, true),
        (ClientRules { uris: vec!["spiffe://b.test/**".into()], ..none() }, false),
        (ClientRules { keys: vec![spki], common_names: boss(), ..none() }, true),
        (ClientRules { keys: vec![[0; 32]], ..none() }, false),
    ] {
        // A URI says more than a common name.
        let who = Some("spiffe://a.test/worker/7".into());
        let outcome = connect(&pki.acceptor(Some(&pki.with_rules(rules.clone()))), &config);
        if allowed {
            assert_eq!(outcome, Ok((false, who)), "{rules:?}");
        } else {
            assert_eq!(outcome, Err((Failure::ClientNotAllowed, AlertDescription::AccessDenied, who)), "{rules:?}");
        }
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().unwrap()
}

#[test]
fn a_name_with_a_nul_byte_matches_no_rule() {
    let pki = Pki::new();
    for forged in ["worker\0", "worker\0.evil.test", "\0worker"] {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, DnValue::Utf8String(forged.to_owned()));
        let name = Ia5String::try_from(forged).unwrap();
        params.subject_alt_names = vec![SanType::DnsName(name.clone()), SanType::URI(name)];
        let config = pki.client(&TLS13, Some(&made(&pki.authority, &params)));
        for rule in ["worker", forged] {
            let rules = ClientRules {
                common_names: vec![rule.into()],
                dns_names: vec![rule.into()],
                uris: vec![rule.into()],
                keys: Vec::new(),
            };
            let outcome = connect(&pki.acceptor(Some(&pki.with_rules(rules))), &config);
            assert!(
                matches!(outcome, Err((Failure::ClientNotAllowed, AlertDescription::AccessDenied, _))),
                "{outcome:?}"
            );
        }
    }
}

#[test]
fn a_ticket_of_a_listener_without_client_certificates_is_worth_nothing_where_they_are_required() {
    let pki = Pki::new();
    let shown = made(&pki.authority, &worker());
    let (none, required) = (pki.acceptor(None), pki.acceptor(Some(&pki.required())));
    for version in [&TLS13, &TLS12] {
        let (with, without) = (pki.client(version, Some(&shown)), pki.client(version, None));
        assert_eq!(connect(&none, &without), Ok((false, None)));
        assert_eq!(connect(&none, &without), Ok((true, None)));
        let missing = (Failure::ClientCertificateMissing, AlertDescription::CertificateRequired, None);
        assert_eq!(connect(&required, &without), Err(missing));
        assert_eq!(connect(&none, &with), Ok((false, None)));
        assert_eq!(connect(&required, &with), known(false));
        // Its own tickets resume, and the client is still known.
        assert_eq!(connect(&required, &with), known(true));
    }
}

#[test]
fn a_client_revoked_after_its_ticket_does_not_get_in() {
    let pki = Pki::new();
    let shown = made(&pki.authority, &worker());
    for version in [&TLS13, &TLS12] {
        let config = pki.client(version, Some(&shown));
        let before = pki.acceptor(Some(&pki.with_list(&[8], 2100)));
        assert_eq!(connect(&before, &config), known(false));
        assert_eq!(connect(&before, &config), known(true));
        let after = pki.acceptor(Some(&pki.with_list(&[7, 8], 2100)));
        let revoked = (Failure::ClientCertificateRevoked, AlertDescription::CertificateRevoked, None);
        assert_eq!(connect(&after, &config), Err(revoked));
    }
}

#[test]
fn any_change_in_how_clients_are_judged_makes_tickets_fall_back() {
    let pki = Pki::new();
    let config = pki.client(&TLS13, Some(&made(&pki.authority, &worker())));
    let base = pki.with_list(&[], 2100);
    let two = pki.authority.certificate.pem() + &pki.servers.certificate.pem();
    let more = pki.folder.write("more.pem", two);
    let rules = |name: &str| ClientRules { common_names: vec![name.into()], ..ClientRules::default() };
    let changed: Vec<ClientAuth> = vec![
        ClientAuth { required: false, ..base.clone() },
        ClientAuth { authorities: more, ..base.clone() },
        ClientAuth { revocation_lists: Vec::<PathBuf>::new(), ..base.clone() },
        ClientAuth { coverage: Coverage::Available, ..base.clone() },
        ClientAuth { rules: rules("worker"), ..base.clone() },
        ClientAuth { rules: ClientRules { dns_names: vec!["worker.test".into()], ..rules("worker") }, ..base.clone() },
    ];
    for changed in changed {
        let _ = connect(&pki.acceptor(Some(&base)), &config);
        assert_eq!(connect(&pki.acceptor(Some(&base)), &config), known(true));
        assert_eq!(connect(&pki.acceptor(Some(&changed)), &config), known(false), "{changed:?}");
        assert_eq!(connect(&pki.acceptor(Some(&changed)), &config), known(true), "{changed:?}");
    }
}

#[test]
fn an_expired_client_certificate_never_resumes() {
    let pki = Pki::new();
    let mut params = worker();
    // Its last second is the first of that day.
    params.not_after = rcgen::date_time_ymd(2025, 6, 12);
    let end = JUNE_11 + 86_400;
    let shown = made(&pki.authority, &params);
    let acceptor = pki.acceptor(Some(&pki.required()));
    for version in [&TLS13, &TLS12] {
        let config = pki.client(version, Some(&shown));
        NOW.set(end - 7_000);
        assert_eq!(connect(&acceptor, &config), known(false));
        NOW.set(end);
        // The ticket that a resumed session gets knows it, too.
        assert_eq!(connect(&acceptor, &config), known(true));
        assert_eq!(connect(&acceptor, &config), known(true));
        NOW.set(end + 1);
        let expired = (Failure::ClientCertificateExpired, AlertDescription::CertificateExpired, None);
        assert_eq!(connect(&acceptor, &config), Err(expired));
    }
}

#[test]
fn handshakes_that_overlap_keep_the_ends_of_their_certificates_apart() {
    let pki = Pki::new();
    let mut short = worker();
    short.not_after = rcgen::date_time_ymd(2025, 6, 12);
    let end = JUNE_11 + 86_400;
    NOW.set(end - 7_000);
    let acceptor = pki.acceptor(Some(&ClientAuth { required: false, ..pki.required() }));
    let configs = [pki.client(&TLS12, Some(&made(&pki.authority, &short))), pki.client(&TLS12, None)];
    let mut pairs = configs.clone().map(|config| (Peer::client(config, "redis.test"), Server::new(acceptor.engine())));
    // Record by record, in turns: the certificate of one is verified while the other is in the middle.
    for _ in 0..3 {
        let flights = pairs.each_mut().map(|(client, _)| client.output());
        let mut flights = flights.each_ref().map(|flight| crate::support::records(flight));
        loop {
            let mut moved = false;
            for (flight, (_, server)) in flights.iter_mut().zip(&mut pairs) {
                if let Some(record) = flight.next() {
                    assert_eq!(server.open(record).status, OpenStatus::Drained);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        for (client, server) in &mut pairs {
            client.take(&server.engine.take_replies()).unwrap();
        }
    }
    NOW.set(end + 1);
    assert!(connect(&acceptor, &configs[0]).is_err());
    assert_eq!(connect(&acceptor, &configs[1]), Ok((true, None)));
}

#[test]
fn files_about_clients_that_cannot_be_used_are_named() {
    let pki = Pki::new();
    let at = pki.folder.path("").display().to_string();
    let error = |auth: &ClientAuth| Clients::load(auth).unwrap_err().to_string().replace(&at, "/etc/");
    let authorities = |path: PathBuf| ClientAuth { authorities: path, ..pki.required() };
    let lists = |path: PathBuf| ClientAuth { revocation_lists: vec![path], ..pki.required() };
    let key = pki.folder.path("server.key");
    assert_eq!(
        error(&authorities(pki.folder.path("missing"))),
        "client_ca /etc/missing: cannot be read: No such file or directory (os error 2); it must be a file that \
         ringwall's user may read"
    );
    assert_eq!(
        error(&authorities(key.clone())),
        "client_ca /etc/server.key: holds no certificate; it must hold those of the authorities, in PEM"
    );
    assert_eq!(
        error(&lists(key)),
        "client_crl /etc/server.key: holds no revocation list; it must hold one, in PEM or DER"
    );
    let damaged = pki.folder.write("damaged.crl", [0x30, 0x82, 1, 0, 5]);
    let message = error(&lists(damaged));
    assert!(message.starts_with("client_crl /etc/damaged.crl: the revocation list is damaged ("), "{message}");

    let clients = Clients::load(&pki.with_list(&[], 2025)).unwrap();
    assert_eq!(clients.warnings(1_735_000_000), Vec::<String>::new());
    let warnings: Vec<_> = clients.warnings(JUNE_11).iter().map(|text| text.replace(&at, "/etc/")).collect();
    assert_eq!(
        warnings,
        [
            "client_crl /etc/clients.crl: the revocation list of CN=Clients expired on Jan  1 00:00:00 2025 +00:00; clients \
          whose certificates it covers are refused until there is a newer one"
        ]
    );
}

#[test]
fn a_client_ca_that_is_no_authority_works_and_is_warned_about() {
    let pki = Pki::new();
    let at = pki.folder.path("").display().to_string();
    let (certificate, key) = made(&pki.authority, &worker());
    let both = pki.authority.certificate.pem() + &certificate.pem();
    let auth = ClientAuth { authorities: pki.folder.write("both.pem", both), ..pki.required() };
    let warnings = Clients::load(&auth).unwrap().warnings(JUNE_11);
    assert_eq!(
        warnings.iter().map(|text| text.replace(&at, "/etc/")).collect::<Vec<_>>(),
        ["client_ca /etc/both.pem: certificate number 2 (subject CN=worker) is no authority's, it lacks CA:TRUE; \
             whoever has its key lets clients in all the same"]
    );
    let mut params = worker();
    params.distinguished_name.push(DnType::CommonName, "friend");
    let friend_key = KeyPair::generate().unwrap();
    let friend = params.signed_by(&friend_key, &rcgen::Issuer::new(worker(), key)).unwrap();
    let client = pki.client(&TLS13, Some(&(friend, friend_key)));
    assert_eq!(connect(&pki.acceptor(Some(&auth)), &client), Ok((false, Some("friend".into()))));
    assert_eq!(Clients::load(&pki.required()).unwrap().warnings(JUNE_11), Vec::<String>::new());
}
