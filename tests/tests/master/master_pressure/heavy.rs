//! Many concurrent CPU-intensive requests: health checks, leases and other users are still served.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::Master;

use crate::master_pressure::bed::{MAPS, map, url, user};

/// Concurrent patches.
const PATCHES: usize = 6;
/// Variables in each patch, about half a megabyte, which take a debug build seconds to merge.
const VARIABLES: usize = 8_000;
/// The slowest other request may take at most this fraction of the attack's duration. A server that computes patches on
/// its request threads needs a third, because its two threads have three patches each.
const PART: u32 = 6;
/// A busy machine can delay a request. A server that blocks fails in every attempt.
const ATTEMPTS: usize = 3;
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fat"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "fat"}},
            "template": {
                "metadata": {"labels": {"app": "fat"}},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            },
        },
    })
}

/// A strategic merge patch with an explicit element order.
fn patch() -> String {
    let names: Vec<String> = (0..VARIABLES).map(|number| format!("VARIABLE_{number:05}")).collect();
    let env: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": "x"})).collect();
    let order: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let container = json!({"name": "main", "env": env, "$setElementOrder/env": order});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}}).to_string()
}

#[tokio::test]
async fn expensive_patches_do_not_block_other_requests() {
    let master = Master::without_workloads().await;
    let admin = master.client();
    let (mallory, jane) = (user(&master, "mallory").await, user(&master, "jane").await);
    let made = admin.post(url(&master, DEPLOYMENTS)).json(&deployment()).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n"},
        "spec": {"holderIdentity": "n", "leaseDurationSeconds": 40},
    });
    assert_eq!(admin.post(url(&master, LEASES)).json(&lease).send().await.unwrap().status(), 201);
    // Other requests during the attack: health, a lease renewal, a write of another user.
    let round = async |number: usize| {
        let mut slowest = Duration::ZERO;
        let renewed = json!({"spec": {"leaseTransitions": number}});
        let (health, lease) =
            (admin.get(url(&master, "/livez")), admin.patch(url(&master, &format!("{LEASES}/n"))));
        let lease = lease.header("content-type", "application/merge-patch+json").json(&renewed);
        let write = jane.post(url(&master, MAPS)).json(&map(&format!("of-jane-{number}")));
        for request in [health, lease, write] {
            let begun = Instant::now();
            let answer = request.send().await.unwrap();
            assert!(answer.status().is_success(), "{answer:?}");
            slowest = slowest.max(begun.elapsed());
        }
        slowest
    };
    let unloaded = round(0).await;
    let (body, mut number) = (patch(), 0);
    let mut shares = Vec::new();
    for _ in 0..ATTEMPTS {
        let begun = Instant::now();
        let attack = join_all((0..PATCHES).map(|_| {
            let request = mallory.patch(url(&master, &format!("{DEPLOYMENTS}/fat"))).body(body.clone());
            request.header("content-type", "application/strategic-merge-patch+json").send()
        }));
        let mut attack = std::pin::pin!(attack);
        let (mut rounds, mut slowest) = (0, Duration::ZERO);
        let answers = loop {
            number += 1;
            tokio::select! {
                answers = &mut attack => break answers,
                took = round(number) => {
                    (rounds, slowest) = (rounds + 1, slowest.max(took));
                }
            }
        };
        let took = begun.elapsed();
        println!(
            "{PATCHES} patches of {} bytes in {took:?}: {rounds} rounds, the slowest request {slowest:?}, {unloaded:?} before",
            body.len()
        );
        let codes: Vec<u16> = answers.into_iter().map(|answer| answer.unwrap().status().as_u16()).collect();
        assert!(codes.contains(&200), "{codes:?}");
        assert!(codes.iter().all(|code| matches!(code, 200 | 409 | 429)), "{codes:?}");
        assert!(rounds > 0, "nothing else was answered meanwhile");
        if slowest * PART < took {
            return;
        }
        shares.push((slowest, took));
    }
    panic!("the slowest request and the attack took {shares:?}");
}
