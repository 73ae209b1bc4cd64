//! What files of the host say.

use super::{dns, machine};

#[test]
fn resolv_conf_is_read() {
    let dns =
        dns::parse("# c\nnameserver 10.0.0.1 # main\nnameserver fe80::1\nsearch a.b c.d\noptions ndots:5\n");
    assert_eq!(dns.servers, ["10.0.0.1", "fe80::1"]);
    assert_eq!(dns.searches, ["a.b", "c.d"]);
    assert_eq!(dns.options, ["ndots:5"]);
    assert_eq!(dns::parse("domain x\nsearch y z").searches, ["y", "z"]);
}

#[test]
fn meminfo_is_read() {
    assert_eq!(machine::memory_in("MemTotal:       2048 kB\nMemFree: 1 kB"), 2048 * 1024);
    assert_eq!(machine::memory_in("nonsense"), 0);
}

#[test]
fn a_machine_has_something_of_everything() {
    assert!(machine::cpus() >= 1);
    assert!(machine::memory_bytes() > 0);
    assert!(machine::disk_bytes(std::path::Path::new("/not/there/yet")) > 0);
    assert!(!machine::addresses().is_empty());
}
