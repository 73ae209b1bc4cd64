//! Checks whether a pod CIDR overlaps with special-purpose addresses.

use ipnet::IpNet;

/// Special-purpose address blocks and their purpose, from the IANA registries.
const SPECIAL_USE: [(&str, &str); 8] = [
    ("0.0.0.0/8", "this network"),
    ("127.0.0.0/8", "loopback addresses"),
    ("169.254.0.0/16", "link-local addresses"),
    ("224.0.0.0/3", "multicast and reserved addresses"),
    ("::/96", "loopback addresses"),
    ("::ffff:0:0/96", "IPv4-mapped addresses"),
    ("fe80::/10", "link-local addresses"),
    ("ff00::/8", "multicast"),
];

/// The reason why a pod CIDR is not usable, or `None` if it is. The reason starts with a verb, so that the caller can
/// prepend the CIDR.
pub fn reject_special_use(range: &IpNet) -> Option<String> {
    SPECIAL_USE.iter().find_map(|(text, what)| {
        let reserved = text.parse::<IpNet>().ok()?;
        let overlaps = reserved.contains(range) || range.contains(&reserved);
        overlaps.then(|| format!("cannot be a pod CIDR: {text} is reserved for {what}"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::reject_special_use;

    #[test]
    fn special_use_addresses_are_rejected() {
        for (range, word) in [
            ("127.0.0.0/24", Some("loopback")),
            ("224.0.0.0/24", Some("multicast")),
            ("255.255.255.0/24", Some("reserved addresses")),
            ("0.0.0.0/0", Some("this network")),
            ("ff02::/64", Some("multicast")),
            ("fe80::/64", Some("link-local")),
            ("::ffff:10.0.0.0/112", Some("IPv4")),
            ("10.244.0.0/16", None),
            ("100.64.0.0/10", None),
            ("fd00:1::/64", None),
        ] {
            let why = reject_special_use(&range.parse().unwrap());
            assert_eq!(why.is_some(), word.is_some(), "{range}: {why:?}");
            assert!(word.is_none_or(|word| why.unwrap().contains(word)), "{range}");
        }
    }
}
