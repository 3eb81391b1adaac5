//! What a server is told of a connection that it sees coming from ringwall.

use crate::ringwall::Setup;
use crate::server::Server;

#[test]
fn client_list_names_the_client_behind_each_connection() {
    let server = Server::on_unix_socket();
    let keys = "client_name = \"tls:{client_addr}@{sni}/{client_cn}\"\nclient_info = \"ringwall\"";
    let mut ringwall = Setup::before(server.address()).backend(keys).start();
    let mut client = ringwall.client();
    let own = client.socket().local_addr().unwrap();
    // Replies to the greeting would stand in front of this one.
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    let list = server.client().text(&["CLIENT", "LIST"]);
    assert!(list.contains(&format!(" name=tls:{own}@localhost/- ")), "{list}");
    // Redis before 7.2 does not know CLIENT SETINFO: served all the same, and counted.
    let knows = list.contains(" lib-name=");
    assert!(!knows || list.contains(" lib-name=ringwall "), "{list}");
    assert_eq!(client.call(&["CLIENT", "SETNAME", "mine"]), b"+OK\r\n");
    assert_eq!(client.call(&["CLIENT", "GETNAME"]), b"$4\r\nmine\r\n");
    drop(client);
    ringwall.wait_for_ended_sessions(1);
    ringwall.terminate();
    ringwall.wait();
    let refused = format!("\"greetings\":1,\"greetings_refused\":{}", u32::from(!knows));
    ringwall.process.line(|line| line.contains("\"totals\"") && line.contains(&refused));
}

#[test]
fn a_server_that_asks_for_a_password_first_refuses_the_name_and_serves() {
    let server = Server::on_tcp_with(&["--requirepass", "secret"]);
    let ringwall = Setup::before(server.address()).backend("client_name = \"{client_addr}\"").start();
    let mut client = ringwall.client();
    assert_eq!(client.call(&["AUTH", "secret"]), b"+OK\r\n");
    assert_eq!(client.call(&["CLIENT", "GETNAME"]), b"$-1\r\n");
}
