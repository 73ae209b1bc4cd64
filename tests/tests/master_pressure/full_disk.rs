//! The disk under the master's store is full: it says so, shows what is there, and goes on when there is room again.

use serde_json::{Value, json};
use tests::{DEADLINE, Disk, Master, wait_until};

use crate::bed::{MAPS, map, url};

/// In megabytes.
const SIZE: u32 = 16;

#[tokio::test]
async fn a_full_disk_is_told_and_room_puts_it_right() {
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
        // The store may have some room inside its file.
        let refused = loop {
            disk.fill();
            let name = format!("m-{round}-{}", written.len());
            match write(&name).await {
                (201, _) => written.push(name),
                refused => break refused,
            }
        };
        let (code, told) = refused;
        assert_eq!(
            (code, &told["kind"], &told["reason"]),
            (507, &"Status".into(), &"InsufficientStorage".into()),
            "{told}"
        );
        assert!(told["message"].as_str().unwrap().contains("make room and try again"), "{told}");
        let admin = master.data_dir().join("admin.kubeconfig");
        let said = master.kubectl(&admin, &["create", "namespace", &format!("full-{round}")]).await;
        // A small one may find its place yet.
        assert!(said.code == 0 || said.stderr.contains("no room left on the disk"), "{said:?}");
        // Reads go on, of everything that was acknowledged.
        for name in written.iter().map(String::as_str).chain(["first"]) {
            assert_eq!(client.get(format!("{maps}/{name}")).send().await.unwrap().status(), 200, "{name}");
        }
        assert_eq!(master.ask_as_admin("/readyz").await.0, 200, "{}", master.log());
        disk.empty();
        let look = async || match write(&format!("room-{round}")).await {
            (201, _) => Ok(()),
            (code, told) => Err(format!("{code} {told}")),
        };
        wait_until(DEADLINE, look).await.unwrap();
        for name in written {
            assert_eq!(client.delete(format!("{maps}/{name}")).send().await.unwrap().status(), 200);
        }
    }
    // What was refused was not written.
    master.kill();
    master.start().await;
    let list: Value = master.client().get(&maps).send().await.unwrap().json().await.unwrap();
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|map| map["metadata"]["name"].as_str().unwrap())
        // It comes when a controller gets to it.
        .filter(|name| *name != "kube-root-ca.crt")
        .collect();
    assert_eq!(names, ["first", "room-0", "room-1", "room-2"]);
}
