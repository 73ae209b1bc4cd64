//! Machines leave, come back and change their addresses; their peers update or remove their routes.

use crate::pod_network_nodes::asking::Client;
use crate::pod_network_nodes::cluster::{Cluster, WEB, at, is_ready_with_range, shows, web};

#[tokio::test]
async fn peer_routes_follow_power_cuts_address_changes_and_node_deletion() {
    let mut cluster = Cluster::of([1, 1, 2]).await;
    let ranges = [cluster.range(&cluster.machines[1]).await, cluster.range(&cluster.machines[2]).await];

    // Power off a machine on the same segment, and the one across the router.
    for gone in [1, 2] {
        let before = web(&cluster.machines[gone]).await;
        let own = web(&cluster.machines[0]).await;
        Client::Pod(&cluster.machines[0], WEB)
            .receives(&at(&before), &format!("{} sees {}", before.name(), own.ip()))
            .await;
        let machine = &mut cluster.machines[gone];
        machine.power_off();
        machine.boot().await;
        machine.node.start().await;
        let again = |pod: &tests::Pod| pod.is_ready() && pod.restarts("main") == 1;
        let after = machine.node.wait_for_pod(WEB, "to run again", again).await;
        let (here, there) = (&cluster.machines[0], &cluster.machines[gone]);
        Client::Pod(here, WEB).receives(&at(&after), &format!("{} sees {}", after.name(), own.ip())).await;
        Client::Pod(there, WEB).receives(&at(&own), &format!("{} sees {}", own.name(), after.ip())).await;
        assert_eq!(cluster.range(there).await, ranges[gone - 1], "a node keeps its range");
    }

    for moved in [1, 2] {
        cluster.machines[moved].renumber(77);
        let (here, there) = (&cluster.machines[0], &cluster.machines[moved]);
        // Neighbour entries for an old address remain valid for a while, so a successful request proves nothing before this check.
        let ways = "ip route show proto 67; bridge fdb show";
        shows(here, ways, &there.address, |shown| shown.contains(&format!("{} ", there.address))).await;
        let (own, other) = (web(here).await, web(there).await);
        Client::Pod(here, WEB).receives(&at(&other), &format!("{} sees {}", other.name(), own.ip())).await;
        Client::Pod(there, WEB).receives(&at(&own), &format!("{} sees {}", own.name(), other.ip())).await;
    }

    // An administrator removes the machines from the cluster for good.
    for gone in [1, 2] {
        cluster.machines[gone].node.kill();
        let (here, there) = (&cluster.machines[0], &cluster.machines[gone]);
        let route = format!("ip route show {}", ranges[gone - 1]);
        shows(here, &route, "the route there", |shown| !shown.is_empty()).await;
        let url = cluster.master.url(&format!("/api/v1/nodes/{}", there.node.node));
        let deleted = cluster.master.client().delete(url).send().await.unwrap();
        assert_eq!(deleted.status().as_u16(), 200);
        shows(here, &route, "nothing", str::is_empty).await;
    }
    shows(&cluster.machines[0], "ip link show type vxlan", "nothing", str::is_empty).await;

    // A removed machine registers again as soon as its kubelet runs.
    cluster.machines[1].node.start().await;
    let back = &cluster.machines[1];
    cluster.wait_for_node(back, "a range and Ready", is_ready_with_range).await;
    let (own, other) = (web(&cluster.machines[0]).await, web(back).await);
    Client::Pod(&cluster.machines[0], WEB)
        .receives(&at(&other), &format!("{} sees {}", other.name(), own.ip()))
        .await;
}
