//! A cluster of six real nodes, each behind a listener of its own: the recipe of `config/cluster.toml` and
//! `config/cluster-node.conf`, with other ports and folders.

use std::fs;
use std::path::Path;
use std::process::Command;

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

/// Ringwall with its recipe, in front of nodes in `folder`; the kernel chooses its ports.
fn ringwall(folder: &Path) -> Ringwall {
    let mut pieces = vec![("/var/lib/redis-cluster", folder.display().to_string())];
    let ports: Vec<_> = (1..=NODES).map(|number| format!("127.0.0.1:710{number}")).collect();
    pieces.extend(ports.iter().map(|port| (port.as_str(), "127.0.0.1:0".to_owned())));
    let text = adapt(RINGWALL, &pieces);
    Setup::of_text(format!("{text}\n[log]\nformat = \"json\"\n")).start_with("node-1")
}

struct Node {
    process: Process,
    tls_port: u16,
}

impl Node {
    /// Starts node `number` with its recipe.
    fn start(number: usize, folder: &Path, listener_port: u16) -> Self {
        let (tls_port, bus_port) = (free_port(), free_port());
        let own = folder.join(number.to_string());
        fs::create_dir(&own).unwrap();
        let text = adapt(
            NODE,
            &[
                ("/var/lib/redis-cluster/1", own.display().to_string()),
                ("/etc/redis-cluster", folder.display().to_string()),
                ("17001", bus_port.to_string()),
                ("7001", tls_port.to_string()),
                ("7101", listener_port.to_string()),
            ],
        );
        let file = own.join("redis.conf");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program());
        command.arg(file);
        let process = Process::start(command, || {});
        process.line(|line| line.contains("eady to accept connections"));
        Self { process, tls_port }
    }
}

/// Makes a cluster of the nodes, at their own ports.
fn create(nodes: &[Node], folder: &Path) {
    let mut command = Command::new("redis-cli");
    command.arg("--tls");
    for (argument, file) in [("--cacert", "nodes-ca.crt"), ("--cert", "node.crt"), ("--key", "node.key")] {
        command.arg(argument).arg(folder.join(file));
    }
    command.args(["--cluster", "create"]).args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.tls_port)));
    command.args(["--cluster-replicas", "1", "--cluster-yes"]);
    let (success, output) = run(command, b"");
    assert!(success && output.contains("All 16384 slots covered"), "{output}");
    for node in nodes {
        node.process.line(|line| line.contains("Cluster state changed: ok"));
    }
}

#[test]
fn redis_py_meets_only_ringwall_while_a_cluster_moves_slots_and_changes_primaries() {
    // The nodes have an authority of their own, which clients do not trust.
    let certificates = Certificates::new();
    certificates.certify("node", |_| {});
    let folder = certificates.folder();
    fs::copy(certificates.ca_file(), folder.join("nodes-ca.crt")).unwrap();
    let ringwall = ringwall(folder);
    let listeners: Vec<_> = (1..=NODES).map(|number| ringwall.port_of(&format!("node-{number}"))).collect();
    let nodes: Vec<_> =
        (1..).zip(&listeners).map(|(number, &listener)| Node::start(number, folder, listener)).collect();
    create(&nodes, folder);
    for node in &nodes[NODES / 2..] {
        node.process.line(|line| line.contains("MASTER <-> REPLICA sync: Finished with success"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(root.join("target/clients/python/bin/python"));
    command.arg("-B").arg(root.join("tests/clients/redis_cluster.py")).arg(ringwall.ca_file()).arg(folder);
    command.args(listeners.iter().zip(&nodes).map(|(listener, node)| format!("{listener}:{}", node.tls_port)));
    let (success, output) = run(command, b"");
    assert!(success && output.trim_end().ends_with("all well"), "(see tests/run.sh):\n{output}");
    // The first three were primaries, and two others are.
    let lines = ringwall.process.lines();
    let served = |number: &usize| {
        let listener = format!("\"listener\":\"node-{number}\"");
        lines.iter().any(|line| line.contains(&listener) && line.contains("\"reason\":\"client_"))
    };
    let served: Vec<_> = (1..=NODES).filter(served).collect();
    assert!(served.len() >= 5 && served[..3] == [1, 2, 3], "{served:?}");
}
