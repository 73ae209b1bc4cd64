//! Connections between pods survive restarts, absences, and repairs of deleted parts of the network.

use tests::Machine;
use tests::manifest::{FOREVER, container, pod};

use crate::pod_network_nodes::cluster::Cluster;

/// A pod that accepts exactly one connection and echoes what it receives.
fn echo(name: &str) -> String {
    pod(
        name,
        &format!("containers:\n- {}", container("main", &format!("nc -l -p 7000 -e cat & {FOREVER}"), "")),
    )
}

/// A pod that sends increasing numbers to another one and stores the echoes; `over` marks the end of the connection.
fn counting(name: &str, to: &str) -> String {
    let script = format!(
        "until [ -s /tmp/heard ]; do\n\
         n=0; while echo $n; do n=$((n+1)); sleep 0.2; done | nc {to} 7000 >/tmp/heard\n\
         done; echo over >>/tmp/heard; {FOREVER}"
    );
    pod(name, &format!("containers:\n- {}", container("main", &script, "")))
}

/// A connection from a pod of one machine to a pod of another.
struct Connection<'a> {
    client: &'a str,
}

impl Connection<'_> {
    /// The last number that came back.
    async fn count(&self, machine: &Machine) -> Result<u64, String> {
        let container = machine.node.container(self.client, "main").await?;
        let words = ["tail", "-n", "1", "/tmp/heard"];
        let (output, _) = machine.node.engine.exec(&container.id, &words).await;
        assert_ne!(
            output.trim(),
            "over",
            "the connection of {} is over\n{}",
            self.client,
            machine.node.log_tail()
        );
        output.trim().parse().map_err(|_| format!("it sees {output:?}"))
    }

    /// Asserts that the connection still transports data.
    async fn lives(&self, machine: &Machine, after: &str) {
        let what = format!("the connection of {} to go on after {after}", self.client);
        let from = machine.node.wait_for(&what, async || self.count(machine).await).await;
        let look = async || match self.count(machine).await? {
            // More than could have been in flight before.
            count if count > from + 5 => Ok(()),
            count => Err(format!("it counts {count} after {from}")),
        };
        machine.node.wait_for(&what, look).await;
    }
}

#[tokio::test]
async fn pod_connection_survives_faults_of_kubelets_engines_masters_rules_and_links() {
    let mut cluster = Cluster::of([1, 1, 2]).await;
    let connections = [Connection { client: "near" }, Connection { client: "far" }];
    for (number, connection) in connections.iter().enumerate() {
        let server = &cluster.machines[number + 1].node;
        server.write("echo.yaml", &echo("echo"));
        let to = server.wait_ready("echo").await;
        cluster.machines[0]
            .node
            .write(&format!("{}.yaml", connection.client), &counting(connection.client, to.ip()));
    }
    let all_live = async |machine: &Machine, after: &str| {
        for connection in &connections {
            connection.lives(machine, after).await;
        }
    };
    all_live(&cluster.machines[0], "it began").await;

    for number in 0..3 {
        let machine = &mut cluster.machines[number];
        machine.node.kill();
        machine.node.start().await;
        all_live(&cluster.machines[0], "a kubelet was killed and came back").await;
    }
    for number in 0..3 {
        let machine = &mut cluster.machines[number];
        machine.engine.stop().await;
        machine.engine.start().await;
        all_live(&cluster.machines[0], "an engine was restarted").await;
    }
    cluster.master.kill();
    all_live(&cluster.machines[0], "the master went away").await;
    let machine = &mut cluster.machines[0];
    machine.node.kill();
    machine.node.start().await;
    all_live(&cluster.machines[0], "a kubelet came back while the master was away").await;
    cluster.master.start().await;
    all_live(&cluster.machines[0], "the master came back").await;

    let links = "ip -o link show type";
    for harm in [
        "nft flush ruleset; iptables -P FORWARD DROP".to_owned(),
        format!(
            "for link in $({links} bridge | grep -o 'coracle-[0-9a-f]*' | sort -u); do ip link delete $link; done"
        ),
        format!("for link in $({links} vxlan | cut -d ' ' -f 2 | tr -d :); do ip link delete $link; done"),
        "ip route | grep '^10.244.*eth0' | while read route; do ip route delete $route; done".to_owned(),
    ] {
        for machine in [0, 2] {
            cluster.machines[machine].run(&harm);
            all_live(&cluster.machines[0], &harm).await;
        }
    }
    for machine in &cluster.machines {
        machine.cut();
        machine.heal();
        all_live(&cluster.machines[0], "a cable was pulled for a moment").await;
    }
}
