//! What pods of a master receive for access to the API: a service-account token, the CA bundle, and the server's address.

use std::process::Command;

use serde_json::{Value, json};
use tests::manifest::{FOREVER, container};
use tests::{Master, Pod, World, trusting};

use crate::cluster_pods::{apply, at_master, bound, joined, kubectl};

/// The path in containers.
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The content of a file in a container.
async fn reads(master: &Master, pod: &str, file: &str) -> String {
    kubectl(master, &["exec", pod, "--", "cat", &format!("{PLACE}/{file}")]).await
}

/// The user that the API server sees for a token.
async fn who(master: &Master, authority: &str, token: &str) -> Value {
    let client = trusting(authority, None).unwrap();
    let url = format!("https://127.0.0.1:{}/apis/authentication.k8s.io/v1/selfsubjectreviews", master.port);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = client.post(url).bearer_auth(token.trim()).json(&review).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 201);
    answer.json::<Value>().await.unwrap()["status"]["userInfo"].take()
}

#[tokio::test]
async fn pod_uses_its_service_account_token_even_after_a_reboot_without_a_master() {
    let (mut master, mut world) = joined("tokens").await;
    apply(&master, &world, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n").await;
    let main = container("main", &format!("env; {FOREVER}"), "");
    apply(&master, &world, &bound(&world, "plain", &format!("containers:\n- {main}"))).await;
    let sources = "[{serviceAccountToken: {path: token, audience: vault, expirationSeconds: 600}}]";
    let robot = format!(
        "serviceAccountName: robot\nsecurityContext: {{runAsUser: 7, fsGroup: 9}}\ncontainers:\n- {}\n\
         volumes:\n- {{name: vault, projected: {{sources: {sources}}}}}",
        container("main", FOREVER, "volumeMounts: [{name: vault, mountPath: /vault}]"),
    );
    apply(&master, &world, &bound(&world, "robot", &robot)).await;
    for name in ["plain", "robot"] {
        at_master(&world, &master, name, "to be Ready", Pod::is_ready).await;
    }

    let [plain, robot] = ["plain", "robot"].map(|name| world.pod_name(name));
    let (token, authority) = (reads(&master, &plain, "token").await, reads(&master, &plain, "ca.crt").await);
    assert_eq!(reads(&master, &plain, "namespace").await, "default");
    let user = who(&master, &authority, &token).await;
    assert_eq!(user["username"], "system:serviceaccount:default:default");
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!([plain]));
    let user = who(&master, &authority, &reads(&master, &robot, "token").await).await;
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    // A token is readable only by the users that run in the pod.
    let look = ["exec", &robot, "--", "stat", "-L", "-c", "%a %u %g"];
    let owned = kubectl(&master, &[&look[..], &[&format!("{PLACE}/token"), "/vault/token"]].concat()).await;
    assert_eq!(owned, "640 7 9\n640 7 9\n");
    let service =
        kubectl(&master, &["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"]).await;
    world.wait_for_log("plain", "main", &format!("KUBERNETES_SERVICE_HOST={service}\n")).await;
    let log = world.wait_for_log("plain", "main", "KUBERNETES_SERVICE_PORT_HTTPS=443\n").await;
    assert!(log.contains(&format!("KUBERNETES_PORT=tcp://{service}:443\n")), "{log}");

    // The machine restarts, and its memory is lost.
    let kept = world.root_dir().join("cluster/pods");
    let is_kept = async || {
        let files = std::fs::read_dir(&kept).map_err(|error| error.to_string())?;
        let names = files.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let tokens = names.filter(|name| name.starts_with("token_")).count();
        if tokens == 3 { Ok(()) } else { Err(format!("{tokens} tokens")) }
    };
    world.wait_for("the tokens to be on the disk", is_kept).await;
    master.kill();
    world.kill();
    let lost = world.containers().await;
    world.engine.remove_all(&world.node).await;
    forget_memory(&world);
    world.start().await;
    for name in ["plain", "robot"] {
        // At first the status may be that of the lost container.
        let is_new = |pod: &Pod| {
            pod.is_ready() && lost.iter().all(|container| container.id != pod.container_id("main"))
        };
        world.wait_for_pod(name, "to run in a new container", is_new).await;
    }
    let output = world.kubelet(&["exec", &plain, "--", "cat", &format!("{PLACE}/token")]).await;
    assert_eq!((output.code, output.stdout), (0, token));
    let events = world.events("plain").await.unwrap();
    assert!(!events.iter().any(|event| event.starts_with("FailedMount")), "{events:?}");
}

/// Unmounts the in-memory volumes of pods.
fn forget_memory(world: &World) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounts.lines().rev().filter_map(|line| line.split(' ').nth(4));
    for point in points.filter(|point| point.starts_with(&world.root_dir().display().to_string())) {
        assert!(Command::new("umount").args(["-l", point]).status().unwrap().success(), "{point}");
    }
}
