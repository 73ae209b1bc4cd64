//! The two files, to the letter.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{hosts, reachable, resolv};
use crate::runtime::spec::Dns;

#[test]
fn a_pod_finds_itself_and_its_aliases() {
    let alias = |name: &str, ip: &str| (name.to_owned(), ip.parse().unwrap());
    let aliases = [alias("a", "1.2.3.4"), alias("b", "1.2.3.4"), alias("c", "::9")];
    let addresses = ["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
    let text = hosts(&addresses, Some("web"), Some("x.default.svc"), &aliases);
    assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"));
    assert!(text.ends_with(
        "10.0.0.7\tweb.x.default.svc\tweb\nfd00::7\tweb.x.default.svc\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n::9\tc\n"
    ));
    let whole = hosts(&addresses[..1], Some("web.x.default.svc"), Some("x.default.svc"), &[]);
    assert!(whole.ends_with("10.0.0.7\tweb.x.default.svc\n"));
}

#[test]
fn a_resolver_reads_what_is_there_and_no_empty_lines() {
    let words = |all: &[&str]| all.iter().map(|&word| word.to_owned()).collect();
    let dns = Dns {
        servers: words(&["9.9.9.9", "::1"]),
        searches: words(&["a.b", "c"]),
        options: words(&["ndots:5"]),
    };
    assert_eq!(resolv(&dns), "search a.b c\nnameserver 9.9.9.9\nnameserver ::1\noptions ndots:5\n");
    assert_eq!(resolv(&Dns::default()), "");
    let of_host = Dns { servers: words(&["127.0.0.1", "192.0.2.1", "::1"]), ..dns };
    assert_eq!(reachable(of_host).servers, ["192.0.2.1"]);
}
