//! The disk of the master's store is full: the master reports it, serves reads, and recovers when space is free again.

use serde_json::{Value, json};
use tests::{DEADLINE, Disk, Master, wait_until};

use crate::master_pressure::bed::{MAPS, map, url};

/// Megabytes; 8 of them are reserved for deletes.
const SIZE: u32 = 24;

#[tokio::test]
async fn a_full_disk_is_reported_and_free_space_recovers_it() {
    let mut master = Master::new();
    let disk = Disk::at(&master.data_dir(), SIZE);
    master.start().await;
    let client = master.client();
    let maps = url(&master, MAPS);
    let write = async |name: &str| {
        let mut object = map(name);
        object["data"] = json!({"x": "x".repeat(100_000)});
        let answer = client.post(&maps).json(&object).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    assert_eq!(write("first").await.0, 201);
    for round in 0..3 {
        let mut written = Vec::new();
        // The store may have free pages in its file.
        let refused = loop {
            disk.fill();
            let name = format!("m-{round}-{}", written.len());
            match write(&name).await {
                (201, _) => written.push(name),
                refused => break refused,
            }
        };
        let (code, response) = refused;
        assert_eq!(
            (code, &response["kind"], &response["reason"]),
            (507, &"Status".into(), &"InsufficientStorage".into()),
            "{response}"
        );
        assert!(response["message"].as_str().unwrap().contains("free disk space and retry"), "{response}");
        let admin = master.data_dir().join("admin.kubeconfig");
        let output = master.kubectl(&admin, &["create", "namespace", &format!("full-{round}")]).await;
        // A small object may still fit.
        assert!(output.code == 0 || output.stderr.contains("the disk is full"), "{output:?}");
        // Reads of all acknowledged objects still work.
        for name in written.iter().map(String::as_str).chain(["first"]) {
            assert_eq!(client.get(format!("{maps}/{name}")).send().await.unwrap().status(), 200, "{name}");
        }
        disk.empty();
        assert_eq!(master.get_as_admin("/readyz").await.0, 200, "{}", master.log());
        let look = async || match write(&format!("room-{round}")).await {
            (201, _) => Ok(()),
            (code, response) => Err(format!("{code} {response}")),
        };
        wait_until(DEADLINE, look).await.unwrap();
        for name in written {
            assert_eq!(client.delete(format!("{maps}/{name}")).send().await.unwrap().status(), 200);
        }
    }
    // Rejected objects were not written.
    master.kill();
    master.start().await;
    let list: Value = master.client().get(&maps).send().await.unwrap().json().await.unwrap();
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|map| map["metadata"]["name"].as_str().unwrap())
        // A controller creates this ConfigMap at any time.
        .filter(|name| *name != "kube-root-ca.crt")
        .collect();
    assert_eq!(names, ["first", "room-0", "room-1", "room-2"]);
}

#[tokio::test]
async fn deletes_on_a_full_disk_free_space_for_new_objects() {
    let mut master = Master::new();
    let disk = Disk::at(&master.data_dir(), SIZE);
    master.start().await;
    let client = master.client();
    let maps = url(&master, MAPS);
    let write = async |name: &str| {
        let mut object = map(name);
        object["data"] = json!({"x": "x".repeat(500_000)});
        let answer = client.post(&maps).json(&object).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let mut written = Vec::new();
    loop {
        let name = format!("large-{}", written.len());
        match write(&name).await {
            (201, _) => written.push(name),
            (507, _) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(written.len() > 3, "{written:?}");
    disk.fill();
    for round in 0..3 {
        for name in &written {
            assert_eq!(client.delete(format!("{maps}/{name}")).send().await.unwrap().status(), 200, "{name}");
        }
        // The disk is still full; deleted objects free pages inside the store.
        let mut again = Vec::new();
        for name in written.iter().take(written.len() / 2) {
            let look = async || match write(&format!("{name}-{round}")).await {
                (201, _) => Ok(()),
                (code, answer) => Err(format!("{code} {answer}")),
            };
            wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("round {round}: {name}: {seen}"));
            again.push(format!("{name}-{round}"));
        }
        written = again;
    }
}
