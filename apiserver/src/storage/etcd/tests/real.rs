//! The store on a real etcd.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::bed::{Server, free_port};
use crate::storage::embedded::{self, Embedded};
use crate::storage::etcd::compaction::round;
use crate::storage::etcd::{Certificates, Endpoint, Etcd};
use crate::storage::tests::contract::{self, committed, next, put, values};
use crate::storage::{Error, Expected, Limits, Outcome, Store, Transaction};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_store_fulfils_the_storage_contract() {
    // Each case has its own etcd, which ends when the next one starts.
    let server = Mutex::new(None);
    contract::contract(async |limits: Limits| {
        let fresh = Server::start();
        let store = Arc::new(fresh.open(limits).await.unwrap()) as Arc<dyn Store>;
        *server.lock().unwrap() = Some(fresh);
        store
    })
    .await;
}

#[tokio::test]
async fn foreign_etcd_data_is_not_changed() {
    let server = Server::start();
    let open = || server.open(Limits::default());
    let store = open().await.unwrap();
    put(&store, "/registry/pods/a/b", "x").await;
    assert!(open().await.is_ok(), "it knows its own");
    let write = async |value: &'static str| {
        let format =
            Transaction::put("\0coracle/format", Expected::Any, Bytes::from_static(value.as_bytes()));
        committed(store.commit(format).await)
    };
    write("2").await;
    assert!(matches!(open().await.unwrap_err(), Error::Newer { found: 2, known: 1, .. }));
    write("paper").await;
    assert!(matches!(open().await.unwrap_err(), Error::Damaged { .. }));
    // The state that a stock server would leave.
    let removed = committed(store.commit(Transaction::delete("\0coracle/format", Expected::Any)).await);
    let error = open().await.unwrap_err();
    assert!(error.to_string().contains("another program wrote"), "{error}");
    assert_eq!(store.revision().await.unwrap(), removed, "nothing was changed");
}

#[tokio::test]
async fn many_entries_are_read_page_by_page() {
    let server = Server::start();
    let store = server.open(Limits::default()).await.unwrap();
    for group in 0..12 {
        let write = |n: usize| crate::storage::Write::Put {
            key: format!("/{group:02}/{n:03}").into(),
            value: Bytes::from(vec![b'x'; 10]),
        };
        committed(
            store.commit(Transaction { compares: vec![], writes: (0..100).map(write).collect() }).await,
        );
    }
    let page = store.range("/", None, 1100).await.unwrap();
    assert_eq!((page.entries.len(), page.more), (1100, true));
    let last = page.entries.last().unwrap().key.clone();
    let rest = store.range("/", Some(&last), 1100).await.unwrap();
    assert_eq!((rest.entries.len(), rest.more), (100, false));
}

#[tokio::test]
async fn client_reconnects_to_a_killed_etcd() {
    let mut server = Server::start();
    let store = Arc::new(server.open(Limits::default()).await.unwrap());
    let first = put(&*store, "/a", "one").await;
    server.kill();
    let waiting = {
        let store = store.clone();
        let update = Transaction::put("/a", Expected::Modified(first), Bytes::from_static(b"two"));
        tokio::spawn(async move { store.commit(update).await })
    };
    server.restart();
    let revision = committed(waiting.await.unwrap());
    let found = store.get("/a").await.unwrap();
    assert_eq!((found.revision, found.entry.unwrap().modified), (revision, revision));
    let mut watch = store.watch(first).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, revision);
    server.kill();
    assert!(
        matches!(next(&mut watch).await, Err(Error::Unreachable { .. })),
        "the watch ends with the error"
    );
}

#[tokio::test]
async fn client_skips_an_unreachable_etcd_member() {
    let server = Server::start();
    let away = Endpoint::parse(&format!("http://127.0.0.1:{}", free_port())).unwrap();
    let members = vec![away.clone(), server.endpoint()];
    let store = Etcd::open(members, &Certificates::default(), Limits::default()).await.unwrap();
    let revision = put(&store, "/a", "x").await;
    let mut watch = store.watch(revision - 1).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, revision);
}

#[tokio::test]
async fn a_compaction_keeps_the_revisions_of_the_last_interval() {
    let server = Server::start();
    let store = server.open(Limits::default()).await.unwrap();
    put(&store, "/a", "one").await;
    let last = round(&store.inner, None).await.unwrap();
    assert!(store.watch(1).await.is_ok(), "the first round forgets nothing");
    put(&store, "/a", "two").await;
    let now = round(&store.inner, Some(last)).await.unwrap();
    assert_eq!(now, last + 1);
    assert!(matches!(store.watch(1).await.err(), Some(Error::Compacted { .. })));
    assert!(store.watch(last).await.is_ok());
    // Another control-plane instance gets the event from etcd.
    let other = server.open(Limits::default()).await.unwrap();
    let mut watch = other.watch(1).await.unwrap();
    assert!(matches!(next(&mut watch).await, Err(Error::Compacted { .. })));
    assert_eq!(values(&other, "/").await, ["/a=two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_backup_opens_as_an_embedded_store() {
    let server = Server::start();
    let store = server.open(Limits::default()).await.unwrap();
    for n in 0..7 {
        put(&store, &format!("/{n}"), "x").await;
    }
    let home = tempfile::tempdir().unwrap();
    store.backup(&home.path().join("backup")).await.unwrap();
    let at = store.revision().await.unwrap();
    let revision = embedded::restore(&home.path().join("backup"), &home.path().join("store"), 0).unwrap();
    assert_eq!(revision, at + embedded::RESTORE_JUMP);
    let restored = Embedded::open(home.path().join("store"), Limits::default()).await.unwrap();
    assert_eq!(values(&restored, "/").await, values(&store, "/").await);
}

#[tokio::test]
async fn a_request_over_a_limit_of_etcd_names_the_flag() {
    let server =
        Server::with_flags("http", tempfile::tempdir().unwrap(), vec!["--max-txn-ops=10".to_owned()]);
    let store = server.open(Limits::default()).await.unwrap();
    let write = |n: usize| crate::storage::Write::Put { key: format!("/{n}").into(), value: Bytes::new() };
    let many = Transaction { compares: vec![], writes: (0..11).map(write).collect() };
    let error = store.commit(many).await.unwrap_err();
    assert!(matches!(&error, Error::Invalid(why) if why.contains("--max-txn-ops")), "{error}");
    assert_eq!(values(&store, "/").await, [""; 0]);
}

#[tokio::test]
async fn full_etcd_is_reported_and_still_readable() {
    let flags = vec!["--quota-backend-bytes=2000000".to_owned()];
    let server = Server::with_flags("http", tempfile::tempdir().unwrap(), flags);
    let store = server.open(Limits::default()).await.unwrap();
    // etcd checks its size periodically, so it may exceed its quota for a while.
    let fill = async || {
        for n in 0..1000 {
            let value = Bytes::from(vec![b'x'; 200_000]);
            store.commit(Transaction::create(&format!("/{n}"), value)).await?;
        }
        Ok::<_, Error>(())
    };
    store.check_health().await.unwrap();
    let error = fill().await.unwrap_err();
    assert!(matches!(error, Error::Quota { .. }), "{error}");
    for words in ["--quota-backend-bytes", "etcdctl defrag", "etcdctl alarm disarm"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(
        matches!(store.check_health().await, Err(Error::Quota { .. })),
        "the health check reports the quota without a write"
    );
    assert!(store.get("/0").await.unwrap().entry.is_some());
}

#[tokio::test]
async fn etcd_client_uses_mutual_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (server_pem, server_key) = authority.issue("127.0.0.1");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (name, text) in [("ca", &authority.pem), ("cert", &server_pem), ("key", &server_key)] {
        std::fs::write(path(name), text).unwrap();
    }
    let flags = [("cert-file", "cert"), ("key-file", "key"), ("trusted-ca-file", "ca")];
    let mut flags: Vec<String> =
        flags.iter().map(|(flag, file)| format!("--{flag}={}", path(file))).collect();
    flags.push("--client-cert-auth".to_owned());
    let server = Server::with_flags("https", folder, flags);
    let (own, own_key) = authority.issue("master");
    let trusted = Certificates {
        authority: Some(authority.pem.clone().into_bytes()),
        own: Some((own.into_bytes(), own_key.into_bytes())),
    };
    let store = Etcd::open(vec![server.endpoint()], &trusted, Limits::default()).await.unwrap();
    let revision = put(&store, "/a", "x").await;
    let mut watch = store.watch(revision - 1).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, revision);
    let outcome = store.commit(Transaction::create("/a", Bytes::new())).await.unwrap();
    assert!(matches!(outcome, Outcome::Conflict { .. }));
    for (certificates, expected) in [
        (Certificates { own: None, ..trusted.clone() }, "received fatal alert"),
        (
            Certificates { authority: Some(Authority::new().pem.into_bytes()), ..trusted },
            "invalid peer certificate",
        ),
    ] {
        let error = Etcd::open(vec![server.endpoint()], &certificates, Limits::default()).await.unwrap_err();
        let is_reported = matches!(&error, Error::Refused { reason, .. } if reason.contains(expected));
        assert!(is_reported, "{error}");
    }
}

/// A CA for one test.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(params, key), pem }
    }

    fn issue(&self, name: &str) -> (String, String) {
        let params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}
