//! The proxies, each with one worker, TLS 1.3 with AES-128-GCM, TCP_NODELAY, and time-outs out of the way.

use std::process::Command;

use crate::peer::{Program, Site};

/// All there are; those that are not installed are left out when they are started.
pub(crate) fn all() -> Vec<Program> {
    vec![
        Program { name: "ringwall", version: || version("ringwall"), command: ringwall },
        Program { name: "HAProxy", version: || asked("haproxy", "-v"), command: haproxy },
        Program { name: "nginx", version: || asked("nginx", "-v"), command: nginx },
        Program { name: "hitch", version: || asked("hitch", "--version"), command: hitch },
        Program { name: "stunnel", version: || asked("stunnel4", "-version"), command: stunnel },
        Program { name: "Envoy", version: || asked("envoy", "--version"), command: envoy },
        Program { name: "tokio copy", version: || version("rustls"), command: copy },
        Program { name: "server's own TLS", version: || asked("redis-server", "--version"), command: |_| None },
    ]
}

fn asked(program: &str, option: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(option);
    command
}

/// The version that this was built with.
fn version(of: &str) -> Command {
    let mut command = Command::new("echo");
    match of {
        "ringwall" => command.arg(concat!("ringwall ", env!("CARGO_PKG_VERSION"))),
        _ => command.arg("tokio 1, tokio-rustls 0.26, copy_bidirectional with 16 KiB"),
    };
    command
}

fn ringwall(site: &Site<'_>) -> Option<Command> {
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:{}\"\nbackend = \"server\"\n\
         tls = {{ certificate = \"server.crt\", private_key = \"server.key\" }}\n\
         [[backend]]\nname = \"server\"\nservers = [\"{}\"]\n\
         [runtime]\ncores = [{}]\n[log]\nsessions = false\n",
        site.port,
        site.server_as("127.0.0.1:@", "unix:@"),
        site.core
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringwall"));
    command.args(["run", "--config", &site.write("ringwall.toml", &text)]);
    command.env_remove("RINGWALL_LOG").env_remove("NOTIFY_SOCKET");
    Some(command)
}

fn haproxy(site: &Site<'_>) -> Option<Command> {
    let text = format!(
        "global\n nbthread 1\n maxconn 9000\n ssl-default-bind-options ssl-min-ver TLSv1.3\n \
         ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256\n\
         defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n\
         listen proxy\n bind 127.0.0.1:{} ssl crt {}/server.pem\n server server {}\n",
        site.port,
        site.folder.display(),
        site.server_as("127.0.0.1:@", "unix@@")
    );
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f", &site.write("haproxy.cfg", &text)]);
    Some(command)
}

fn nginx(site: &Site<'_>) -> Option<Command> {
    let folder = site.folder.display();
    let text = format!(
        "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\ndaemon off;\nworker_processes 1;\nuser root;\n\
         pid {folder}/nginx.pid;\nerror_log stderr;\nevents {{ worker_connections 15000; }}\n\
         stream {{\n server {{\n  listen 127.0.0.1:{} ssl backlog=4096;\n  ssl_certificate server.crt;\n  \
         ssl_certificate_key server.key;\n  ssl_protocols TLSv1.3;\n  \
         ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;\n  ssl_session_tickets on;\n  \
         ssl_session_cache shared:proxy:10m;\n  tcp_nodelay on;\n  proxy_timeout 1h;\n  proxy_pass {};\n }}\n}}\n",
        site.port,
        site.server_as("127.0.0.1:@", "unix:@")
    );
    let mut command = Command::new("nginx");
    command.args(["-p", &folder.to_string(), "-c", &site.write("nginx.conf", &text)]);
    Some(command)
}

fn hitch(site: &Site<'_>) -> Option<Command> {
    let text = format!(
        "frontend = \"[127.0.0.1]:{}\"\nbackend = \"{}\"\npem-file = \"{}/server.pem\"\nworkers = 1\ndaemon = off\n\
         user = \"root\"\ntls-protos = TLSv1.3\nciphersuites = \"TLS_AES_128_GCM_SHA256\"\nbacklog = 4096\n",
        site.port,
        site.server_as("[127.0.0.1]:@", "@"),
        site.folder.display()
    );
    let mut command = Command::new("hitch");
    command.args(["--config", &site.write("hitch.conf", &text)]);
    Some(command)
}

fn stunnel(site: &Site<'_>) -> Option<Command> {
    let text = format!(
        "foreground = yes\npid =\ndebug = err\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n[proxy]\n\
         accept = 127.0.0.1:{}\nconnect = {}\ncert = {}/server.pem\nsslVersion = TLSv1.3\n\
         ciphersuites = TLS_AES_128_GCM_SHA256\nTIMEOUTidle = 43200\n",
        site.port,
        site.server_as("127.0.0.1:@", "@"),
        site.folder.display()
    );
    let mut command = Command::new("stunnel4");
    command.arg(site.write("stunnel.conf", &text));
    Some(command)
}

fn envoy(site: &Site<'_>) -> Option<Command> {
    let folder = site.folder.display();
    let server =
        site.server_as("{ socket_address: { address: 127.0.0.1, port_value: @ } }", "{ pipe: { path: \"@\" } }");
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
    Some(command)
}

fn copy(site: &Site<'_>) -> Option<Command> {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--copy", &format!("127.0.0.1:{}", site.port), &site.server_as("127.0.0.1:@", "unix:@")]);
    command.arg(site.folder);
    Some(command)
}
