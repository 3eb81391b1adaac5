//! Networks as the configuration writes them: an address, `192.0.2.1`, or a network and its prefix, `192.0.2.0/24`.

use std::net::IpAddr;

use ipnet::IpNet;
use toml::Spanned;

use super::error::ConfigError;
use super::raw::Value;
use super::section::{Item, Section};

/// The longest list: room for what attackers' addresses come to, and a few hundred kilobytes of memory.
const NETWORKS_MAX: usize = 4_096;

/// Reads a list of networks, at least one; `None` when the key is absent. Whether they overlap is not looked at.
pub(super) fn read_networks<'v>(
    section: &Section<'_>,
    key: &str,
    raw: Option<&'v Spanned<Value>>,
) -> Result<Option<Vec<Item<'v, IpNet>>>, ConfigError> {
    let what = "a list of networks, such as [\"192.0.2.0/24\", \"2001:db8::/32\"]";
    let Some(texts) = section.distinct_texts(key, raw, what)? else { return Ok(None) };
    if let Some(item) = texts.get(NETWORKS_MAX) {
        return Err(section.error(key, item.place, &format!("is one too many; there may be {NETWORKS_MAX}")));
    }
    let network = |Item { value, place }| match parse(value) {
        Ok(value) => Ok(Item { value, place }),
        Err(problem) => Err(section.error(key, place, &problem)),
    };
    texts.into_iter().map(network).collect::<Result<_, _>>().map(Some)
}

/// Reads one network.
fn parse(text: &str) -> Result<IpNet, String> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let form = "is not a network: write an address, \"192.0.2.1\", or a network and its prefix, \"192.0.2.0/24\" or \
                \"2001:db8::/32\"";
    let host = IpNet::from(address.parse::<IpAddr>().map_err(|_| form.to_owned())?);
    let (family, most) = if host.addr().is_ipv4() { ("IPv4", 32) } else { ("IPv6", 128) };
    let prefix = match prefix {
        None => most,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            match super::saturating_number(digits).map(u8::try_from) {
                Some(Ok(prefix)) if prefix <= most => prefix,
                Some(_) => return Err(format!("has a prefix of {digits} bits; that of {family} has 0 to {most}")),
                None => return Err(form.to_owned()),
            }
        }
        Some(_) => return Err(form.to_owned()),
    };
    let network = IpNet::new(host.addr(), prefix).map_err(|_| form.to_owned())?;
    if network.trunc() != network {
        return Err(format!("has bits behind its prefix: write \"{}\"", network.trunc()));
    }
    match network.addr().to_canonical() {
        // Connections over IPv4 have addresses of IPv4 here.
        address if network.addr().is_ipv6() && address.is_ipv4() && prefix >= 96 => {
            Err(format!("is an IPv4 network in the form of IPv6: write \"{address}/{}\"", prefix - 96))
        }
        _ => Ok(network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_network_is_an_address_with_or_without_a_prefix() {
        for (text, meaning) in [
            ("192.0.2.1", "192.0.2.1/32"),
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("2001:DB8:0::/32", "2001:db8::/32"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(parse(text).map(|network| network.to_string()), Ok(meaning.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_network_is_told_how_to_write_one() {
        let form = "is not a network: write an address, \"192.0.2.1\", or a network and its prefix, \"192.0.2.0/24\" or \
                    \"2001:db8::/32\"";
        for text in [
            "",
            "/8",
            "192.0.2.0/",
            "192.0.2.0/+8",
            "192.0.2.0/255.255.255.0",
            "192.0.2.0/24/24",
            "192.0.2/24",
            "010.0.0.0/8",
            "localhost",
            "192.0.2.1:6380",
            "[2001:db8::]/32",
            "fe80::1%eth0",
            " 192.0.2.1",
            "all",
        ] {
            assert_eq!(parse(text), Err(form.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn a_prefix_has_as_many_bits_as_the_address_at_most_and_nothing_stands_behind_it() {
        for (text, problem) in [
            ("192.0.2.0/33", "has a prefix of 33 bits; that of IPv4 has 0 to 32"),
            ("192.0.2.0/256", "has a prefix of 256 bits; that of IPv4 has 0 to 32"),
            ("2001:db8::/129", "has a prefix of 129 bits; that of IPv6 has 0 to 128"),
            ("192.0.2.1/24", "has bits behind its prefix: write \"192.0.2.0/24\""),
            ("2001:db8::1/32", "has bits behind its prefix: write \"2001:db8::/32\""),
        ] {
            assert_eq!(parse(text), Err(problem.to_owned()), "{text}");
        }
    }

    #[test]
    fn an_ipv4_network_is_not_written_as_one_of_ipv6() {
        for (text, better) in [("::ffff:192.0.2.1", "192.0.2.1/32"), ("::ffff:10.0.0.0/104", "10.0.0.0/8")] {
            let problem = format!("is an IPv4 network in the form of IPv6: write \"{better}\"");
            assert_eq!(parse(text), Err(problem), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_shown_network_reads_as_the_same(bits: u128, v4: u32, v6: bool, prefix in 0..=128_u8) {
            let (address, prefix) = if v6 {
                (IpAddr::from(bits.to_be_bytes()), prefix)
            } else {
                (IpAddr::from(v4.to_be_bytes()), prefix / 4)
            };
            let network = IpNet::new(address, prefix).unwrap().trunc();
            prop_assume!(!(v6 && network.addr().to_canonical().is_ipv4()));
            prop_assert_eq!(parse(&network.to_string()), Ok(network));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9a-f.:/]{0,45}|\\PC*") {
            let _ = parse(&text);
        }
    }
}
