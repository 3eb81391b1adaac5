//! A cluster of six real nodes, each behind a listener of its own: the recipe of `config/cluster.toml` and
//! `config/cluster-node.conf`, with other ports and folders.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::SanType;

use crate::certificates::Certificates;
use crate::process::{Process, run};
use crate::ringwall::{Ringwall, Setup};
use crate::server::{free_port, program};

const RINGWALL: &str = include_str!("../../config/cluster.toml");
const NODE: &str = include_str!("../../config/cluster-node.conf");

/// Nodes of the cluster, half of them replicas.
const NODES: usize = 6;

/// The text with another piece in the place of each that the recipe has.
fn adapt(text: &str, pieces: &[(&str, String)]) -> String {
    pieces.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the recipe lacks {from}");
        text.replace(from, to)
    })
}

/// Where the nodes are, seen from ringwall.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    SameHost,
    /// As much as one machine can be another: at another address.
    OtherHost,
}

impl Place {
    const fn host(self) -> &'static str {
        match self {
            Self::SameHost => "127.0.0.1",
            Self::OtherHost => "127.0.0.2",
        }
    }

    /// Ringwall with its recipe, in front of nodes in `folder` at these ports.
    fn ringwall(self, folder: &Path, tls_ports: &[u16]) -> Ringwall {
        let mut text = RINGWALL.to_owned();
        for (number, tls_port) in (1..).zip(tls_ports) {
            // The kernel chooses the port where it need not be the node's own.
            let listener_port = if self == Self::SameHost { 0 } else { *tls_port };
            let bind = format!("127.0.0.1:710{number}");
            let socket = format!("[\"unix:/var/lib/redis-cluster/{number}/redis.sock\"]");
            let own = folder.display();
            let servers = match self {
                Self::SameHost => format!("[\"unix:{own}/{number}/redis.sock\"]"),
                Self::OtherHost => format!(
                    "[\"127.0.0.2:{tls_port}\"]\ntls = {{ ca = \"{own}/nodes-ca.crt\", certificate = \"{own}/node.crt\", \
                     private_key = \"{own}/node.key\" }}"
                ),
            };
            text = adapt(&text, &[(&bind, format!("127.0.0.1:{listener_port}")), (&socket, servers)]);
        }
        Setup::of_text(format!("{text}\n[log]\nformat = \"json\"\n")).start_with("node-1")
    }
}

struct Node {
    process: Process,
    address: String,
}

impl Node {
    /// Starts node `number` with its recipe.
    fn start(number: usize, folder: &Path, place: Place, tls_port: u16, listener_port: u16) -> Self {
        let own = folder.join(number.to_string());
        fs::create_dir(&own).unwrap();
        let (host, announced) = match place {
            Place::SameHost => (place.host(), format!("cluster-announce-port {listener_port}")),
            Place::OtherHost => (place.host(), String::new()),
        };
        let text = adapt(
            NODE,
            &[
                ("/var/lib/redis-cluster/1", own.display().to_string()),
                ("/etc/redis-cluster", folder.display().to_string()),
                ("17001", free_port().to_string()),
                ("7001", tls_port.to_string()),
                ("127.0.0.1", host.to_owned()),
                ("cluster-announce-port 7101", announced),
                // By this name redis-py 6.4 would not find a node to which it is sent with ASK.
                ("cluster-announce-hostname localhost", "cluster-announce-hostname 127.0.0.1".to_owned()),
            ],
        );
        let file = own.join("redis.conf");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program());
        command.arg(file);
        let process = Process::start(command, || {});
        process.line(|line| line.contains("eady to accept connections"));
        Self { process, address: format!("{host}:{tls_port}") }
    }
}

/// Makes a cluster of the nodes, at their own ports.
fn create(nodes: &[Node], folder: &Path) {
    let mut command = Command::new("redis-cli");
    command.arg("--tls");
    for (argument, file) in [("--cacert", "nodes-ca.crt"), ("--cert", "node.crt"), ("--key", "node.key")] {
        command.arg(argument).arg(folder.join(file));
    }
    command.args(["--cluster", "create"]).args(nodes.iter().map(|node| &node.address));
    command.args(["--cluster-replicas", "1", "--cluster-yes"]);
    let (success, output) = run(command, b"");
    assert!(success && output.contains("All 16384 slots covered"), "{output}");
    for node in nodes {
        node.process.line(|line| line.contains("Cluster state changed: ok"));
    }
}

#[test]
fn redis_py_meets_only_ringwall_while_a_cluster_moves_slots_and_changes_primaries() {
    play(Place::SameHost);
}

#[test]
fn nodes_on_other_hosts_are_reached_over_tls_and_their_clients_meet_only_ringwall() {
    play(Place::OtherHost);
}

fn play(place: Place) {
    // The nodes have an authority of their own, which clients do not trust, and ask for certificates, which clients
    // lack: whoever is led past ringwall gets nowhere.
    let certificates = Certificates::new();
    certificates.certify("node", |node| node.subject_alt_names.push(SanType::IpAddress(place.host().parse().unwrap())));
    let folder = certificates.folder();
    fs::copy(certificates.ca_file(), folder.join("nodes-ca.crt")).unwrap();
    let tls_ports: Vec<_> = (0..NODES).map(|_| free_port()).collect();
    let ringwall = place.ringwall(folder, &tls_ports);
    let listeners: Vec<_> = (1..=NODES).map(|number| ringwall.port_of(&format!("node-{number}"))).collect();
    let nodes = (1..).zip(tls_ports.iter().zip(&listeners));
    let nodes: Vec<_> =
        nodes.map(|(number, (&own, &listener))| Node::start(number, folder, place, own, listener)).collect();
    create(&nodes, folder);
    for node in &nodes[NODES / 2..] {
        node.process.line(|line| line.contains("MASTER <-> REPLICA sync: Finished with success"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(root.join("target/clients/python/bin/python"));
    command.arg("-B").arg(root.join("tests/clients/redis_cluster.py")).arg(ringwall.ca_file()).arg(folder);
    command.args(listeners.iter().zip(&nodes).map(|(listener, node)| format!("{listener}={}", node.address)));
    let (success, output) = run(command, b"");
    let heirs = output.lines().find_map(|line| line.strip_prefix("all well, with the heirs "));
    let heirs = heirs.filter(|_| success).unwrap_or_else(|| panic!("(see tests/run.sh):\n{output}"));
    // The first three were primaries, and these two are.
    for number in ["1", "2", "3"].into_iter().chain(heirs.split(' ')) {
        let listener = format!("\"listener\":\"node-{number}\"");
        let has_served = |line: &str| line.contains("session closed") && !line.contains("\"server_tx_bytes\":0,");
        ringwall.process.line(|line| line.contains(&listener) && has_served(line));
    }
    assert_eq!(heirs.split(' ').count(), 2);
}
