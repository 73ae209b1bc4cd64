//! Flags and configuration files become options.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::PathBuf;
use std::time::Duration;

use super::super::args::RunFlags;
use super::{Read, read, values};

fn flags() -> RunFlags {
    RunFlags::default()
}

fn ok(flags: &RunFlags, file: &str) -> Read {
    read(flags, None, "Node-1", Some(file.as_bytes())).unwrap()
}

fn mistakes(flags: &RunFlags, file: &str) -> Vec<String> {
    read(flags, None, "node", Some(file.as_bytes())).unwrap_err()
}

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn with_file() -> RunFlags {
    RunFlags { config: Some(PathBuf::from("k.yaml")), ..flags() }
}

#[test]
fn kubelet_without_flags_uses_the_stock_defaults() {
    let options = ok(&flags(), "").options;
    assert_eq!(options.node_name, "node-1");
    assert_eq!(options.api_address.unwrap().to_string(), "0.0.0.0:10250");
    assert_eq!(options.healthz_address.unwrap().to_string(), "127.0.0.1:10248");
    assert_eq!(options.max_pods, 110);
}

#[test]
fn flags_override_the_config_file() {
    let file = format!(
        "{HEAD}staticPodPath: /etc/pods\nport: 11250\nhealthzPort: 0\nfileCheckFrequency: 1m0s\nclusterDNS: [10.0.0.10]\n\
         staticPodURL: http://x/y\nstaticPodURLHeader:\n  X-A: [b, c]\ncontainerLogMaxSize: 5Mi\npodPidsLimit: -1\n\
         registerWithTaints:\n- {{key: k, value: v, effect: NoSchedule}}\n"
    );
    let options = ok(&with_file(), &file).options;
    assert_eq!(options.pod_manifest_path.unwrap(), PathBuf::from("/etc/pods"));
    assert_eq!(options.api_address.unwrap().port(), 11250);
    assert_eq!(options.healthz_address, None);
    assert_eq!(options.file_check_frequency, Duration::from_secs(60));
    assert_eq!(options.manifest_url_headers.len(), 2);
    assert_eq!(options.container_log_max_bytes, 5 * 1024 * 1024);
    assert_eq!(options.pod_pids_limit, None);
    assert_eq!(options.register_with_taints[0].effect, "NoSchedule");

    let over = RunFlags {
        pod_manifest_path: Some("/other".to_owned()),
        port: Some("0".to_owned()),
        cluster_dns: vec!["10.0.0.1,10.0.0.2".to_owned()],
        ..with_file()
    };
    let options = ok(&over, &file).options;
    assert_eq!(options.pod_manifest_path.unwrap(), PathBuf::from("/other"));
    assert_eq!(options.api_address, None);
    assert_eq!(options.cluster_dns.len(), 2);
}

#[test]
fn all_mistakes_are_reported_together() {
    let wrong = RunFlags {
        port: Some("70000".to_owned()),
        node_ip: Some("here".to_owned()),
        node_labels: vec!["a=b,c".to_owned()],
        docker_endpoint: Some("/var/run/docker.sock".to_owned()),
        bootstrap: Some("x".to_owned()),
        pod_network: Some("cni".to_owned()),
        manifest_url: Some("ftp://x".to_owned()),
        ..with_file()
    };
    let file = "kind: KubeletConfig\nmaxPods: many\nhealthzPrt: 1\nfileCheckFrequency: 20\n";
    let mut found = mistakes(&wrong, file);
    found.sort();
    let starts: Vec<&str> = found.iter().map(|line| line.split_once(':').unwrap().0).collect();
    assert_eq!(
        starts,
        [
            "--bootstrap",
            "--docker-endpoint",
            "--manifest-url",
            "--node-ip",
            "--node-labels",
            "--pod-network",
            "--port",
            "k.yaml",
            "k.yaml",
            "k.yaml",
            "k.yaml",
            "k.yaml"
        ]
    );
    assert!(found.iter().any(|line| line.ends_with("did you mean healthzPort?")), "{found:?}");
    assert!(found.iter().all(|line| !line.contains('\n')));
}

#[test]
fn parser_rejects_meaningless_address_ranges() {
    let docker = RunFlags { pod_network: Some("docker".to_owned()), ..with_file() };
    let range = format!("{HEAD}podCIDR: 10.244.1.0/24\n");
    let [mistake] = &mistakes(&docker, &range)[..] else { panic!("not one mistake") };
    assert!(mistake.starts_with("--pod-cidr, --pod-network docker: the engine"), "{mistake}");
    ok(&docker, HEAD);
    ok(&RunFlags { pod_network: Some("native".to_owned()), ..with_file() }, &range);
}

#[test]
fn special_address_ranges_are_rejected_as_pod_cidr() {
    for range in ["127.0.0.0/24", "224.0.0.0/24", "255.255.255.0/24", "ff02::/64"] {
        let [mistake] = &mistakes(&with_file(), &format!("{HEAD}podCIDR: {range}\n"))[..] else {
            panic!("not one mistake")
        };
        assert!(mistake.contains(range) && mistake.contains("cannot be a pod CIDR"), "{mistake}");
    }
}

#[test]
fn stock_fields_without_effect_are_named() {
    let read = ok(&with_file(), &format!("{HEAD}cpuManagerPolicy: static\nfeatureGates: {{X: true}}\n"));
    assert_eq!(
        read.warnings,
        ["k.yaml: these fields are not supported and have no effect: cpuManagerPolicy, featureGates"]
    );
}

#[test]
fn invalid_yaml_error_has_a_position() {
    let found = mistakes(&with_file(), "a: [1,\nb: 2");
    assert!(found[0].starts_with("k.yaml: "), "{found:?}");
}

#[test]
fn durations() {
    for (text, expected) in
        [("20s", 20_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("100ms", 100), ("0", 0)]
    {
        assert_eq!(values::duration(text).unwrap(), Duration::from_millis(expected), "{text}");
    }
    for text in ["", "20", "s", "1x", "-1s", "1e400s"] {
        assert!(values::duration(text).is_err(), "{text}");
    }
}

#[test]
fn streaming_idle_timeout_comes_from_flag_or_file() {
    let hour = Duration::from_secs(60 * 60);
    assert_eq!(ok(&flags(), "").options.streaming_idle, 4 * hour);
    let file = format!("{HEAD}streamingConnectionIdleTimeout: 1h\n");
    assert_eq!(ok(&with_file(), &file).options.streaming_idle, hour);
    let over = RunFlags { streaming_connection_idle_timeout: Some("2h".to_owned()), ..with_file() };
    assert_eq!(ok(&over, &file).options.streaming_idle, 2 * hour);
    let none = RunFlags { streaming_connection_idle_timeout: Some("0".to_owned()), ..flags() };
    assert!(mistakes(&none, "")[0].starts_with("--streaming-connection-idle-timeout: "));
}

#[test]
fn node_names_are_validated() {
    assert_eq!(values::node_name("Web.Example").unwrap(), "web.example");
    for text in ["", "a_b", "-a", "a..b", "ä"] {
        assert!(values::node_name(text).is_err(), "{text}");
    }
}

#[test]
fn node_api_settings_come_from_flags_or_the_file() {
    let path = |text: &str| Some(PathBuf::from(text));
    let file = format!(
        "{HEAD}tlsCertFile: /a.crt\ntlsPrivateKeyFile: /a.key\nauthentication:\n  x509: {{clientCAFile: /ca.crt}}\n  \
         webhook: {{enabled: true}}\n"
    );
    let read = ok(&with_file(), &file);
    assert_eq!(read.options.tls_files, path("/a.crt").zip(path("/a.key")));
    let below = read.options.root_dir.join("pki");
    assert_eq!((read.options.client_ca_file, read.options.cert_dir), (path("/ca.crt"), below));
    assert_eq!(
        read.warnings,
        ["k.yaml: these fields are not supported and have no effect: authentication.webhook"]
    );
    let over = RunFlags {
        tls_cert_file: Some("/b.crt".to_owned()),
        cert_dir: Some("/certs".to_owned()),
        client_ca_file: Some("/b-ca.crt".to_owned()),
        ..with_file()
    };
    let options = ok(&over, &file).options;
    assert_eq!(options.tls_files, path("/b.crt").zip(path("/a.key")));
    assert_eq!((options.client_ca_file, options.cert_dir), (path("/b-ca.crt"), "/certs".into()));
    let half = RunFlags { tls_cert_file: Some("/b.crt".to_owned()), ..flags() };
    assert!(mistakes(&half, "")[0].contains("give both or none"));
}

/// The configuration that the Debian package installs.
const PACKAGED: &str = include_str!("../../../../packaging/kubelet/kubelet.yaml");

#[test]
fn the_packaged_configuration_shows_the_defaults() {
    // A line `#field: value` becomes a field.
    let is_default =
        |line: &str| line.strip_prefix('#').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    let shown: Vec<String> = PACKAGED
        .lines()
        .map(|line| if is_default(line) { line[1..].to_owned() } else { line.to_owned() })
        .collect();
    let (installed, shown) = (ok(&with_file(), PACKAGED), ok(&with_file(), &shown.join("\n")));
    assert_eq!((&installed.warnings, &shown.warnings), (&Vec::new(), &Vec::new()));
    assert_eq!(installed.options.pod_manifest_path, Some(PathBuf::from("/etc/coracle/manifests")));
    assert_eq!(shown.options.kubelet_configuration(), installed.options.kubelet_configuration());
    for field in super::config::supported() {
        assert!(PACKAGED.contains(field), "{field} is not in the packaged configuration");
    }
}
