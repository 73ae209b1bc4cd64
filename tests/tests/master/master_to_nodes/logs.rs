//! `kubectl logs`, in every version.

use tests::manifest::{container, pod};
use tests::{DEADLINE, kubectls, wait_until};

use crate::master_to_nodes::bed::Cluster;

/// Fails once, then keeps running; each run logs different text.
const TWICE: &str = "if [ ! -e /state/f ]; then echo first run; touch /state/f; exit 1; fi; echo one; echo two; echo three; \
                     trap 'exit 0' TERM; while [ ! -e /state/go ]; do sleep 0.1; done; echo four; sleep 1000000 & wait";

#[tokio::test]
async fn master_serves_container_logs() {
    let cluster = Cluster::new("logs").await;
    let mount = "volumeMounts: [{name: state, mountPath: /state}]";
    let manifest = pod(
        "web",
        &format!(
            "volumes: [{{name: state, emptyDir: {{}}}}]\ncontainers:\n- {}\n- {}",
            container("main", TWICE, mount),
            container("side", "echo aside; trap 'exit 0' TERM; sleep 1000000 & wait", "")
        ),
    );
    let name = cluster.runs("web", &manifest).await;
    let name = name.as_str();
    cluster.world.wait_for_log("web", "main", "three").await;
    cluster.world.wait_for_log("web", "side", "aside").await;
    for kubectl in kubectls() {
        let minor = kubectl.minor;
        for (arguments, expected) in [
            (&["-c", "main"][..], "one\ntwo\nthree\n"),
            (&["-c", "side"], "aside\n"),
            (&["-c", "main", "--previous"], "first run\n"),
            (&["-c", "main", "--tail=1"], "three\n"),
            (&["-c", "main", "--limit-bytes=5"], "one\nt"),
            (&["-c", "main", "--since=1h", "--tail=2"], "two\nthree\n"),
        ] {
            let output = cluster.kubectl(&kubectl, &[&["logs", name], arguments].concat()).await;
            assert_eq!(
                (output.code, output.stdout.as_str()),
                (0, expected),
                "1.{minor} {arguments:?}: {output:?}"
            );
        }
        let stamped =
            cluster.kubectl(&kubectl, &["logs", name, "-c", "main", "--timestamps", "--tail=1"]).await.stdout;
        let time = stamped.strip_suffix(" three\n").unwrap_or_else(|| panic!("1.{minor}: {stamped:?}"));
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "1.{minor}: {time}");
        for (arguments, words) in [
            (&["-c", "nobody"][..], "container nobody is not valid for pod"),
            (&["-c", "side", "--previous"], "previous terminated container \"side\" in pod"),
        ] {
            let output = cluster.kubectl(&kubectl, &[&["logs", name], arguments].concat()).await;
            assert!(output.code != 0 && output.stderr.contains(words), "1.{minor} {arguments:?}: {output:?}");
        }
    }
    // Followed by all of them at once, until the pod ends.
    let follow = |kubectl| cluster.begins(kubectl, &["logs", "-f", name, "-c", "main", "--tail=1"]);
    let all = kubectls();
    let mut following: Vec<_> = all.iter().map(follow).collect();
    for going in &mut following {
        going.prints("three").await;
    }
    let main = cluster.world.container("web", "main").await.unwrap();
    cluster.world.engine.exec(&main.id, &["touch", "/state/go"]).await;
    for going in &mut following {
        going.prints("four").await;
    }
    cluster.world.remove("web.yaml");
    for going in &mut following {
        assert_eq!(going.ends().await, 0);
    }
}

#[tokio::test]
async fn the_node_proxy_serves_kubelet_endpoints_and_accepts_a_new_certificate() {
    let cluster = Cluster::new("proxy").await;
    let node = &cluster.world.node;
    let path = |rest: &str| format!("/api/v1/nodes/{node}/proxy/{rest}");
    for (rest, words) in [
        ("healthz", "ok"),
        ("metrics", "kubelet_running_pods"),
        ("pods", "\"kind\":\"PodList\""),
        ("configz", "clientCAFile"),
        ("containerLogs/default/none/c", "pods \\\"none\\\" not found"),
    ] {
        let (_, text) = cluster.master.get_as_admin(&path(rest)).await;
        assert!(text.contains(words), "{rest}: {text}");
    }
    // The certificate of another node, and then the right one again, without a restart of the kubelet.
    for (whose, code) in [("other", 503), (node.as_str(), 200)] {
        cluster.shows(&cluster.signer.signs_node(whose));
        let look = async || match cluster.master.get_as_admin(&path("healthz")).await {
            (found, _) if found == code => Ok(()),
            (found, text) => Err(format!("{found} {text}")),
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{whose}: {seen}"));
    }
}
