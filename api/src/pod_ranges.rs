//! Which ranges of addresses pods can have.

use ipnet::IpNet;

/// Ranges that are set aside for something else, with what that is (IANA's registries of special-purpose addresses).
const SET_ASIDE: [(&str, &str); 8] = [
    ("0.0.0.0/8", "this network"),
    ("127.0.0.0/8", "every machine's own loopback"),
    ("169.254.0.0/16", "addresses of one link"),
    ("224.0.0.0/3", "multicast, and what is kept for later"),
    ("::/96", "every machine's own loopback"),
    ("::ffff:0:0/96", "addresses of IPv4"),
    ("fe80::/10", "addresses of one link"),
    ("ff00::/8", "multicast"),
];

/// Why addresses of a range cannot be those of pods, as the end of a sentence that begins with it; `None` where they can.
pub fn unfit(range: &IpNet) -> Option<String> {
    SET_ASIDE.iter().find_map(|(text, what)| {
        let aside = text.parse::<IpNet>().ok()?;
        let meets = aside.contains(range) || range.contains(&aside);
        meets.then(|| format!("is no range that pods can have: {text} is for {what}"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::unfit;

    #[test]
    fn what_is_set_aside_is_no_range_of_pods() {
        for (range, word) in [
            ("127.0.0.0/24", Some("loopback")),
            ("224.0.0.0/24", Some("multicast")),
            ("255.255.255.0/24", Some("later")),
            ("0.0.0.0/0", Some("this network")),
            ("ff02::/64", Some("multicast")),
            ("fe80::/64", Some("one link")),
            ("::ffff:10.0.0.0/112", Some("IPv4")),
            ("10.244.0.0/16", None),
            ("100.64.0.0/10", None),
            ("fd00:1::/64", None),
        ] {
            let why = unfit(&range.parse().unwrap());
            assert_eq!(why.is_some(), word.is_some(), "{range}: {why:?}");
            assert!(word.is_none_or(|word| why.unwrap().contains(word)), "{range}");
        }
    }
}
