//! The programs, each with TLS 1.3 and AES-128-GCM where it speaks TLS, TCP_NODELAY, and time-outs out of the way.

use std::process::Command;

use crate::forwarders::Forwarder;
use crate::peer::{Program, Role, Site, Spoken};

/// All there are, with one worker each; those that are not installed are left out when they are started.
pub(crate) fn all() -> Vec<Program> {
    let mut all = vec![ours()];
    all.extend(peers());
    all.extend(floors());
    all.extend([direct("server without TLS", Spoken::Plain), direct("server's own TLS", Spoken::Tls)]);
    all
}

/// ringwall.
pub(crate) fn ours() -> Program {
    program("ringwall", Role::Ours, || echo(concat!("ringwall ", env!("CARGO_PKG_VERSION"))), ringwall)
}

/// ringwall with so many shards.
pub(crate) fn ours_with(shards: usize) -> Program {
    let name = format!("ringwall, {shards} shard{}", if shards == 1 { "" } else { "s" });
    Program { name, workers: shards, ..ours() }
}

/// What a skewed load is placed by: ringwall; HAProxy, whose threads take connections from one socket by their counts of
/// them; and nginx, whose processes have a socket each, between which the kernel chooses by a hash.
pub(crate) fn placing(workers: usize) -> Vec<Program> {
    let haproxy = program("HAProxy, counts", Role::Peer, || asked("haproxy", "-v"), haproxy);
    let nginx = program("nginx, SO_REUSEPORT", Role::Peer, || asked("nginx", "-v"), nginx);
    [ours(), haproxy, nginx].map(|program| Program { workers, ..program }).into()
}

fn peers() -> [Program; 6] {
    let peer = |name, version, command| program(name, Role::Peer, version, command);
    [
        peer("HAProxy", || asked("haproxy", "-v"), haproxy),
        peer("nginx", || asked("nginx", "-v"), nginx),
        peer("hitch", || asked("hitch", "--version"), hitch),
        peer("stunnel", || asked("stunnel4", "-version"), stunnel),
        peer("Envoy", || asked("envoy", "--version"), envoy),
        peer(
            "tokio copy",
            || echo("tokio 1, tokio-rustls 0.26, copy_bidirectional with 16 KiB"),
            |site| forwarder(Forwarder::TokioCopy, site),
        ),
    ]
}

fn floors() -> [Program; 3] {
    let floor =
        |name, version, command| Program { spoken: Spoken::Plain, ..program(name, Role::Floor, version, command) };
    let own = || echo("of the suite, version 1");
    [
        floor("epoll forwarder", own, |site| forwarder(Forwarder::Epoll, site)),
        floor("io_uring forwarder", own, |site| forwarder(Forwarder::IoUring, site)),
        floor("HAProxy without TLS", || asked("haproxy", "-v"), haproxy_without_tls),
    ]
}

fn program(name: &str, role: Role, version: fn() -> Command, command: fn(&Site<'_>) -> Command) -> Program {
    let (name, command) = (name.to_owned(), Some(command));
    Program { name, role, spoken: Spoken::Tls, version, command, workers: 1, listener: String::new() }
}

fn direct(name: &str, spoken: Spoken) -> Program {
    // The server tells its version itself.
    let version = || echo("");
    Program { command: None, spoken, ..program(name, Role::Direct, version, ringwall) }
}

fn asked(program: &str, option: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(option);
    command
}

fn echo(version: &str) -> Command {
    asked("echo", version)
}

fn ringwall(site: &Site<'_>) -> Command {
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:{}\"\nbackend = \"server\"\n\
         tls = {{ certificate = \"server.crt\", private_key = \"server.key\" }}\n{}\n\
         [[backend]]\nname = \"server\"\nservers = [\"{}\"]\n\
         [runtime]\nshards = {}\n[log]\nsessions = false\n",
        site.port,
        site.listener,
        site.server_as("127.0.0.1:$", "unix:$"),
        site.workers
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringwall"));
    command.args(["run", "--config", &site.write("ringwall.toml", &text)]);
    command.env_remove("RINGWALL_LOG").env_remove("NOTIFY_SOCKET");
    command
}

fn haproxy(site: &Site<'_>) -> Command {
    let bind = format!(" ssl crt {}/server.pem", site.folder.display());
    haproxy_with(site, &bind)
}

fn haproxy_without_tls(site: &Site<'_>) -> Command {
    haproxy_with(site, "")
}

fn haproxy_with(site: &Site<'_>, bind: &str) -> Command {
    let text = format!(
        "global\n nbthread {}\n maxconn 9500\n ssl-default-bind-options ssl-min-ver TLSv1.3\n \
         ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256\n\
         defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n\
         listen proxy\n bind 127.0.0.1:{}{bind}\n server server {}\n",
        site.workers,
        site.port,
        site.server_as("127.0.0.1:$", "unix@$")
    );
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f", &site.write("haproxy.cfg", &text)]);
    command
}

fn nginx(site: &Site<'_>) -> Command {
    let folder = site.folder.display();
    let text = format!(
        "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\ndaemon off;\nworker_processes {};\nuser root;\n\
         pid {folder}/nginx.pid;\nerror_log stderr;\nevents {{ worker_connections 19000; }}\n\
         stream {{\n server {{\n  listen 127.0.0.1:{} ssl backlog=4096{};\n  ssl_certificate server.crt;\n  \
         ssl_certificate_key server.key;\n  ssl_protocols TLSv1.3;\n  \
         ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;\n  ssl_session_tickets on;\n  \
         ssl_session_cache shared:proxy:10m;\n  tcp_nodelay on;\n  proxy_timeout 1h;\n  proxy_pass {};\n }}\n}}\n",
        site.workers,
        site.port,
        if site.workers > 1 { " reuseport" } else { "" },
        site.server_as("127.0.0.1:$", "unix:$")
    );
    let mut command = Command::new("nginx");
    command.args(["-p", &folder.to_string(), "-c", &site.write("nginx.conf", &text)]);
    command
}

fn hitch(site: &Site<'_>) -> Command {
    let text = format!(
        "frontend = \"[127.0.0.1]:{}\"\nbackend = \"{}\"\npem-file = \"{}/server.pem\"\nworkers = 1\ndaemon = off\n\
         user = \"root\"\ntls-protos = TLSv1.3\nciphersuites = \"TLS_AES_128_GCM_SHA256\"\nbacklog = 4096\n",
        site.port,
        site.server_as("[127.0.0.1]:$", "$"),
        site.folder.display()
    );
    let mut command = Command::new("hitch");
    command.args(["--config", &site.write("hitch.conf", &text)]);
    command
}

fn stunnel(site: &Site<'_>) -> Command {
    let text = format!(
        "foreground = yes\npid =\ndebug = err\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n[proxy]\n\
         accept = 127.0.0.1:{}\nconnect = {}\ncert = {}/server.pem\nsslVersion = TLSv1.3\n\
         ciphersuites = TLS_AES_128_GCM_SHA256\nTIMEOUTidle = 43200\n",
        site.port,
        site.server_as("127.0.0.1:$", "$"),
        site.folder.display()
    );
    let mut command = Command::new("stunnel4");
    command.arg(site.write("stunnel.conf", &text));
    command
}

fn envoy(site: &Site<'_>) -> Command {
    let folder = site.folder.display();
    let server =
        site.server_as("{ socket_address: { address: 127.0.0.1, port_value: $ } }", "{ pipe: { path: \"$\" } }");
    let text = format!(
        "static_resources:
  listeners:
  - name: proxy
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_params: {{ tls_minimum_protocol_version: TLSv1_3 }}
            tls_certificates:
            - certificate_chain: {{ filename: \"{folder}/server.crt\" }}
              private_key: {{ filename: \"{folder}/server.key\" }}
      filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: proxy
          cluster: server
  clusters:
  - name: server
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{ thresholds: [{{ max_connections: 20000, max_pending_requests: 20000 }}] }}
    load_assignment:
      cluster_name: server
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {server} }}
",
        port = site.port,
    );
    let mut command = Command::new("envoy");
    command.args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "-c"]);
    command.arg(site.write("envoy.yaml", &text));
    command
}

fn forwarder(which: Forwarder, site: &Site<'_>) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    let listen = format!("127.0.0.1:{}", site.port);
    command.args(["--serve", which.word(), &listen, &site.server_as("127.0.0.1:$", "unix:$")]).arg(site.folder);
    command
}
