//! Sets of addresses, put together from networks: who may connect, and whose word about others is believed.

use std::net::IpAddr;

use ipnet::IpNet;

/// Where the addresses of IPv4 stand among those of IPv6 (RFC 4291, section 2.5.5.2).
const MAPPED: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

/// A set of addresses. An IPv4 address in the form of IPv6 is that IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSet {
    /// Where the addresses begin that are in the set or not, up to the next such place. The first is the lowest address.
    borders: Box<[(u128, bool)]>,
}

impl AddressSet {
    /// The addresses of all `networks`.
    #[must_use]
    pub fn of(networks: &[IpNet]) -> Self {
        Self::layered(false, networks.iter().map(|network| (network, true)))
    }

    /// Who may connect: the addresses of `allow` that are not of `deny`, and where nothing is allowed by name, all that
    /// are not of `deny`. Where both lists have networks that contain an address, the smallest of them decides; of the
    /// same network in both, that of `deny`.
    #[must_use]
    pub fn allowing(allow: &[IpNet], deny: &[IpNet]) -> Self {
        let allowed = allow.iter().map(|network| (network, true));
        Self::layered(allow.is_empty(), allowed.chain(deny.iter().map(|network| (network, false))))
    }

    fn layered<'n>(otherwise: bool, networks: impl Iterator<Item = (&'n IpNet, bool)>) -> Self {
        // A network of IPv6 that contains where IPv4 stands does not mean IPv4.
        let mut layers = vec![(MAPPED.0, MAPPED.1, otherwise)];
        layers.extend(networks.map(|(network, inside)| {
            let (first, last) = range(network);
            (first, last, inside)
        }));
        // The larger before those that it contains; equal ones stay in their order.
        layers.sort_by_key(|&(first, last, _)| (first, !last));
        let mut borders = vec![(0, otherwise)];
        let mut around = vec![(u128::MAX, otherwise)];
        for (first, last, inside) in layers {
            leave_before(first, &mut around, &mut borders);
            borders.push((first, inside));
            around.push((last, inside));
        }
        leave_before(u128::MAX, &mut around, &mut borders);
        // Of several borders at one address the last counts, and one between equals is none.
        let mut distinct: Vec<(u128, bool)> = Vec::new();
        for border in borders {
            distinct.pop_if(|last| last.0 == border.0);
            if distinct.last().is_none_or(|last| last.1 != border.1) {
                distinct.push(border);
            }
        }
        Self { borders: distinct.into() }
    }

    /// Whether the address is in the set. A binary search: as many steps as the number of networks has binary digits.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let place = place(address);
        let next = self.borders.partition_point(|&(start, _)| start <= place);
        self.borders[next - 1].1
    }

    /// Whether any address of IPv4 is in the set, or any of IPv6.
    #[must_use]
    pub fn has_some_of(&self, ipv4: bool) -> bool {
        let mut parts = self.parts();
        parts.any(
            |(first, last)| {
                if ipv4 { first <= MAPPED.1 && last >= MAPPED.0 } else { first < MAPPED.0 || last > MAPPED.1 }
            },
        )
    }

    /// Whether any address of a network is in the set.
    #[must_use]
    pub fn has_some_within(&self, network: &IpNet) -> bool {
        let (from, to) = range(network);
        self.parts().any(|(first, last)| first <= to && last >= from)
    }

    /// The first and the last address of each stretch that is in the set.
    fn parts(&self) -> impl Iterator<Item = (u128, u128)> {
        let ends = self.borders.iter().skip(1).map(|&(start, _)| start - 1).chain([u128::MAX]);
        self.borders.iter().zip(ends).filter(|&(&(_, inside), _)| inside).map(|(&(first, _), last)| (first, last))
    }

    /// Whether every address is in the set.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self.borders == [(0, true)]
    }
}

/// Ends the layers whose last address is below `first`: behind each, the one around it counts again.
fn leave_before(first: u128, around: &mut Vec<(u128, bool)>, borders: &mut Vec<(u128, bool)>) {
    while let Some((last, _)) = around.pop_if(|&mut (last, _)| last < first) {
        let outer = around.last().expect("all addresses are around each layer").1;
        borders.push((last + 1, outer));
    }
}

/// The first and the last address of a network, in the order of IPv6.
fn range(network: &IpNet) -> (u128, u128) {
    (place(network.network()), place(network.broadcast()))
}

const fn place(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn networks(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn assert_contains(set: &AddressSet, inside: &[&str], outside: &[&str]) {
        for (addresses, expected) in [(inside, true), (outside, false)] {
            for address in addresses {
                assert_eq!(set.contains(address.parse().unwrap()), expected, "{address}");
            }
        }
    }

    #[test]
    fn a_set_holds_the_addresses_of_its_networks_from_the_first_to_the_last() {
        let set = AddressSet::of(&networks(&["192.0.2.0/24", "198.51.100.7/32", "2001:db8::/32"]));
        assert_contains(
            &set,
            &["192.0.2.0", "192.0.2.255", "198.51.100.7", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"],
            &["192.0.1.255", "192.0.3.0", "198.51.100.6", "198.51.100.8", "2001:db7::", "2001:db9::", "::"],
        );
        assert!(!AddressSet::of(&[]).contains("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn an_ipv4_address_in_the_form_of_ipv6_is_that_address() {
        let set = AddressSet::of(&networks(&["192.0.2.0/24"]));
        assert_contains(&set, &["::ffff:192.0.2.1"], &["::ffff:192.0.3.1", "::192.0.2.1"]);
        let set = AddressSet::of(&networks(&["::/0"]));
        assert_contains(
            &set,
            &["::", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
            &["192.0.2.1", "::ffff:0.0.0.0"],
        );
        let set = AddressSet::of(&networks(&["0.0.0.0/0"]));
        assert_contains(&set, &["0.0.0.0", "255.255.255.255", "::ffff:192.0.2.1"], &["::", "::1:0:0:0"]);
    }

    #[test]
    fn a_network_has_some_of_a_set_from_its_first_address_to_its_last() {
        let set = AddressSet::of(&networks(&["127.255.255.255/32", "::1/128"]));
        for (network, has_some) in [
            ("127.0.0.0/8", true),
            ("128.0.0.0/8", false),
            ("126.0.0.0/8", false),
            ("::1/128", true),
            ("::/128", false),
        ] {
            assert_eq!(set.has_some_within(&network.parse().unwrap()), has_some, "{network}");
        }
        assert!(!AddressSet::of(&[]).has_some_within(&"::/0".parse().unwrap()));
    }

    #[test]
    fn nobody_named_means_everybody_and_somebody_named_nobody_else() {
        assert!(AddressSet::allowing(&[], &[]).is_everything());
        let set = AddressSet::allowing(&[], &networks(&["10.0.0.0/8"]));
        assert_contains(&set, &["192.0.2.1", "::1"], &["10.1.2.3"]);
        let set = AddressSet::allowing(&networks(&["10.0.0.0/8"]), &[]);
        assert_contains(&set, &["10.1.2.3"], &["192.0.2.1", "::1"]);
    }

    #[test]
    fn the_smallest_network_that_contains_an_address_decides() {
        let allow = networks(&["0.0.0.0/0", "10.1.2.0/24"]);
        let deny = networks(&["10.0.0.0/8", "10.1.2.128/25", "255.255.255.255/32"]);
        let set = AddressSet::allowing(&allow, &deny);
        assert_contains(
            &set,
            &["9.255.255.255", "11.0.0.0", "10.1.2.0", "10.1.2.127", "255.255.255.254"],
            &[
                "10.0.0.0",
                "10.1.1.255",
                "10.1.2.128",
                "10.1.2.255",
                "10.1.3.0",
                "10.255.255.255",
                "255.255.255.255",
                "::1",
            ],
        );
        let all = networks(&["::/0", "0.0.0.0/0"]);
        assert!(AddressSet::allowing(&all, &[]).is_everything());
        assert_contains(&AddressSet::allowing(&all, &all), &[], &["::", "192.0.2.1", "::ffff:ffff"]);
    }

    #[test]
    fn a_set_has_some_addresses_of_a_family_or_none() {
        let has = |allow: &[&str], deny: &[&str]| {
            let set = AddressSet::allowing(&networks(allow), &networks(deny));
            (set.has_some_of(true), set.has_some_of(false))
        };
        assert_eq!(has(&[], &[]), (true, true));
        assert_eq!(has(&[], &["0.0.0.0/0"]), (false, true));
        assert_eq!(has(&[], &["::/0"]), (true, false));
        assert_eq!(has(&[], &["0.0.0.0/1", "128.0.0.0/1", "::/0"]), (false, false));
        assert_eq!(has(&["2001:db8::/32"], &[]), (false, true));
        assert_eq!(has(&["255.255.255.255/32"], &["255.255.255.254/31"]), (true, false));
        assert_eq!(has(&["10.0.0.0/8"], &["10.0.0.0/9", "10.128.0.0/9"]), (false, false));
    }

    proptest! {
        /// Few addresses, so that networks meet.
        #[test]
        fn every_address_is_judged_as_by_looking_at_each_network(
            rules in prop::collection::vec((0..64_u8, 24..=32_u8, any::<bool>()), 0..12),
        ) {
            let (mut allow, mut deny) = (Vec::new(), Vec::new());
            for (last, prefix, allowed) in rules {
                let network = IpNet::new([192, 0, 2, last].into(), prefix).unwrap().trunc();
                if allowed { allow.push(network) } else { deny.push(network) }
            }
            let set = AddressSet::allowing(&allow, &deny);
            for last in 0..=255 {
                let address = IpAddr::from([192, 0, 2, last]);
                let longest = |networks: &[IpNet]| {
                    networks.iter().filter(|network| network.contains(&address)).map(IpNet::prefix_len).max()
                };
                let expected = match (longest(&allow), longest(&deny)) {
                    (None, None) => allow.is_empty(),
                    (allowed, denied) => allowed > denied,
                };
                prop_assert_eq!(set.contains(address), expected, "{}", address);
            }
        }
    }
}
