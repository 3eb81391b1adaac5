//! Configurations that are allowed and probably not meant: each is told in one line that ends with what to do.

mod config_support;
use config_support::{MINIMAL, machine, parse_on};

/// The warnings about the minimal file with more keys of its listener and its backend, and more sections.
fn warnings(listener: &str, backend: &str, sections: &str) -> Vec<String> {
    let (front, back) = MINIMAL.split_once("[[backend]]").expect("it has one");
    let text = format!("{front}{listener}\n[[backend]]{back}{backend}\n{sections}");
    let config = parse_on(&machine(), &text).unwrap_or_else(|error| panic!("{text}: {error}"));
    config.warnings.iter().map(|warning| warning.replace("/etc/ringwall.toml:", "")).collect()
}

/// The warnings about a backend of these servers, with more keys.
fn about_servers(servers: &str, keys: &str) -> Vec<String> {
    let text = MINIMAL.replace("[\"127.0.0.1:6379\"]", servers) + keys;
    let config = parse_on(&machine(), &text).unwrap_or_else(|error| panic!("{text}: {error}"));
    config.warnings.iter().map(|warning| warning.replace("/etc/ringwall.toml:8: backend.", "")).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn a_listener_that_lets_nobody_in() {
    let remedy = "lets nobody in: clients of 127.0.0.1:6380 have addresses of IPv4, and none of those may connect; allow \
                  some of them, or leave the listener out";
    let deny = |networks: &str| warnings(&format!("deny = [{networks}]"), "", "");
    assert_eq!(deny("\"0.0.0.0/0\""), [format!("6: listener.deny: [\"0.0.0.0/0\"] {remedy}")]);
    assert_eq!(
        deny("\"0.0.0.0/1\", \"128.0.0.0/1\""),
        [format!("6: listener.deny: [\"0.0.0.0/1\", \"128.0.0.0/1\"] {remedy}")]
    );
    assert_eq!(deny("\"::/0\""), NONE);
    assert_eq!(deny("\"128.0.0.0/1\""), NONE);
    let of_the_other_family = warnings("allow = [\"2001:db8::/32\"]", "", "");
    assert_eq!(of_the_other_family, [format!("6: listener.allow: [\"2001:db8::/32\"] {remedy}")]);
    let elsewhere = MINIMAL.replace("127.0.0.1:6380", "192.0.2.1:6380");
    let text = elsewhere
        .replace("backend = \"valkey\"", "backend = \"valkey\"\nallow = [\"10.0.0.0/8\"]\ndeny = [\"10.1.0.0/16\"]");
    assert_eq!(parse_on(&machine(), &text).unwrap().warnings, NONE);
}

#[test]
fn a_listener_on_loopback_that_lets_loopback_not_in() {
    let remedy = "lets nobody in: clients of 127.0.0.1:6380 are of this host and come from loopback, 127.0.0.0/8, of which \
                  none may connect; allow that, or bind the listener to an address that other hosts reach";
    assert_eq!(warnings("allow = [\"10.0.0.0/8\"]", "", ""), [format!("6: listener.allow: [\"10.0.0.0/8\"] {remedy}")]);
    assert_eq!(warnings("deny = [\"127.0.0.0/8\"]", "", ""), [format!("6: listener.deny: [\"127.0.0.0/8\"] {remedy}")]);
    for let_in in ["allow = [\"127.0.0.1\"]", "allow = [\"0.0.0.0/0\"]", "deny = [\"127.0.0.0/9\"]"] {
        assert_eq!(warnings(let_in, "", ""), NONE, "{let_in}");
    }
    let of_ipv6 = MINIMAL.replace("127.0.0.1:6380\"", "[::1]:6380\"\nallow = [\"2001:db8::/32\"]");
    let [warning] = &parse_on(&machine(), &of_ipv6).unwrap().warnings[..] else { panic!("one is expected") };
    assert!(warning.contains("come from loopback, ::1/128, of which"), "{warning}");
    assert_eq!(parse_on(&machine(), &of_ipv6.replace("2001:db8::/32", "::1")).unwrap().warnings, NONE);
}

#[test]
fn a_port_that_nobody_knows_before_the_start() {
    let text = MINIMAL.replace("127.0.0.1:6380", "127.0.0.1:0");
    let config = parse_on(&machine(), &text).unwrap();
    assert_eq!(config.warnings, NONE, "a program that starts logs the port");
    assert_eq!(
        config.warnings_for_check(),
        [
            "/etc/ringwall.toml:2: listener.bind: \"127.0.0.1:0\" has port 0: the kernel chooses another port at each start, \
             which the log and `ringwall ctl status` tell; write the port that clients connect to, such as 6380"
        ]
    );
}

#[test]
fn a_server_that_is_everywhere() {
    let remedy = |own: &str| {
        format!(
            "is where a server listens and not where it is: to connect there is to connect to this machine; write {own}, or \
             the server's own address"
        )
    };
    for (address, own) in [("0.0.0.0:1", "127.0.0.1"), ("[::]:1", "[::1]"), ("[::ffff:0.0.0.0]:1", "127.0.0.1")] {
        let expected = format!("servers.address: \"{address}\" {}", remedy(own));
        assert_eq!(about_servers(&format!("[\"{address}\"]"), ""), [expected]);
    }
}

#[test]
fn shared_connections_of_which_a_server_does_not_take_as_many() {
    let servers = |max: u32| format!("[\"10.0.0.1:1\", {{ address = \"10.0.0.2:1\", max_connections = {max} }}]");
    let about = |keys: &str, shards: u32, max: u32| {
        let text = MINIMAL.replace("[\"127.0.0.1:6379\"]", &servers(max));
        let text = text.replace("backend = \"valkey\"", &format!("backend = \"valkey\"\n{keys}"));
        parse_on(&machine(), &format!("{text}[runtime]\nshards = {shards}\n")).unwrap().warnings
    };
    let expected = |what: &str, all: u32, max: u32| {
        format!(
            "/etc/ringwall.toml:{what} has 4 shards open up to {all} connections to 10.0.0.2:1 for the clients of each user, \
             which may have {max} (max_connections): clients of shards that come late get an error; give the server more \
             max_connections, at least {all}, or write fewer connections_per_shard or runtime.shards"
        )
    };
    let two = "mode = \"multiplex\"\nconnections_per_shard = 2";
    assert_eq!(about(two, 4, 7), [expected("5: listener.connections_per_shard: 2", 8, 7)]);
    assert_eq!(about(two, 4, 8), NONE);
    assert_eq!(about(two, 1, 2), NONE);
    assert_eq!(about("mode = \"multiplex\"", 4, 3), [expected("4: listener.mode: \"multiplex\"", 4, 3)]);
    assert_eq!(about("", 4, 3), NONE);
}

#[test]
fn a_socket_of_a_server_that_is_not_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (socket, file) = (folder.path().join("there"), folder.path().join("file"));
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    std::fs::write(&file, "").expect("a file");
    let absent = |path: &std::path::Path| {
        let text =
            MINIMAL.replace("[\"127.0.0.1:6379\"]", &format!("[\"127.0.0.1:6379\", \"unix:{}\"]", path.display()));
        let config = parse_on(&machine(), &text).expect("it is valid");
        assert_eq!(config.warnings, NONE);
        config.warnings_for_check()
    };
    assert_eq!(absent(&socket), NONE);
    assert_eq!(
        absent(std::path::Path::new("/nowhere/server.sock")),
        [
            "/etc/ringwall.toml:8: backend.servers.address: \"unix:/nowhere/server.sock\" cannot be reached at the moment: No \
             such file or directory (os error 2); start the server, or write the path that it has in its unixsocket"
        ]
    );
    let [warning] = &absent(&file)[..] else { panic!("one is expected") };
    assert!(
        warning.ends_with("is there and no socket; write the path that the server has in its unixsocket"),
        "{warning}"
    );
}

#[test]
fn a_rate_that_another_one_keeps_from_being_reached() {
    for (source, kind) in [("", ""), ("_per_source", "_per_source")] {
        let rates = |handshakes: u32| {
            warnings(&format!("handshake_rate{source} = {handshakes}\nconnection_rate{kind} = 100"), "", "")
        };
        for handshakes in [99, 100] {
            let expected = format!(
                "6: listener.handshake_rate{source}: {handshakes} is not above connection_rate{kind}, 100, which is never \
                 reached then: clients are closed without a word, and none is told; write a higher one, or leave one of \
                 the two out"
            );
            assert_eq!(rates(handshakes), [expected]);
        }
        assert_eq!(rates(101), NONE);
    }
    for kind in ["connection_rate", "handshake_rate"] {
        let expected = format!(
            "7: listener.{kind}_per_source: 100 is not below {kind}, 100, so that one source may take all of that; write a \
             lower one, or leave it out"
        );
        assert_eq!(warnings(&format!("{kind} = 100\n{kind}_per_source = 100"), "", ""), [expected]);
        assert_eq!(warnings(&format!("{kind} = 100\n{kind}_per_source = 99"), "", ""), NONE);
    }
}

#[test]
fn a_server_that_is_listed_twice() {
    let remedy = "where another one of them leads, too: that server is counted, checked and chosen as two; for a larger \
                  share write its weight";
    assert_eq!(
        about_servers("[\"10.0.0.1:1\", \"unix:/s\", { address = \"10.0.0.1:1\" }, \"10.0.0.1:2\"]", ""),
        [format!("servers.address: \"10.0.0.1:1\" leads to 10.0.0.1:1, {remedy}")]
    );
    // By its name and by its address.
    assert_eq!(
        about_servers("[\"10.0.0.2:1\", \"pair.example:1\"]", ""),
        [format!("servers.address: \"pair.example:1\" leads to 10.0.0.2:1, {remedy}")]
    );
    assert_eq!(about_servers("[\"pair.example:1\", \"pair.example:2\"]", ""), NONE);
    // In the form of either family.
    assert_eq!(
        about_servers("[\"10.0.0.1:1\", \"[::ffff:10.0.0.1]:1\"]", ""),
        [format!("servers.address: \"[::ffff:10.0.0.1]:1\" leads to 10.0.0.1:1, {remedy}")]
    );
}

#[test]
fn backups_of_nobody() {
    assert_eq!(
        about_servers("[{ address = \"10.0.0.1:1\", backup = true }, { address = \"10.0.0.2:1\", backup = true }]", ""),
        [
            "servers.backup: true is said of every server, so that none has another one to stand in for; leave it out where \
          it is not meant"
        ]
    );
    assert_eq!(about_servers("[{ address = \"10.0.0.1:1\", backup = true }, \"10.0.0.2:1\"]", ""), NONE);
}

#[test]
fn a_weight_where_none_counts() {
    let servers = "[{ address = \"10.0.0.1:1\", weight = 10 }, \"10.0.0.2:1\"]";
    assert_eq!(
        about_servers(servers, "balance = \"first\""),
        [
            "servers.weight: 10 is of no use with balance = \"first\", which fills one server after the other; write another \
          balance, or leave it out"
        ]
    );
    assert_eq!(about_servers(servers, "balance = \"leastconn\""), NONE);
    assert_eq!(about_servers("[{ address = \"10.0.0.1:1\", weight = 1 }]", "balance = \"first\""), NONE);
}

#[test]
fn a_queue_in_which_nobody_waits() {
    let expected = |line: u32, key: &str| {
        format!(
            "{line}: backend.{key} is of no use: no server has max_connections, so that no client waits for one; give them \
             some, or leave it out"
        )
    };
    let keys = "max_queue = 7\nqueue_timeout = \"1s\"";
    let both = [expected(10, "max_queue: 7"), expected(11, "queue_timeout: \"1s\"")];
    assert_eq!(warnings("", keys, ""), both);
    // What holds anyway.
    assert_eq!(warnings("", "max_queue = 1024\nqueue_timeout = \"5000ms\"", ""), NONE);
    assert_eq!(about_servers("[{ address = \"10.0.0.1:1\", max_connections = 9 }, \"10.0.0.2:1\"]", keys), NONE);
}

#[test]
fn checks_that_take_longer_than_their_interval() {
    let check = |keys: &str| warnings("", &format!("health_check = {{ type = \"ping\", {keys} }}"), "");
    assert_eq!(
        check("timeout = \"3s\""),
        [
            "10: backend.health_check.timeout: \"3s\" is longer than interval, 2s: while a server hangs, it is checked once in \
          this time and not in that; write an interval that is at least as long"
        ]
    );
    assert_eq!(check("timeout = \"3s\", interval = \"3s\""), NONE);
}

#[test]
fn shards_that_share_cores() {
    let runtime = |keys: &str| warnings("", "", &format!("[runtime]\n{keys}"));
    let expected = |shards: u32, cores: u32| {
        format!(
            "12: runtime.shards: {shards} is more than the {cores} cores that shards may have, so that they share; write at \
             most {cores}"
        )
    };
    assert_eq!(runtime("shards = 5"), [expected(5, 4)]);
    assert_eq!(runtime("shards = 4\ndispatcher_core = 0"), [expected(4, 3)]);
    assert_eq!(runtime("shards = 4"), NONE);
}

#[test]
fn a_backend_that_no_listener_uses() {
    let spare = "[[backend]]\nname = \"spare\"\nservers = [\"unix:/s\"]";
    assert_eq!(warnings("", "", spare), ["11: backend: \"spare\" is used by no listener; leave it out"]);
}
