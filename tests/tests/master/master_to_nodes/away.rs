//! Sessions that one side ends while the other still sends: killed clients and exiting commands.

use std::fs::{self, File};
use std::process::Stdio;

use tests::manifest::{FOREVER, container, pod, sleeper};
use tests::{DEADLINE, kubectls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::master_to_nodes::bed::Cluster;
use crate::master_to_nodes::exec::held;

/// Prints when a connection starts and when it ends.
const PORT: &str = "trap 'exit 0' TERM; nc -ll -p 8080 -e sh -c \
                    'read who; echo $who has come >/proc/1/fd/1; cat >/dev/null; echo $who has gone >/proc/1/fd/1' & wait";
/// The same for a command.
const COMMAND: &str = "read who; echo $who has come; cat >/dev/null; echo $who has gone >/proc/1/fd/1";

#[tokio::test]
async fn killed_client_leaves_no_process_or_connection() {
    let cluster = Cluster::new("away").await;
    let containers = [("main", FOREVER), ("port", PORT)].map(|(name, script)| container(name, script, ""));
    let name = cluster.runs("web", &pod("web", &format!("containers:\n- {}", containers.join("\n- ")))).await;
    let found = kubectls();
    // The oldest speaks SPDY, the newest WebSocket.
    for kubectl in [&found[0], &found[found.len() - 1]] {
        let who = format!("kubectl {}", kubectl.minor);
        let mut command =
            cluster.begins(kubectl, &["exec", "-i", &name, "-c", "main", "--", "sh", "-c", COMMAND]);
        command.types(&who).await;
        command.prints(&format!("{who} has come")).await;

        let mut forwarding = cluster.begins(kubectl, &["port-forward", &name, "0:8080"]);
        let line = forwarding.prints("Forwarding from 127.0.0.1:").await;
        let port = line.split(':').nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let mut connection = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        connection.write_all(format!("{who}\n").as_bytes()).await.unwrap();
        cluster.world.wait_for_log("web", "port", &format!("{who} has come")).await;

        command.is_killed().await;
        cluster.world.wait_for_log("web", "main", &format!("{who} has gone")).await;
        forwarding.is_killed().await;
        cluster.world.wait_for_log("web", "port", &format!("{who} has gone")).await;
    }
    let kubelet = cluster.world.api_port.number;
    let look = async || match held(kubelet) {
        0 => Ok(()),
        held => Err(format!("the kubelet still holds {held} connections")),
    };
    cluster.world.wait_within(DEADLINE, "nothing to be left open", look).await;
}

#[tokio::test]
async fn output_of_a_command_that_ignores_its_input_arrives_completely() {
    let cluster = Cluster::new("unread").await;
    let name = cluster.runs("web", &sleeper("web")).await;
    let home = cluster.world.path("home");
    fs::create_dir_all(&home).unwrap();
    let found = kubectls();
    for kubectl in [&found[0], &found[found.len() - 1]] {
        for _ in 0..5 {
            let mut command = Command::new(&kubectl.path);
            command.env("HOME", &home).arg("--kubeconfig").arg(cluster.admin());
            command.args(["exec", "-i", &name, "--", "sh", "-c", "yes | head -c 1000000; exit 7"]);
            // Sends endless data that nothing reads.
            command.stdin(File::open("/dev/zero").unwrap()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut child = command.spawn().unwrap();
            let mut output = Vec::new();
            let mut stdout = child.stdout.take().unwrap();
            let read = stdout.read_to_end(&mut output);
            tokio::time::timeout(DEADLINE, read).await.unwrap().unwrap();
            let code = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap().code();
            assert_eq!((output.len(), code), (1_000_000, Some(7)), "1.{}", kubectl.minor);
        }
    }
}
