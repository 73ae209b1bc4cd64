//! Pods that end: restart policies, exit codes, messages, init containers, sidecars.

use tests::manifest::{FOREVER, container, pod, scripted};
use tests::{Pod, World};

#[tokio::test]
async fn completed_pod_stays_completed() {
    let world = World::running("ends").await;
    world.write("job.yaml", &scripted("job", "OnFailure", "echo 42; echo done >/dev/termination-log"));
    let job = world.wait_for_pod("job", "to succeed", |pod| pod.phase() == "Succeeded").await;
    assert_eq!(job.terminated("main")["exitCode"], 0);
    assert_eq!(job.terminated("main")["reason"], "Completed");
    assert_eq!(job.terminated("main")["message"], "done\n");
    assert_eq!(job.condition("Ready"), "False");
    let first = world.container("job", "main").await.unwrap();
    assert_eq!(world.wait_for_log("job", "main", "42").await, "42\n");
    // After another pod has started and ended it is still the same container.
    world.write("next.yaml", &scripted("next", "Never", "true"));
    world.wait_for_pod("next", "to succeed", |pod| pod.phase() == "Succeeded").await;
    assert_eq!(world.container("job", "main").await.unwrap(), first);
}

#[tokio::test]
async fn restart_policy_decides_on_restarts_after_failure() {
    let world = World::running("policy").await;
    // Fails until its second start; it counts its starts in a volume that outlives its containers.
    let count = "echo x >>/data/starts; [ $(wc -l </data/starts) -ge 2 ] || exit 3";
    let main = container("main", count, "volumeMounts: [{name: work, mountPath: /data}]");
    let spec =
        format!("restartPolicy: OnFailure\nvolumes: [{{name: work, emptyDir: {{}}}}]\ncontainers:\n- {main}");
    world.write("again.yaml", &pod("again", &spec));
    world.write("never.yaml", &scripted("never", "Never", "exit 3"));

    let never = world.wait_for_pod("never", "to fail", |pod| pod.phase() == "Failed").await;
    assert_eq!(never.terminated("main")["exitCode"], 3);
    assert_eq!(never.terminated("main")["reason"], "Error");
    assert_eq!(never.restarts("main"), 0);
    let again = world.wait_for_pod("again", "to succeed", |pod| pod.phase() == "Succeeded").await;
    assert_eq!(again.restarts("main"), 1);
}

#[tokio::test]
async fn crashing_container_waits_in_crash_loop_back_off() {
    let world = World::running("crash").await;
    world.write("crash.yaml", &scripted("crash", "Always", "exit 7"));
    let backing_off = |pod: &Pod| pod.waiting("main") == "CrashLoopBackOff";
    let crash = world.wait_for_pod("crash", "to back off", backing_off).await;
    assert_eq!(crash.container("main")["lastState"]["terminated"]["exitCode"], 7);
    assert_eq!(crash.phase(), "Running");
    world.wait_for_event("crash", "BackOff").await;
}

#[tokio::test]
async fn init_containers_run_in_order_before_app_containers() {
    let world = World::running("init").await;
    let mount = "volumeMounts: [{name: work, mountPath: /data}]";
    let step = |name: &str| container(name, &format!("echo {name} >>/data/order"), mount);
    let main = container("main", "echo main >>/data/order; cat /data/order", mount);
    let spec = format!(
        "restartPolicy: Never\nvolumes: [{{name: work, emptyDir: {{}}}}]\ninitContainers:\n- {}\n- {}\ncontainers:\n- {main}",
        step("first"),
        step("second")
    );
    world.write("init.yaml", &pod("init", &spec));
    world.wait_for_pod("init", "to succeed", |pod| pod.phase() == "Succeeded").await;
    world.wait_for_log("init", "main", "first\nsecond\nmain\n").await;
}

#[tokio::test]
async fn failed_init_container_fails_a_never_restarting_pod() {
    let world = World::running("initfail").await;
    let init = container("init", "exit 5", "");
    let spec = format!(
        "restartPolicy: Never\ninitContainers:\n- {init}\ncontainers:\n- {}",
        container("main", "echo x", "")
    );
    world.write("init.yaml", &pod("init", &spec));
    let failed = world.wait_for_pod("init", "to fail", |pod| pod.phase() == "Failed").await;
    assert_eq!(failed.terminated("init")["exitCode"], 5);
    assert!(world.container("init", "main").await.is_err(), "the main container never starts");
}

#[tokio::test]
async fn pod_with_a_sidecar_ends_with_its_main_container() {
    let world = World::running("sidecar").await;
    let mount = "volumeMounts: [{name: work, mountPath: /data}]";
    let sidecar = container(
        "sidecar",
        &format!("touch /data/up; {FOREVER}"),
        &format!("restartPolicy: Always, {mount}"),
    );
    let main = container("main", "until [ -e /data/up ]; do usleep 50000; done; echo seen", mount);
    let spec = format!(
        "restartPolicy: Never\nvolumes: [{{name: work, emptyDir: {{}}}}]\ninitContainers:\n- {sidecar}\ncontainers:\n- {main}"
    );
    world.write("job.yaml", &pod("job", &spec));
    world.wait_for_pod("job", "to succeed", |pod| pod.phase() == "Succeeded").await;
    let state = async || {
        let sidecar = world.container("job", "sidecar").await;
        if sidecar.as_ref().is_ok_and(|sidecar| sidecar.is_running()) {
            Err(format!("{sidecar:?}"))
        } else {
            Ok(())
        }
    };
    world.wait_for("the sidecar to end", state).await;
}

#[tokio::test]
async fn active_deadline_ends_the_pod() {
    let world = World::running("deadline").await;
    let spec = format!("activeDeadlineSeconds: 1\ncontainers:\n- {}", container("main", FOREVER, ""));
    world.write("slow.yaml", &pod("slow", &spec));
    let slow = world.wait_for_pod("slow", "to fail", |pod| pod.phase() == "Failed").await;
    assert_eq!(slow.text("/status/reason"), "DeadlineExceeded");
}
