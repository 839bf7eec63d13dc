//! Addresses that the controller may ask.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Reason for which an address is never asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressProblem {
    /// 127.0.0.0/8, `::1`.
    #[error("a loopback address")]
    Loopback,
    /// 169.254.0.0/16, fe80::/10: cloud metadata lives there.
    #[error("a link-local address")]
    LinkLocal,
    /// 224.0.0.0/4, ff00::/8.
    #[error("a multicast address")]
    Multicast,
    /// 0.0.0.0/8, `::`.
    #[error("an unspecified address")]
    Unspecified,
    /// 255.255.255.255.
    #[error("a broadcast address")]
    Broadcast,
}

/// Fails unless a pod may be asked at `address`. Ranges in `allowed` are exempt from the rules.
pub(crate) fn check_address(address: IpAddr, allowed: &[IpNet]) -> Result<(), AddressProblem> {
    let address = address.to_canonical();
    if allowed.iter().any(|range| range.contains(&address)) {
        return Ok(());
    }
    let problem = match address {
        IpAddr::V4(address) => problem_v4(address),
        IpAddr::V6(address) => problem_v6(address),
    };
    problem.map_or(Ok(()), Err)
}

fn problem_v4(address: Ipv4Addr) -> Option<AddressProblem> {
    let [first, ..] = address.octets();
    if address.is_loopback() {
        Some(AddressProblem::Loopback)
    } else if address.is_link_local() {
        Some(AddressProblem::LinkLocal)
    } else if address.is_multicast() {
        Some(AddressProblem::Multicast)
    } else if first == 0 {
        Some(AddressProblem::Unspecified)
    } else if address.is_broadcast() {
        Some(AddressProblem::Broadcast)
    } else {
        None
    }
}

fn problem_v6(address: Ipv6Addr) -> Option<AddressProblem> {
    if address.is_loopback() {
        Some(AddressProblem::Loopback)
    } else if address.is_unicast_link_local() {
        Some(AddressProblem::LinkLocal)
    } else if address.is_multicast() {
        Some(AddressProblem::Multicast)
    } else if address.is_unspecified() {
        Some(AddressProblem::Unspecified)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_no_pods_are_never_asked() {
        let table = [
            ("10.0.0.1", None),
            ("192.168.3.4", None),
            ("fd00::1", None),
            ("127.0.0.1", Some(AddressProblem::Loopback)),
            ("127.100.0.7", Some(AddressProblem::Loopback)),
            ("::1", Some(AddressProblem::Loopback)),
            ("::ffff:127.0.0.1", Some(AddressProblem::Loopback)),
            ("169.254.169.254", Some(AddressProblem::LinkLocal)),
            ("::ffff:169.254.169.254", Some(AddressProblem::LinkLocal)),
            ("fe80::1", Some(AddressProblem::LinkLocal)),
            ("224.0.0.1", Some(AddressProblem::Multicast)),
            ("ff02::1", Some(AddressProblem::Multicast)),
            ("0.0.0.0", Some(AddressProblem::Unspecified)),
            ("0.1.2.3", Some(AddressProblem::Unspecified)),
            ("::", Some(AddressProblem::Unspecified)),
            ("255.255.255.255", Some(AddressProblem::Broadcast)),
        ];
        for (address, expected) in table {
            assert_eq!(check_address(address.parse().unwrap(), &[]).err(), expected, "{address}");
        }
    }

    #[test]
    fn a_range_that_was_opened_is_asked_and_no_other() {
        let allowed = ["127.100.0.0/16".parse().unwrap()];
        assert_eq!(check_address("127.100.3.4".parse().unwrap(), &allowed), Ok(()));
        assert_eq!(check_address("127.101.3.4".parse().unwrap(), &allowed), Err(AddressProblem::Loopback));
    }
}
