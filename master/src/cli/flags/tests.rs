//! Tests of the flags of `master run`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;

use super::super::args::{self, RunFlags};
use super::super::values;
use super::{of_controllers, read};
use crate::options::{Allowed, ApprovalPolicy, Controllers, NodeLifecycle, Storage};

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn master_without_flags_uses_the_stock_port() {
    let found = read(&RunFlags::default(), None, None).unwrap();
    assert_eq!(found.options.address.to_string(), "0.0.0.0:6443");
    assert_eq!(found.options.service_ranges[0].first().to_string(), "10.96.0.1");
}

#[test]
fn flags_set_their_options() {
    let flags = RunFlags {
        bind_address: some("::1"),
        secure_port: some("7443"),
        tls_san: vec!["a.b,10.0.0.1".to_owned(), "c".to_owned()],
        service_cluster_ip_range: vec!["10.0.9.7/24,fd00::/112".to_owned()],
        cluster_domain: some("Corp.Example."),
        log_format: some("json"),
        ..RunFlags::default()
    };
    let found = read(&flags, Some("relative".into()), None).unwrap();
    assert_eq!(found.options.address.to_string(), "[::1]:7443");
    assert_eq!(found.options.tls_san, ["a.b", "10.0.0.1", "c"]);
    assert_eq!(found.options.cluster_domain, "corp.example");
    let services: Vec<String> =
        found.options.service_ranges.iter().map(|range| range.first().to_string()).collect();
    assert_eq!(services, ["10.0.9.1", "fd00::1"]);
    assert!(found.options.data_dir.is_absolute() && found.logging.json);
}

#[test]
fn certificate_lifetime_is_between_one_minute_and_ten_years() {
    let flags = |issued: &str| RunFlags { cluster_signing_duration: some(issued), ..RunFlags::default() };
    for (text, seconds) in [("60s", 60), ("1h30m", 5400), ("8760h0m0s", 31_536_000), ("87600h", 315_360_000)]
    {
        let lifetimes = read(&flags(text), None, None).unwrap().options.lifetimes;
        assert_eq!(
            (lifetimes.issued.as_secs(), lifetimes.serving.as_secs()),
            (seconds, 31_536_000),
            "{text}"
        );
    }
    for text in ["59s", "87601h", "0", "-1h", "1d", "3600", ""] {
        assert!(read(&flags(text), None, None).is_err(), "{text}");
    }
    let file = "kind: MasterConfiguration\nclusterSigningDuration: 24h\nservingCertDuration: 2m\n";
    let lifetimes = with_file(file, RunFlags::default()).unwrap().options.lifetimes;
    assert_eq!((lifetimes.issued.as_secs(), lifetimes.serving.as_secs()), (86_400, 120));
}

#[test]
fn flags_set_the_grace_period_and_the_eviction_rate() {
    let flags = |grace: &str, rate: &str| RunFlags {
        node_monitor_grace_period: some(grace),
        node_eviction_rate: some(rate),
        ..RunFlags::default()
    };
    let lifecycle = |flags: RunFlags| read(&flags, None, None).map(|found| found.options.lifecycle);
    let usual = lifecycle(RunFlags::default()).unwrap();
    assert_eq!((usual.grace.as_secs(), usual.eviction_pace.unwrap().as_secs()), (50, 10));
    assert_eq!(lifecycle(flags("50s", "0.1")).unwrap(), usual);
    let found = lifecycle(flags("1s", "4")).unwrap();
    assert_eq!((found.grace.as_secs(), found.eviction_pace.unwrap().as_millis()), (1, 250));
    assert_eq!(lifecycle(flags("1m", "0")).unwrap().eviction_pace, None);
    for (grace, rate) in [
        ("0", "1"),
        ("999ms", "1"),
        ("25h", "1"),
        ("50s", "-1"),
        ("50s", "NaN"),
        ("50s", "0.00001"),
        ("50s", "x"),
    ] {
        assert!(lifecycle(flags(grace, rate)).is_err(), "{grace} {rate}");
    }
}

#[test]
fn standalone_controllers_accept_the_same_settings() {
    let beside = |which: Option<&str>, grace: Option<&str>, rate: Option<&str>| {
        of_controllers(&args::Controllers {
            kubeconfig: PathBuf::new(),
            controllers: which.map(str::to_owned),
            node_monitor_grace_period: grace.map(str::to_owned),
            node_eviction_rate: rate.map(str::to_owned),
        })
    };
    assert_eq!(beside(None, None, None), Ok((Controllers::All, NodeLifecycle::default())));
    let (which, lifecycle) = beside(Some("none"), Some("2m"), Some("0.5")).unwrap();
    assert_eq!(which, Controllers::None);
    assert_eq!((lifecycle.grace.as_secs(), lifecycle.eviction_pace.unwrap().as_secs()), (120, 2));
    let mistakes = beside(Some("x"), Some("0"), Some("-1")).unwrap_err();
    let names = ["--controllers: ", "--node-monitor-grace-period: ", "--node-eviction-rate: "];
    assert!(mistakes.iter().zip(names).all(|(mistake, name)| mistake.starts_with(name)), "{mistakes:?}");
    assert_eq!(mistakes.len(), names.len());
}

#[test]
fn the_master_runs_its_scheduler_by_default() {
    for (given, runs) in [(None, true), (Some("true"), true), (Some("false"), false)] {
        let flags = RunFlags { scheduler: given.map(str::to_owned), ..RunFlags::default() };
        assert_eq!(read(&flags, None, None).unwrap().options.scheduler, runs, "{given:?}");
    }
}

#[test]
fn node_admission_flags_require_their_settings() {
    use crate::options::NodeMode;
    let flags = |mode: &str, networks: &[&str], policy: &str| RunFlags {
        node_admission: some(mode),
        node_allowlist: networks.iter().map(|text| (*text).to_owned()).collect(),
        csr_approval_policy: some(policy),
        ..RunFlags::default()
    };
    for (mode, networks, expected) in [
        ("open", &[][..], NodeMode::Open),
        ("allowlist", &["10.0.0.0/8,fd00::/8"], NodeMode::Allowlist),
        ("certificate", &[], NodeMode::Certificate),
    ] {
        let found = read(&flags(mode, networks, "queue"), None, None).unwrap();
        assert_eq!(found.options.nodes.mode, expected, "{mode}");
    }
    for (flags, expected) in [
        (flags("allowlist", &[], "queue"), "--node-allowlist and vice versa"),
        (flags("open", &["10.0.0.0/8"], "queue"), "--node-allowlist and vice versa"),
        (flags("certificate", &[], "insecure-always-approve"), "approves all of them"),
        (flags("shut", &[], "queue"), "is none of open, allowlist, certificate"),
    ] {
        let mistakes = read(&flags, None, None).unwrap_err();
        assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{mistakes:?}");
    }
    let file =
        "kind: MasterConfiguration\nnodeAdmission: allowlist\nnodeAllowlist: [10.0.0.0/8, 192.0.2.0/24]\n";
    assert_eq!(with_file(file, RunFlags::default()).unwrap().options.nodes.allowlist.len(), 2);
}

/// The example in the documentation is valid.
#[test]
fn unknown_admission_plugin_names_are_rejected() {
    let owned = |names: &[&str]| names.iter().map(|text| (*text).to_owned()).collect();
    let flags = |enabled: &[&str], disabled: &[&str]| RunFlags {
        enable_admission_plugins: owned(enabled),
        disable_admission_plugins: owned(disabled),
        ..RunFlags::default()
    };
    let plugins = read(&flags(&["AlwaysPullImages,NodeRestriction"], &["Priority"]), None, None);
    let plugins = plugins.unwrap().options.admission_plugins;
    assert_eq!((plugins.enabled.len(), plugins.disabled), (2, vec!["Priority".to_owned()]));
    for (enabled, disabled, expected) in [
        (
            "Nonsense",
            "Priority",
            "--enable-admission-plugins: \"Nonsense\" is not an admission plugin; the plugins are ",
        ),
        ("Priority", "alwayspullimages", "--disable-admission-plugins: \"alwayspullimages\" is no"),
        ("LimitRanger", "LimitRanger", "both name LimitRanger"),
    ] {
        let mistakes = read(&flags(&[enabled], &[disabled]), None, None).unwrap_err();
        assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{mistakes:?}");
    }
}

#[test]
fn documented_config_file_is_valid() {
    let page = include_str!("../../../../docs/configuration.md");
    let example = page.split("```").find_map(|part| part.strip_prefix("yaml\n")).unwrap();
    let found = with_file(example, RunFlags::default()).unwrap();
    assert_eq!(found.options.address.to_string(), "127.0.0.1:6443");
}

#[test]
fn invalid_cluster_domains_are_rejected() {
    assert_eq!(values::domain("Corp.Example.").unwrap(), "corp.example");
    for text in ["upper_", "a..b", "*.a", "", ".", "-a"] {
        assert!(values::domain(text).is_err(), "{text}");
    }
}

#[test]
fn store_flags_require_each_other() {
    let flags = |storage: &str, servers: &str, files: [Option<&str>; 3]| RunFlags {
        storage: some(storage),
        etcd_servers: Some(servers).filter(|text| !text.is_empty()).map(str::to_owned).into_iter().collect(),
        etcd_cafile: files[0].map(str::to_owned),
        etcd_certfile: files[1].map(str::to_owned),
        etcd_keyfile: files[2].map(str::to_owned),
        ..RunFlags::default()
    };
    let all = [Some("ca"), Some("cert"), Some("key")];
    let etcd = read(&flags("etcd", "https://a:2379,https://b", all), None, None).unwrap().options;
    let servers: Vec<String> = etcd.etcd.servers.iter().map(ToString::to_string).collect();
    assert_eq!((etcd.storage, servers.join(" ").as_str()), (Storage::Etcd, "https://a:2379 https://b:2379"));
    assert_eq!(etcd.etcd.key.as_deref(), Some(std::path::Path::new("key")));
    assert!(read(&flags("etcd", "http://a:2379", [None; 3]), None, None).is_ok());
    for (storage, servers, files, expected) in [
        ("etcd", "", [None; 3], "--etcd-servers is missing"),
        ("etcd", "https://a", [None; 3], "--etcd-cafile is missing"),
        (
            "etcd",
            "https://a",
            [Some("ca"), Some("cert"), None],
            "--etcd-certfile and --etcd-keyfile must be used together",
        ),
        ("embedded", "https://a", [None; 3], "need --storage etcd"),
        ("embedded", "", [None, Some("cert"), None], "need --storage etcd"),
        ("etcd", "a:2379", [None; 3], "\"a:2379\" is not an etcd URL"),
    ] {
        let mistakes = read(&flags(storage, servers, files), None, None).unwrap_err();
        assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{mistakes:?}");
    }
}

#[test]
fn all_mistakes_are_reported_together() {
    let flags = RunFlags {
        bind_address: some("here"),
        secure_port: some("0"),
        advertise_address: some("0.0.0.0"),
        tls_san: vec!["a b,c".to_owned()],
        storage: some("paper"),
        etcd_servers: vec!["a:2379".to_owned()],
        csr_approval_policy: some("maybe"),
        node_admission: some("closed"),
        node_allowlist: vec!["10.0.0.0/33".to_owned()],
        cluster_cidr: vec!["10.0.0.0".to_owned()],
        service_cluster_ip_range: vec!["10.0.0.0/31".to_owned()],
        cluster_domain: some("a..b"),
        scheduler: some("perhaps"),
        v: some("much"),
        log_format: some("xml"),
        ..RunFlags::default()
    };
    let found = read(&flags, None, None).unwrap_err();
    assert_eq!(found.len(), 15, "{found:#?}");
    assert!(found.iter().all(|line| line.starts_with("--") && line.contains(": ") && !line.contains('\n')));
}

#[test]
fn conflicting_flags_are_reported_with_other_mistakes() {
    let flags = RunFlags {
        secure_port: some("0"),
        storage: some("etcd"),
        csr_approval_policy: some("webhook"),
        ..RunFlags::default()
    };
    let found = read(&flags, None, None).unwrap_err();
    for words in ["--secure-port: ", "--etcd-servers is missing", "--csr-approval-webhook and vice versa"] {
        assert!(found.len() == 3 && found.iter().any(|line| line.contains(words)), "{words}: {found:?}");
    }
    // Flags with errors are not validated together with others.
    let flags = RunFlags { etcd_servers: vec!["a:1".to_owned()], ..flags };
    let found = read(&flags, None, None).unwrap_err();
    assert!(found.iter().all(|line| !line.contains("--etcd-servers is missing")), "{found:?}");
}

#[test]
fn node_mask_sizes_follow_the_cluster_cidrs() {
    let many = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let flags = |ranges: &str, sizes: [&str; 3]| {
        let [one, v4, v6] = sizes.map(|size| (!size.is_empty()).then(|| size.to_owned()));
        RunFlags {
            cluster_cidr: many(ranges),
            node_cidr_mask_size: one,
            node_cidr_mask_size_ipv4: v4,
            node_cidr_mask_size_ipv6: v6,
            ..RunFlags::default()
        }
    };
    for (ranges, sizes, expected) in [
        ("", ["", "", ""], "10.244.0.0/16 24"),
        ("10.1.2.3/16", ["26", "", ""], "10.1.0.0/16 26"),
        ("fd00::/48,10.0.0.0/8", ["", "22", ""], "fd00::/48 64 10.0.0.0/8 22"),
        ("fd00::/48", ["56", "", "60"], "fd00::/48 60"),
    ] {
        let given = read(&flags(ranges, sizes), None, None).unwrap().options.pods.given();
        let given: Vec<String> =
            given.iter().map(|it| format!("{} {}", it.network, it.node_mask_size)).collect();
        assert_eq!(given.join(" "), expected);
    }
    for (ranges, sizes, expected) in [
        ("10.0.0.0/8,10.244.0.0/16", ["", "", ""], "two ranges of one IP family"),
        ("127.0.0.0/16", ["", "", ""], "127.0.0.0/8 is reserved for loopback addresses"),
        ("10.0.0.0/8,fd00::/48", ["24", "", ""], "--node-cidr-mask-size-ipv4 and"),
        ("10.0.0.0/25", ["", "", ""], "--node-cidr-mask-size-ipv4 is 24"),
        ("10.0.0.0/16", ["31", "", ""], "from 16 to 30"),
        ("here", ["", "", ""], "is not a network"),
    ] {
        let mistakes = read(&flags(ranges, sizes), None, None).unwrap_err();
        assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{mistakes:?}");
    }
    let off = RunFlags { allocate_node_cidrs: some("false"), ..RunFlags::default() };
    assert!(read(&off, None, None).unwrap().options.pods.given().is_empty());
}

#[test]
fn controllers_flag_accepts_all_some_or_none() {
    use crate::options::Controllers;
    let (some, other) = ("namespace-controller", "serviceaccount-controller");
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    for (text, expected) in [
        ("*", Controllers::All),
        ("none", Controllers::None),
        ("namespace-controller, serviceaccount-controller", Controllers::Only(owned(&[some, other]))),
        ("*,-namespace-controller", Controllers::Without(owned(&[some]))),
    ] {
        assert_eq!(values::controllers(text).unwrap(), expected, "{text}");
    }
    for text in ["", "*,none", "*,namespace-controller", "-namespace-controller", "weather-controller", "all"]
    {
        assert!(values::controllers(text).is_err(), "{text}");
    }
    assert!(
        Controllers::Without(owned(&[some])).has(other) && !Controllers::Without(owned(&[some])).has(some)
    );
    assert!(values::gate("example.com/images").is_ok() && values::gate("a b").is_err());
}

#[test]
fn networks() {
    for (text, expected) in
        [("10.96.0.0/12", "10.96.0.1"), ("0.0.0.0/0", "0.0.0.1"), ("fd00::ff/64", "fd00::1"), ("::/0", "::1")]
    {
        assert_eq!(values::service_range(text).unwrap().first().to_string(), expected, "{text}");
    }
    for text in ["", "/", "10.0.0.0", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/32", "fd00::/129", "x/8"] {
        assert!(values::service_range(text).is_err(), "{text}");
    }
}

fn with_file(file: &str, flags: RunFlags) -> Result<super::Read, Vec<String>> {
    read(&RunFlags { config: Some("m.yaml".into()), ..flags }, None, Some(file.as_bytes()))
}

#[test]
fn flags_override_the_config_file() {
    let file = "apiVersion: master/v1\nkind: MasterConfiguration\ndataDir: /x\nsecurePort: 7443\ntlsSan: [a, 10.0.0.1]\n\
                scheduler: false\nserviceClusterIpRange: 10.1.0.0/16,fd00::/64\nclusterDomain:\n";
    let flags = || RunFlags { tls_san: vec!["b".to_owned()], ..RunFlags::default() };
    assert!(with_file(file, flags()).is_ok(), "a file of an earlier version");
    let found = with_file(&file.replace("master/v1", "config.coracle.io/v1"), flags()).unwrap();
    assert_eq!(found.options.data_dir.to_str(), Some("/x"));
    assert_eq!(found.options.address.port(), 7443);
    assert_eq!(found.options.tls_san, ["b"]);
    assert_eq!(found.options.service_ranges.len(), 2);
    assert_eq!(found.options.cluster_domain, "cluster.local");
    assert!(!found.options.scheduler);
}

#[test]
fn config_file_errors_name_the_file_and_the_field() {
    let file = "kind: Master\nsecurePort: 0\ntlsSan: {a: b}\nsecurePrt: 1\nstorage: paper\napiVersion: v2\n";
    let flags = RunFlags { bind_address: some("x"), ..RunFlags::default() };
    let mut found = with_file(file, flags).unwrap_err();
    found.sort();
    assert_eq!(
        found,
        [
            "--bind-address: \"x\" is not an IP address",
            "m.yaml: apiVersion: \"v2\" is not config.coracle.io/v1",
            "m.yaml: kind: \"Master\" is not MasterConfiguration",
            "m.yaml: securePort: \"0\" is not a port; write 1 to 65535",
            "m.yaml: securePrt is not a field of MasterConfiguration; did you mean securePort?",
            "m.yaml: storage: \"paper\" is none of embedded, etcd",
            "m.yaml: tlsSan: {\"a\":\"b\"} is no list of texts",
        ]
    );
    for file in ["", "[]", "a: [", "{", "\0", "kind: MasterConfiguration\n---\nkind: x"] {
        assert_eq!(with_file(file, RunFlags::default()).unwrap_err().len(), 1, "{file:?}");
    }
}

#[test]
fn approval_policy_flags_require_their_settings() {
    let flags = |policy: &str, allowed: &[&str], webhook: Option<&str>| RunFlags {
        csr_approval_policy: some(policy),
        csr_approval_allowlist: allowed.iter().map(|text| (*text).to_owned()).collect(),
        csr_approval_webhook: webhook.map(str::to_owned),
        ..RunFlags::default()
    };
    let found = read(&flags("allowlist", &["10.0.0.0/8,worker-*", "n1"], None), None, None).unwrap();
    let names = ["worker-*", "n1"].map(|name| Allowed::Name(name.to_owned()));
    let network = Allowed::Network([10, 0, 0, 0].into(), 8);
    assert_eq!(found.options.approval.allowlist, [vec![network], names.to_vec()].concat());
    assert_eq!(
        read(&RunFlags::default(), None, None).unwrap().options.approval.policy,
        ApprovalPolicy::Queue
    );
    for policy in ["always-reject", "queue", "insecure-always-approve", "token"] {
        assert!(read(&flags(policy, &[], None), None, None).is_ok(), "{policy}");
    }
    assert!(read(&flags("webhook", &[], Some("file")), None, None).is_ok());
    for (flags, expected) in [
        (flags("maybe", &[], None), "is none of always-reject, queue"),
        (flags("allowlist", &[], None), "--csr-approval-allowlist and vice versa"),
        (flags("queue", &["n1"], None), "--csr-approval-allowlist and vice versa"),
        (flags("webhook", &[], None), "--csr-approval-webhook and vice versa"),
        (flags("token", &[], Some("file")), "--csr-approval-webhook and vice versa"),
        (flags("allowlist", &["10.0.0.0/99"], None), "is not a network"),
        (flags("allowlist", &["A b"], None), "must be a network"),
    ] {
        let mistakes = read(&flags, None, None).unwrap_err();
        assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{mistakes:?}");
    }
}

/// The configuration that the Debian package installs.
const PACKAGED: &str = include_str!("../../../../packaging/master/master.yaml");

#[test]
fn the_packaged_configuration_shows_the_defaults() {
    // A line `#field: value` becomes a field.
    let is_default =
        |line: &str| line.strip_prefix('#').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    let shown: Vec<String> = PACKAGED
        .lines()
        .map(|line| if is_default(line) { line[1..].to_owned() } else { line.to_owned() })
        .collect();
    let flags = RunFlags { config: Some(PathBuf::from("master.yaml")), ..RunFlags::default() };
    let options = |text: &str| format!("{:#?}", read(&flags, None, Some(text.as_bytes())).unwrap().options);
    assert_eq!(options(&shown.join("\n")), options(PACKAGED));
}
