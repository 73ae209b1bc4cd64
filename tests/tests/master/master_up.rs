//! Start of the master: with a new directory, with an existing one, after a kill, and never over corrupt files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use apiserver::VERSION;
use master::kubeconfig::Kubeconfig;
use rustix::process::Signal;
use tests::{Chance, DEADLINE, Master, moment, trusting};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_fresh_directory_becomes_a_server_that_its_administrator_can_use() {
    let master = Master::running().await;
    let mode = fs::metadata(master.data_dir().join("admin.kubeconfig")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(master.get_as_admin("/readyz").await, (200, "ok".to_owned()));
    assert_eq!(master.get_as_admin("/livez/ping").await, (200, "ok".to_owned()));
    let (_, version) = master.get_as_admin("/version").await;
    assert!(version.contains(&format!(r#""gitVersion":"{}""#, VERSION.git_version)), "{version}");
    let (code, pods) = master.get_as_admin("/api/v1/pods").await;
    assert!(code == 200 && pods.contains(r#""kind":"PodList""#), "{code} {pods}");
    let anonymous = trusting(&master.admin().unwrap().authority, None).unwrap();
    assert_eq!(master.send_request(&anonymous, "/readyz").await.unwrap().0, 200);
    let (code, status) = master.send_request(&anonymous, "/api/v1/pods").await.unwrap();
    assert!(code == 403 && status.contains("system:anonymous"), "{code} {status}");
}

#[tokio::test]
async fn kubectl_works_with_what_the_master_wrote() {
    let master = Master::running().await;
    let admin = master.data_dir().join("admin.kubeconfig");
    let version = master.kubectl(&admin, &["version"]).await;
    assert!(version.code == 0 && version.stdout.contains(VERSION.git_version), "{version:?}");
    let ready = master.kubectl(&admin, &["get", "--raw", "/readyz?verbose"]).await;
    assert!(
        ready.stdout.contains("[+]ping ok\n") && ready.stdout.contains("readyz check passed"),
        "{ready:?}"
    );
    let refused = master.kubectl(&admin, &["get", "--raw", "/nowhere"]).await;
    assert!(refused.code != 0 && refused.stderr.contains("NotFound"), "{refused:?}");
}

#[tokio::test]
async fn restart_keeps_all_files_and_a_new_address_keeps_only_the_ca() {
    let mut master = Master::running().await;
    let files = ["pki/root.crt", "pki/intermediate.crt", "pki/serving.pem", "admin.kubeconfig"];
    let read = |master: &Master| files.map(|file| master.file(file));
    let before = read(&master);
    for signal in [Signal::TERM, Signal::INT] {
        let status = master.stop(signal).await;
        assert!(status.success(), "{status}\n{}", master.log());
        master.start().await;
    }
    assert_eq!(read(&master), before);
    let old = master.admin().unwrap();
    master.stop(Signal::TERM).await;
    let mut master = master.with_flags(["--tls-san", "api.example.com", "--advertise-address", "127.0.0.3"]);
    master.start().await;
    let after = read(&master);
    assert_eq!(after[..2], before[..2]);
    assert_ne!(after[2], before[2], "the serving certificate has another name");
    assert_eq!(master.admin().unwrap().server, format!("https://127.0.0.3:{}", master.port));
    // A client with the old kubeconfig still has access.
    let own = (old.credentials.certificates.as_str(), old.credentials.key.as_str());
    let client = trusting(&old.authority, Some(own)).unwrap();
    assert_eq!(master.send_request(&client, "/api").await.unwrap().0, 200);
}

#[tokio::test]
async fn start_succeeds_after_the_first_start_was_killed_at_any_moment() {
    let mut chance = Chance::new(Chance::seed());
    for _ in 0..20 {
        let mut master = Master::new();
        master.launch();
        moment(chance.moment(Duration::from_millis(60))).await;
        master.kill();
        let root = fs::read_to_string(master.data_dir().join("pki/root.crt"));
        master.start().await;
        if let Ok(root) = root {
            assert_eq!(master.file("pki/root.crt"), root, "the authority of before the kill stays");
        }
        assert_eq!(master.get_as_admin("/api").await.0, 200);
    }
}

#[tokio::test]
async fn peers_of_another_cluster_and_old_protocols_are_rejected() {
    let (master, other) = (Master::running().await, Master::running().await);
    let stranger = other.admin().unwrap();
    let own = (stranger.credentials.certificates.as_str(), stranger.credentials.key.as_str());
    let authority = master.admin().unwrap().authority;
    let misled = trusting(&stranger.authority, None).unwrap();
    let refused = master.send_request(&misled, "/readyz").await.unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "a client refuses another cluster's server: {refused}");
    let intruder = trusting(&authority, Some(own)).unwrap();
    let refused = master.send_request(&intruder, "/readyz").await;
    assert!(refused.is_err(), "the server refuses another cluster's administrator: {refused:?}");

    let plain = send(&master, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(!plain.starts_with(b"HTTP"), "{plain:?}");
    let old = send(&master, &hello_of_tls_1_1()).await;
    // An alert (21), fatal (2): protocol version (70).
    assert_eq!((old.first(), old.get(5..7)), (Some(&21), Some(&[2, 70][..])), "{old:?}");
}

/// Sends bytes. Returns the response until the server closes.
async fn send(master: &Master, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", master.port.number)).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap();
    answer
}

/// A ClientHello of a TLS 1.1 client.
fn hello_of_tls_1_1() -> Vec<u8> {
    let version = [3, 2];
    let suites = [0, 4, 0xc0, 0x09, 0xc0, 0x13];
    // P-256, and ECDSA with SHA-256: only the version is invalid.
    let extensions = [0, 16, 0, 10, 0, 4, 0, 2, 0, 23, 0, 13, 0, 4, 0, 2, 4, 3];
    let body = [&version, [7; 32].as_slice(), &[0], &suites, &[1, 0], &extensions].concat();
    let length = u8::try_from(body.len()).unwrap();
    [&[22, 3, 1, 0, length + 4, 1, 0, 0, length], body.as_slice()].concat()
}

#[tokio::test]
async fn kubeconfigs_and_join_strings_are_created_without_a_running_master() {
    let mut master = Master::new();
    for verb in [&["join-string"][..], &["kubeconfig", "--user", "jane"]] {
        let early = master.verb(verb).await;
        assert!(early.code == 1 && early.stderr.contains("master run"), "{early:?}");
    }
    assert!(!master.data_dir().exists(), "a verb that only reads makes nothing");
    master.start().await;
    let kubeconfig =
        master.verb(&["kubeconfig", "--user", "jane", "--group", "dev", "--group", "system:masters"]).await;
    let jane = Kubeconfig::read(&kubeconfig.stdout).unwrap();
    let own = (jane.credentials.certificates.as_str(), jane.credentials.key.as_str());
    let client = trusting(&jane.authority, Some(own)).unwrap();
    assert_eq!(
        master.send_request(&client, "/api/v1/nodes").await.unwrap().0,
        200,
        "the last of her groups counts"
    );
    let kubeconfig = master.verb(&["kubeconfig", "--user", "joe", "--group", "dev"]).await;
    let joe = Kubeconfig::read(&kubeconfig.stdout).unwrap();
    let own = (joe.credentials.certificates.as_str(), joe.credentials.key.as_str());
    let client = trusting(&joe.authority, Some(own)).unwrap();
    let (code, status) = master.send_request(&client, "/api/v1/nodes").await.unwrap();
    assert!(code == 403 && status.contains(r#"User \"joe\""#), "{code} {status}");

    let join = master.verb(&["join-string"]).await.stdout;
    let (server, hash) = join.trim_end().split_once("#sha256:").unwrap();
    assert_eq!(server, joe.server, "nodes and users get the same server");
    assert!(hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{join}");
    master.kill();
    assert_eq!(master.verb(&["join-string"]).await.stdout, join);
}

#[tokio::test]
async fn unusable_files_are_reported_and_left_unchanged() {
    let mut master = Master::running().await;
    let mut second = Master::new().with_flags(["--data-dir", master.data_dir().to_str().unwrap()]);
    second.launch();
    // The last occurrence of a flag counts: this master starts on the directory of the other.
    assert_eq!(second.ended().await.code(), Some(1));
    let taken = master.verb(&["run", "--secure-port", "1"]).await;
    assert!(taken.code == 1 && taken.stderr.contains("another master is running"), "{taken:?}");
    master.stop(Signal::TERM).await;

    let key = master.data_dir().join("pki/intermediate.key");
    let whole = master.file("pki/intermediate.key");
    fs::write(&key, &whole[..40]).unwrap();
    let refused = master.verb(&["run"]).await;
    assert!(refused.code == 1 && refused.stderr.contains("intermediate.key"), "{refused:?}");
    assert_eq!(fs::read_to_string(&key).unwrap(), whole[..40]);
    fs::write(&key, whole).unwrap();
    master.start().await;

    let wrong =
        master.verb(&["--secure-port", "x", "--storage", "paper", "--nonsense", "--tls-san", "a b"]).await;
    assert_eq!((wrong.code, wrong.stderr.lines().count()), (2, 4), "{wrong:?}");
    assert!(wrong.stderr.lines().all(|line| line.starts_with("master: ")), "{wrong:?}");
}

#[tokio::test]
async fn conflicting_flags_are_reported_before_any_file_is_created() {
    let master = Master::new();
    let folder = master.data_dir().parent().unwrap().to_owned();
    let nonsense = folder.join("hook.kubeconfig");
    fs::write(&nonsense, "kind: Config\n").unwrap();
    let misled = folder.join("misled.kubeconfig");
    let mut config = Master::running().await.admin().unwrap();
    config.server = "http://127.0.0.1:1".to_owned();
    fs::write(&misled, config.text()).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let webhook_flags = |file: &str| {
        ["--csr-approval-policy", "webhook", "--csr-approval-webhook", file].map(str::to_owned).to_vec()
    };
    let etcd = |more: &[&str]| {
        [&["--storage", "etcd"], more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (flags, words) in [
        (webhook_flags("/nope"), "--csr-approval-webhook: cannot read /nope"),
        (webhook_flags(nonsense.to_str().unwrap()), "hook.kubeconfig is not a kubeconfig"),
        (
            webhook_flags(misled.to_str().unwrap()),
            "its server \"http://127.0.0.1:1\": write it https://HOST:PORT/PATH",
        ),
        (
            etcd(&["--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", "/nope"]),
            "cannot read /nope; see --etcd-cafile",
        ),
        (
            etcd(&["--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", nonsense.to_str().unwrap()]),
            "certificates for etcd: the CA file contains no certificate",
        ),
        (etcd(&["--secure-port", "x"]), "--etcd-servers is missing"),
        (vec!["--bind-address".to_owned(), "192.0.2.77".to_owned()], "cannot listen on 192.0.2.77:"),
        (
            vec!["--bind-address".to_owned(), "127.0.0.1".to_owned(), "--secure-port".to_owned(), port],
            "cannot listen on 127.0.0.1:",
        ),
    ] {
        let own = ["--secure-port".to_owned(), master.port.to_string()];
        let flags: Vec<String> = own.into_iter().chain(flags).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let refused = master.verb(&[&["run"], &flags[..]].concat()).await;
        assert!(refused.code != 0 && refused.stderr.contains(words), "{words}: {refused:?}");
        assert!(!master.data_dir().exists(), "{words}");
    }
    // The path is too long for the socket that shows that a master runs.
    let long = folder.join("d".repeat(107));
    let refused = master.verb(&["rotate-ca", "--data-dir", long.to_str().unwrap()]).await;
    assert!(
        refused.code == 1 && refused.stderr.contains("but the kernel accepts at most 107"),
        "{refused:?}"
    );
    // A second start reports the running master, whichever port it would use.
    let running = Master::running().await;
    let again = running.verb(&["run", "--secure-port", &running.port.to_string()]).await;
    assert!(again.code == 1 && again.stderr.contains("another master is running on"), "{again:?}");
}

#[tokio::test]
async fn debug_log_contains_every_request_with_its_user() {
    let mut master = Master::new().with_flags(["-v", "6"]);
    master.start().await;
    assert_eq!(master.get_as_admin("/api/v1/namespaces?limit=1").await.0, 200);
    assert_eq!(master.get_as_admin("/api/v1/namespaces/none").await.0, 404);
    let stranger = tests::trusting(&master.admin().unwrap().authority, None).unwrap();
    assert_eq!(master.send_request(&stranger, "/api/v1/secrets").await.unwrap().0, 403);
    let url = format!("https://127.0.0.1:{}/api/v1/pods", master.port);
    assert_eq!(stranger.get(url).bearer_auth("nonsense").send().await.unwrap().status(), 401);
    let admin = "user=\"kubernetes-admin\"";
    for words in [
        ["TRACE", "method=GET", "path=\"/api/v1/namespaces\"", admin, "code=200"],
        ["DEBUG", "method=GET", "path=\"/api/v1/namespaces/none\"", admin, "code=404"],
        ["DEBUG", "method=GET", "path=\"/api/v1/secrets\"", "user=\"system:anonymous\"", "code=403"],
        ["DEBUG", "method=GET", "path=\"/api/v1/pods\"", "user=\"\"", "code=401"],
        ["INFO", "created a new serving certificate", "", "", ""],
        ["INFO", "file=\"root.crt\"", "", "", ""],
    ] {
        let log = master.log();
        let is_reported = log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(is_reported, "{words:?} in no line of\n{log}");
    }
    assert!(!master.log().contains("nonsense") && !master.log().contains("limit=1"), "{}", master.log());
}
