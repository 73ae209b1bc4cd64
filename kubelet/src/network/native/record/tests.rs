//! Records outlive the kubelet; halves of them do not.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use super::{HOSTS, Key, RESOLV, Record, Records, is_any};
use crate::observed::PodUid;
use crate::runtime::spec::HostPort;

#[test]
fn what_was_written_is_found_and_what_was_begun_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let key = |uid: &str, attempt| Key { uid: PodUid::new(uid), attempt };
    let port = HostPort { host_ip: None, host_port: 80, container_port: 8080, protocol: "tcp".to_owned() };
    let record = |key: &Key| {
        let addresses = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        Record::new(key, "default/web".to_owned(), addresses, vec![port.clone()])
    };
    let (records, none) = Records::open(directory.path()).unwrap();
    assert!(none.is_empty() && !is_any(directory.path()));
    for key in [key("a", 0), key("a", 1), key("b", 0), key("c", 0)] {
        records.write(&key, &record(&key), "hosts", "resolv").unwrap();
    }
    records.remove(&key("a", 0)).unwrap();
    records.remove(&key("a", 0)).unwrap();
    fs::remove_file(records.path(&key("b", 0)).join("record.json")).unwrap();
    fs::write(records.path(&key("c", 0)).join("record.json"), "{").unwrap();
    let (records, found) = Records::open(directory.path()).unwrap();
    assert_eq!(found, [(key("a", 1), record(&key("a", 1)))]);
    assert!(is_any(directory.path()));
    let path = records.path(&key("a", 1));
    assert_eq!(fs::read_to_string(path.join(HOSTS)).unwrap(), "hosts");
    assert_eq!(fs::read_to_string(path.join(RESOLV)).unwrap(), "resolv");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_pod_is_called_by_its_name_where_that_was_written_down() {
    let called = |pod: &str| {
        let text = format!(r#"{{"uid": "u", "attempt": 0, {pod} "addresses": [], "ports": []}}"#);
        serde_json::from_str::<Record>(&text).unwrap().pod().to_owned()
    };
    assert_eq!((called(r#""pod": "shop/web","#), called("")), ("shop/web".to_owned(), "u".to_owned()));
}
