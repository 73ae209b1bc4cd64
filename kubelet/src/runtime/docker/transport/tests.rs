//! Endpoints as people write them.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn endpoints_are_read() {
    let unix = |path: &str| Ok(Endpoint::Unix(path.into()));
    let tcp = |address: &str| Ok(Endpoint::Tcp(address.to_owned()));
    assert_eq!(Endpoint::parse("unix:///var/run/docker.sock"), unix("/var/run/docker.sock"));
    assert_eq!(Endpoint::parse("/run/docker.sock"), unix("/run/docker.sock"));
    assert_eq!(Endpoint::parse("tcp://10.0.0.1:2375"), tcp("10.0.0.1:2375"));
    assert_eq!(Endpoint::parse("http://[::1]:2375/"), tcp("[::1]:2375"));
}

#[test]
fn what_is_no_endpoint_says_what_to_write() {
    for wrong in
        ["", "docker", "unix://relative.sock", "tcp://host", "tcp://:1", "tcp://host:http", "ssh://host"]
    {
        let error = Endpoint::parse(wrong).unwrap_err().to_string();
        assert!(error.contains(&format!("\"{wrong}\"")) && error.contains("unix:///"), "{error}");
    }
}
