//! Tests of the advertised address, and of certificate renewal while serving.
#![allow(clippy::unwrap_used, reason = "tests")]

use apiserver::storage::{Expected, Transaction};

use super::*;
use crate::pki::Pki;

#[test]
fn the_advertised_address_is_never_unspecified() {
    let advertised_address = |bind: &str, flag: Option<&str>| {
        let options = Options {
            address: SocketAddr::new(bind.parse().unwrap(), 6443),
            advertise_address: flag.map(|flag| flag.parse().unwrap()),
            ..Options::default()
        };
        address::advertised(&options)
    };
    assert_eq!(advertised_address("0.0.0.0", Some("10.0.0.7")).to_string(), "10.0.0.7");
    assert_eq!(advertised_address("10.0.0.8", None).to_string(), "10.0.0.8");
    for everywhere in ["0.0.0.0", "::"] {
        assert!(!advertised_address(everywhere, None).is_unspecified());
    }
}

#[test]
fn the_serving_certificate_has_all_names_and_addresses_of_the_master() {
    let options = Options {
        address: "10.0.0.8:6443".parse().unwrap(),
        tls_san: vec!["api.example.com".to_owned(), "10.0.0.9".to_owned()],
        ..Options::default()
    };
    let names = address::names(&options, "192.0.2.7".parse().unwrap());
    for address in ["127.0.0.1", "::1", "10.96.0.1", "10.0.0.8", "10.0.0.9", "192.0.2.7"] {
        assert!(names.addresses.contains(&address.parse().unwrap()), "{address}");
    }
    assert!(names.dns.contains("api.example.com"));
}

/// The certificate manager of an empty directory, and its channels.
fn kept(folder: &Path) -> (Keep, watch::Receiver<Arc<tls::Config>>, watch::Receiver<Arc<Pki>>) {
    let (now, data_dir) = (Timestamp::now(), DataDir::at(folder));
    let pki = data_dir.open_pki(now).unwrap();
    let names = Names::of_master("host", "cluster.local", &[]);
    let serving = pki.serving(&names, now).unwrap();
    let chain = serving.chain.clone();
    let (config, configs) = watch::channel(keep::configured(&pki, serving).unwrap());
    let (authorities, believed) = watch::channel(Arc::new(pki));
    let own_address = "127.0.0.1:6443".parse().unwrap();
    let keep = Keep { data_dir, names, own_address, authorities, config, shown: Mutex::new(chain) };
    (keep, configs, believed)
}

fn owned() -> Owned {
    Owned {
        store: Arc::new(storage::Memory::default()),
        service_account_key: "k".to_owned(),
        kept: Kept::Shared,
        noted: None,
    }
}

#[tokio::test(start_paused = true)]
async fn running_master_serves_a_renewed_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (keeping, mut shown, _believed) = kept(folder.path());
    let (_, reloads) = backup::reloading();
    let renewal = tokio::spawn(keep::keep(keeping, owned(), reloads));
    let unchanged = tokio::time::timeout(keep::INTERVAL * 5, shown.changed()).await;
    assert!(unchanged.is_err(), "a young certificate stays");
    let file = folder.path().join("pki/serving.pem");
    let first = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    tokio::time::timeout(keep::INTERVAL * 4, shown.changed()).await.unwrap().unwrap();
    // A certificate that another process has written.
    std::fs::write(&file, first).unwrap();
    tokio::time::timeout(keep::INTERVAL * 4, shown.changed()).await.unwrap().unwrap();
    let unchanged = tokio::time::timeout(keep::INTERVAL * 5, shown.changed()).await;
    assert!(unchanged.is_err(), "it is taken up once");
    renewal.abort();
}

#[tokio::test(start_paused = true)]
async fn running_master_loads_a_new_root_ca_and_ignores_a_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let (keeping, mut shown, mut believed) = kept(folder.path());
    let pki = folder.path().join("pki");
    let (_, reloads) = backup::reloading();
    let renewal = tokio::spawn(keep::keep(keeping, owned(), reloads));
    let before = believed.borrow().root_hash();
    let good = std::fs::read(pki.join("intermediate.crt")).unwrap();
    std::fs::write(pki.join("intermediate.crt"), "broken").unwrap();
    let unchanged = tokio::time::timeout(keep::INTERVAL * 5, shown.changed()).await;
    assert!(unchanged.is_err(), "it goes on with what it has");
    std::fs::write(pki.join("intermediate.crt"), good).unwrap();
    crate::pki::rotate::begin(&pki, Timestamp::now()).unwrap();
    tokio::time::timeout(keep::INTERVAL * 4, believed.changed()).await.unwrap().unwrap();
    let held = believed.borrow_and_update().clone();
    assert_eq!((held.root_hash() != before, held.retiring_hash()), (true, Some(before)));
    assert!(shown.has_changed().unwrap());
    renewal.abort();
}

#[tokio::test(start_paused = true)]
async fn owner_record_is_written_when_it_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (keeping, _shown, believed) = kept(folder.path());
    let (_, reloads) = backup::reloading();
    let owned = owned();
    let store = owned.store.clone();
    let own = keep::mark(&believed.borrow(), "k");
    let other = owner::Mark { root_authority: "x".to_owned(), ..own.clone() };
    owner::claim(&*store, &other, Kept::Shared, false, folder.path()).await.unwrap();
    let keeping = tokio::spawn(keep::keep(keeping, owned, reloads));
    let noted = async || store.get(owner::KEY).await.unwrap().entry.map(|entry| entry.value);
    let theirs = noted().await;
    let mut looks = tokio::time::interval(keep::INTERVAL);
    for _ in 0..3 {
        looks.tick().await;
    }
    assert!(theirs.is_some() && noted().await == theirs, "others have it");
    // The mark is removed by another process.
    store.commit(Transaction::delete(owner::KEY, Expected::Any)).await.unwrap();
    let look = async {
        while noted().await.is_none() {
            looks.tick().await;
        }
    };
    tokio::time::timeout(keep::INTERVAL * 5, look).await.unwrap();
    let noted = noted().await.unwrap();
    assert!(String::from_utf8_lossy(&noted).contains(&own.root_authority), "{noted:?}");
    keeping.abort();
}
