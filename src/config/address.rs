//! Addresses as the configuration writes them: `host:port`, `[v6]:port`, `unix:/path`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::machine::Machine;
use crate::io::Address;

/// The longest path of a unix socket: `sun_path` of `unix(7)` without its final zero.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// Reads where a listener binds: exactly one address. Port 0 lets the kernel choose.
pub(super) fn bind(text: &str, machine: &Machine) -> Result<SocketAddr, String> {
    if text.starts_with("unix:") {
        return Err("is a unix socket; a listener takes TCP: \"host:port\" or \"[v6]:port\"".to_owned());
    }
    let addresses = resolve(text, machine, "\"host:port\" or \"[v6]:port\", for example \"0.0.0.0:6380\"")?;
    match addresses.as_slice() {
        [address] => match address.ip().to_canonical() {
            // Sockets of IPv6 take no connections of IPv4 here, and the kernel refuses such an address.
            IpAddr::V4(ip) if address.is_ipv6() => {
                Err(format!("is an IPv4 address in the form of IPv6: write \"{ip}:{}\"", address.port()))
            }
            IpAddr::V4(_) | IpAddr::V6(_) => Ok(*address),
        },
        [] => Err("resolves to no address".to_owned()),
        several => {
            let list: Vec<String> = several.iter().map(|address| format!("\"{address}\"")).collect();
            Err(format!("resolves to {} addresses, a listener has one: write {}", several.len(), list.join(" or ")))
        }
    }
}

/// Reads where a server is. A host name gives as many addresses as it has, in the resolver's order.
pub(super) fn server(text: &str, machine: &Machine) -> Result<Vec<Address>, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path).map(|address| vec![address]);
    }
    let addresses =
        resolve(text, machine, "\"host:port\", \"[v6]:port\" or \"unix:/path\", for example \"127.0.0.1:6379\"")?;
    if addresses.is_empty() {
        return Err("resolves to no address".to_owned());
    }
    if addresses.iter().any(|address| address.port() == 0) {
        return Err("has port 0; a server's port is 1 to 65535".to_owned());
    }
    Ok(addresses.into_iter().map(Address::Tcp).collect())
}

/// Whether a server's address, which has been read, is a host name that is looked up.
pub(super) fn is_name(text: &str) -> bool {
    !text.starts_with("unix:") && text.parse::<SocketAddr>().is_err() && !text.starts_with('[')
}

/// Reads where administrators connect: a unix socket, or one loopback address.
pub(super) fn admin(text: &str, machine: &Machine) -> Result<Address, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path);
    }
    let address = bind(text, machine)?;
    if address.ip().is_loopback() {
        return Ok(Address::Tcp(address));
    }
    Err("is not a loopback address, and what is told here is not for everyone: write a unix socket, or \
         \"127.0.0.1:port\", and put a proxy in front of it for other hosts"
        .to_owned())
}

/// Whether the kernel refuses to listen on both: the port is the same, and one's address is the other's or is for all.
/// Sockets of IPv6 take no connections of IPv4 here, so the two families do not meet.
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let same = match (one, other) {
        (SocketAddr::V4(one), SocketAddr::V4(other)) => one.ip() == other.ip(),
        (SocketAddr::V6(one), SocketAddr::V6(other)) => one.ip() == other.ip() && one.scope_id() == other.scope_id(),
        (SocketAddr::V4(_), SocketAddr::V6(_)) | (SocketAddr::V6(_), SocketAddr::V4(_)) => return false,
    };
    let for_all = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && (same || for_all)
}

/// Whether a connection to `server` comes to the socket that listens on `bind`, as far as the two addresses say: what
/// other addresses this machine has is not looked up.
pub(super) fn leads_to(server: &Address, bind: SocketAddr) -> bool {
    let Address::Tcp(server) = server else { return false };
    // To connect to the address that is for all is to connect to this machine.
    let to = match server.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    let for_all = bind.ip().is_unspecified() && bind.is_ipv4() == to.is_ipv4() && to.is_loopback();
    server.port() == bind.port() && (to == bind.ip() || for_all)
}

fn unix(path: &str) -> Result<Address, String> {
    if !path.starts_with('/') {
        return Err("is not an absolute path; write \"unix:/path/to/socket\"".to_owned());
    }
    if path.contains('\0') {
        return Err("has a zero byte, which no path can have".to_owned());
    }
    if path.len() > UNIX_PATH_BYTES_MAX {
        let bytes = path.len();
        return Err(format!("is {bytes} bytes long; the path of a unix socket has at most {UNIX_PATH_BYTES_MAX}"));
    }
    Ok(Address::Unix(Path::new(path).to_owned()))
}

/// Numbers become an address as they are; a name is looked up.
fn resolve(text: &str, machine: &Machine, form: &str) -> Result<Vec<SocketAddr>, String> {
    let addresses = match text.parse::<SocketAddr>() {
        Ok(address) => vec![address],
        Err(_) => look_up(text, machine, form)?,
    };
    match addresses.iter().find_map(unusable) {
        Some(problem) => Err(problem),
        None => Ok(addresses),
    }
}

fn look_up(text: &str, machine: &Machine, form: &str) -> Result<Vec<SocketAddr>, String> {
    let malformed = || format!("is not an address: write {form}");
    let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
    let with_interface = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = with_interface.unwrap_or(host);
    let plausible = if with_interface.is_some() { is_ip_with_interface(host) } else { is_word(host) };
    if !plausible || port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed());
    }
    let port: u16 = port.parse().map_err(|_| format!("has port {port:?}; a port is at most 65535"))?;
    if is_inet_aton(host) {
        return Err(
            "is not an address: write IPv4 as four numbers of 0 to 255, decimal and without leading zeros".into()
        );
    }
    let addresses = (machine.resolve)(host, port).map_err(|error| match host.split_once('%') {
        Some((_, interface)) => format!("cannot be resolved: {error}; is there an interface \"{interface}\"?"),
        None => format!("cannot be resolved: {error}"),
    })?;
    let mut distinct = Vec::new();
    for address in addresses {
        if !distinct.contains(&address) {
            distinct.push(address);
        }
    }
    Ok(distinct)
}

/// What may stand for a host, and for an interface.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_')
}

/// An address of IPv6 with the name of an interface (RFC 4007, section 11), as in `fe80::1%eth0`.
fn is_ip_with_interface(text: &str) -> bool {
    text.split_once('%').is_some_and(|(ip, interface)| ip.parse::<Ipv6Addr>().is_ok() && is_word(interface))
}

/// Whether the host is made of numbers alone, like `127.1` or `010.0.0.1`. The system's resolver reads these as
/// inet_aton(3) does, where a leading zero means octal.
fn is_inet_aton(host: &str) -> bool {
    host.split('.').all(|number| {
        let hexadecimal = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"));
        match hexadecimal {
            Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            None => !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()),
        }
    })
}

/// Why TCP has no use for an address.
fn unusable(address: &SocketAddr) -> Option<String> {
    let (ip, scope) = match address {
        SocketAddr::V4(v4) if v4.ip().is_broadcast() => return Some("is the broadcast address; TCP has none".into()),
        SocketAddr::V4(v4) if v4.ip().is_multicast() => return Some("is a multicast address; TCP has none".into()),
        SocketAddr::V4(_) => return None,
        SocketAddr::V6(v6) => (v6.ip(), v6.scope_id()),
    };
    if ip.is_multicast() {
        Some("is a multicast address; TCP has none".into())
    } else if ip.is_unicast_link_local() && scope == 0 {
        let port = address.port();
        Some(format!("is a link-local address, which needs its interface: write \"[{ip}%eth0]:{port}\" or the like"))
    } else if !ip.is_unicast_link_local() && scope != 0 {
        Some("names an interface, which only link-local addresses have: leave it out".into())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddrV6;

    use super::*;
    use proptest::prelude::*;

    /// Knows two names.
    fn resolver(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match host {
            "one.example" => Ok(vec![SocketAddr::from(([10, 0, 0, 1], port))]),
            "two.example" => {
                let first = SocketAddr::from(([10, 0, 0, 1], port));
                let second = SocketAddr::from(([10, 0, 0, 2], port));
                Ok(vec![first, second, first])
            }
            "fe80::1%eth0" => Ok(vec![SocketAddrV6::new("fe80::1".parse().unwrap(), port, 0, 2).into()]),
            "2001:db8::1%eth0" => Ok(vec![SocketAddrV6::new("2001:db8::1".parse().unwrap(), port, 0, 2).into()]),
            "8.0.0.1" | "010.0.0.1" | "127.1" => panic!("numbers are not looked up"),
            _ => Err(io::Error::other("no such name")),
        }
    }

    fn bind(text: &str) -> Result<SocketAddr, String> {
        super::bind(text, &Machine { cores: vec![0], open_files_max: 1_024, memory_max: None, resolve: resolver })
    }

    fn server(text: &str) -> Result<Vec<Address>, String> {
        super::server(text, &Machine { cores: vec![0], open_files_max: 1_024, memory_max: None, resolve: resolver })
    }

    #[test]
    fn a_listener_binds_to_one_address_of_either_family() {
        assert_eq!(bind("0.0.0.0:6380"), Ok(SocketAddr::from(([0, 0, 0, 0], 6380))));
        assert_eq!(bind("[::1]:6380"), Ok(SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 6380))));
        assert_eq!(bind("127.0.0.1:0"), Ok(SocketAddr::from(([127, 0, 0, 1], 0))));
    }

    #[test]
    fn a_server_is_reached_over_tcp_or_a_unix_socket() {
        assert_eq!(server("10.0.0.1:6379"), Ok(vec![Address::Tcp(SocketAddr::from(([10, 0, 0, 1], 6379)))]));
        assert_eq!(server("unix:/run/valkey.sock"), Ok(vec![Address::Unix("/run/valkey.sock".into())]));
    }

    #[test]
    fn a_host_name_becomes_the_addresses_it_has_each_once() {
        let first = Address::Tcp(SocketAddr::from(([10, 0, 0, 1], 6379)));
        let second = Address::Tcp(SocketAddr::from(([10, 0, 0, 2], 6379)));
        assert_eq!(server("two.example:6379"), Ok(vec![first, second]));
        assert_eq!(server("three.example:6379"), Err("cannot be resolved: no such name".to_owned()));
    }

    #[test]
    fn a_listener_takes_a_host_name_that_has_one_address() {
        assert_eq!(bind("one.example:6380"), Ok(SocketAddr::from(([10, 0, 0, 1], 6380))));
        assert_eq!(
            bind("two.example:6380"),
            Err("resolves to 2 addresses, a listener has one: write \"10.0.0.1:6380\" or \"10.0.0.2:6380\"".to_owned())
        );
    }

    #[test]
    fn what_is_no_address_is_told_how_to_write_one() {
        let form = "is not an address: write \"host:port\" or \"[v6]:port\", for example \"0.0.0.0:6380\"";
        for text in ["", "6380", "localhost", ":6380", "::1:6380", "a b:1", "host:", "host:-1", "host:+1", "host:x"] {
            assert_eq!(bind(text), Err(form.to_owned()), "{text:?}");
        }
        assert_eq!(bind("127.0.0.1:65536"), Err("has port \"65536\"; a port is at most 65535".to_owned()));
        assert_eq!(server("127.0.0.1:0"), Err("has port 0; a server's port is 1 to 65535".to_owned()));
        assert_eq!(
            server("unix:valkey.sock"),
            Err("is not an absolute path; write \"unix:/path/to/socket\"".to_owned())
        );
    }

    #[test]
    fn numbers_that_only_inet_aton_reads_are_refused() {
        let problem = "is not an address: write IPv4 as four numbers of 0 to 255, decimal and without leading zeros";
        for host in
            ["010.0.0.1", "127.1", "127.0.0.01", "2130706433", "0x7f000001", "0X7f.1", "0", "256.0.0.1", "1.2.3.4.5"]
        {
            assert_eq!(bind(&format!("{host}:6380")), Err(problem.to_owned()), "{host}");
            assert_eq!(server(&format!("{host}:6379")), Err(problem.to_owned()), "{host}");
        }
        // Names, and looked up.
        for host in ["0xyz", "1.a", "redis-1", "10.0.0.1a"] {
            assert_eq!(bind(&format!("{host}:6380")), Err("cannot be resolved: no such name".to_owned()), "{host}");
        }
    }

    #[test]
    fn addresses_that_tcp_has_no_use_for_are_refused() {
        for (text, problem) in [
            ("224.0.0.1:6380", "is a multicast address; TCP has none"),
            ("239.255.255.255:6380", "is a multicast address; TCP has none"),
            ("[ff02::1]:6380", "is a multicast address; TCP has none"),
            ("255.255.255.255:6380", "is the broadcast address; TCP has none"),
        ] {
            assert_eq!((bind(text), server(text)), (Err(problem.to_owned()), Err(problem.to_owned())), "{text}");
        }
        assert_eq!(
            bind("[::ffff:127.0.0.1]:6380"),
            Err("is an IPv4 address in the form of IPv6: write \"127.0.0.1:6380\"".to_owned())
        );
    }

    #[test]
    fn a_link_local_address_has_its_interface() {
        let address = SocketAddr::from(SocketAddrV6::new("fe80::1".parse().unwrap(), 6380, 0, 2));
        assert_eq!(bind("[fe80::1%eth0]:6380"), Ok(address));
        assert_eq!(bind("[fe80::1%2]:6380"), Ok(address));
        assert_eq!(server("[fe80::1%eth0]:6380"), Ok(vec![Address::Tcp(address)]));
        let problem = "is a link-local address, which needs its interface: write \"[fe80::1%eth0]:6380\" or the like";
        assert_eq!(bind("[fe80::1]:6380"), Err(problem.to_owned()));
        assert_eq!(server("[fe80::1]:6380"), Err(problem.to_owned()));
        let problem = "cannot be resolved: no such name; is there an interface \"eth9\"?";
        assert_eq!(bind("[fe80::1%eth9]:6380"), Err(problem.to_owned()));
        let problem = "names an interface, which only link-local addresses have: leave it out";
        assert_eq!(bind("[2001:db8::1%eth0]:6380"), Err(problem.to_owned()));
        let form = "is not an address: write \"host:port\" or \"[v6]:port\", for example \"0.0.0.0:6380\"";
        for text in ["[fe80::1%]:6380", "[%eth0]:6380", "[fe80::1%a b]:6380", "[one.example]:6380", "[10.0.0.1%a]:1"] {
            assert_eq!(bind(text), Err(form.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_path_of_a_unix_socket_fits_the_kernel_s_field() {
        assert!(server(&format!("unix:/{}", "x".repeat(106))).is_ok());
        assert_eq!(
            server(&format!("unix:/{}", "x".repeat(107))),
            Err("is 108 bytes long; the path of a unix socket has at most 107".to_owned())
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[a-z0-9.:\\[\\]]{0,40}|\\PC*|unix:\\PC*") {
            let _ = bind(&text);
            let _ = server(&text);
        }
    }
}
