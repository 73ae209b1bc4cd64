//! The Debian packages on a real dpkg: installation, upgrade, downgrade, removal and purge while pods run.

mod machine;

use std::fs;
use std::time::Duration;

use machine::{Machine, Notified};
use rustix::process::Signal;
use serde_json::Value;
use tests::manifest::{FOREVER, container, pod};
use tests::{DEADLINE, Pod, free_port, wait_until};

/// Two versions of the same programs. Only the version of the package differs.
const OLD: &str = "0.1.0~old";
const NEW: &str = "0.1.0~upgraded";

/// A web server that is ready by a probe each second.
fn web() -> String {
    let script = format!("mkdir -p /www; echo hello >/www/index.html; httpd -p 8080 -h /www; {FOREVER}");
    let probe = "readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1, timeoutSeconds: 30, \
        failureThreshold: 1}, volumeMounts: [{name: memory, mountPath: /memory}]";
    let volume = "volumes: [{name: memory, emptyDir: {medium: Memory}}]";
    pod("web", &format!("containers:\n- {}\n{volume}", container("main", &script, probe)))
}

/// What an upgrade must not change: container, restarts, readiness and the time of its last transition.
fn standing(pod: &Pod) -> Option<(String, i64, Value, Value)> {
    let conditions = pod.0["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    Some((
        pod.container_id("main").to_owned(),
        pod.restarts("main"),
        ready["status"].clone(),
        ready["lastTransitionTime"].clone(),
    ))
}

/// Waits until the kubelet reports the pod as ready.
async fn ready(machine: &Machine) -> (String, i64, Value, Value) {
    let look = async || {
        let pod = machine.pod("web").await?;
        let now = standing(&pod).ok_or("it has no condition")?;
        if now.2 == "True" { Ok(now) } else { Err(format!("it is not ready: {}", pod.0["status"])) }
    };
    wait_until(DEADLINE, look).await.unwrap()
}

/// Restarts the kubelet as the postinst script does by systemd, and checks that the pod stays as it was.
async fn restart(machine: &mut Machine, before: &(String, i64, Value, Value)) {
    machine.stop().await;
    machine.start().await;
    // The tick of the watchdog is half a second, so probes run in these ticks.
    for _ in 0..5 {
        machine.notified("WATCHDOG=1").await;
        let now = standing(&machine.pod("web").await.unwrap());
        assert!(now.as_ref().is_none_or(|now| now == before), "{now:?} was {before:?}");
    }
    assert_eq!(ready(machine).await, *before);
}

#[tokio::test]
async fn pods_keep_running_through_upgrade_downgrade_and_removal_and_end_with_the_purge() {
    let mut machine = Machine::new("deb").await;
    machine.dpkg(&["--install", &machine.package("kubelet", OLD)]).await;
    for file in [
        "usr/share/man/man1/kubelet.1.gz",
        "usr/share/man/man1/kubelet-run.1.gz",
        "usr/share/bash-completion/completions/kubelet",
        "usr/share/zsh/vendor-completions/_kubelet",
        "usr/share/fish/vendor_completions.d/kubelet.fish",
        "usr/share/doc/coracle-kubelet/copyright",
    ] {
        assert!(machine.path(file).exists(), "{file}");
    }
    let enabled = machine.path("etc/systemd/system/multi-user.target.wants/coracle-kubelet.service");
    assert!(enabled.is_symlink(), "the unit is enabled");
    let config = machine.path("etc/coracle/kubelet.yaml");
    let edited = fs::read_to_string(&config).unwrap() + "maxPods: 50\n";
    fs::write(&config, &edited).unwrap();
    fs::write(machine.path("etc/coracle/manifests/web.yaml"), web()).unwrap();

    machine.start().await;
    let before = ready(&machine).await;
    let containers = machine.containers().await;

    // dpkg replaces the files while the old program runs.
    machine.dpkg(&["--install", &machine.package("kubelet", NEW)]).await;
    assert_eq!(machine.version("coracle-kubelet").await, NEW);
    assert_eq!(machine.containers().await, containers);
    restart(&mut machine, &before).await;
    assert_eq!(fs::read_to_string(&config).unwrap(), edited, "an upgrade keeps the edited configuration");

    machine.dpkg(&["--install", &machine.package("kubelet", OLD)]).await;
    assert_eq!(machine.version("coracle-kubelet").await, OLD);
    restart(&mut machine, &before).await;
    assert_eq!(machine.containers().await, containers);

    machine.stop().await;
    let removal = machine.dpkg(&["--remove", "coracle-kubelet"]).await;
    assert!(removal.contains("containers of the node") && removal.contains("continue to run"), "{removal}");
    assert!(!machine.path("usr/bin/kubelet").exists());
    assert!(config.exists() && machine.path("etc/coracle/manifests/web.yaml").exists());
    assert_eq!(machine.containers().await, containers);
    machine.dpkg(&["--install", &machine.package("kubelet", NEW)]).await;
    machine.start().await;
    assert_eq!(ready(&machine).await, before, "a new installation takes over the pods");
    machine.stop().await;

    let purge = machine.dpkg(&["--purge", "coracle-kubelet"]).await;
    assert!(purge.contains("removed 2 containers"), "{purge}");
    assert_eq!(machine.containers().await, []);
    assert_eq!(machine.network_leftovers(), Vec::<String>::new());
    assert!(!machine.path("var/lib/kubelet").exists(), "{purge}");
    assert!(!config.exists() && !enabled.is_symlink());
    // The administrator wrote these files.
    assert!(purge.contains("left manifests in /etc/coracle/manifests"), "{purge}");
    assert!(machine.path("etc/coracle/manifests/web.yaml").exists());
}

#[tokio::test]
async fn a_purge_without_an_engine_names_what_it_leaves() {
    let mut machine = Machine::new("debleft").await;
    machine.dpkg(&["--install", &machine.package("kubelet", OLD)]).await;
    fs::write(machine.path("etc/coracle/manifests/web.yaml"), web()).unwrap();
    machine.start().await;
    ready(&machine).await;
    machine.stop().await;
    let containers = machine.containers().await;
    machine.cut_engine();
    let purge = machine.dpkg(&["--purge", "coracle-kubelet"]).await;
    let label = format!("io.kubernetes.node.name={}", machine.node);
    assert!(purge.contains("no Docker engine answers") && purge.contains(&label), "{purge}");
    assert!(purge.contains("left the state of the node in /var/lib/kubelet"), "{purge}");
    assert!(machine.path("var/lib/kubelet/node").exists());
    assert_eq!(machine.containers().await, containers);
}

#[tokio::test]
async fn the_watchdog_is_informed_while_the_engine_is_away() {
    let mut machine = Machine::new("debwait").await;
    machine.dpkg(&["--install", &machine.package("kubelet", OLD)]).await;
    machine.cut_engine();
    machine.launch();
    machine.notified("STATUS=the container engine does not answer").await;
    machine.notified("WATCHDOG=1").await;
    assert!(!machine.has_notified("READY=1"), "the start is not complete without an engine");
    machine.stop().await;
}

#[tokio::test]
async fn the_master_package_keeps_its_data_through_removal_and_purge() {
    let machine = Machine::new("debmaster").await;
    machine.dpkg(&["--install", &machine.package("master", OLD)]).await;
    let unit = machine.unit("master");
    let port = free_port();
    let data = machine.path("var/lib/master");
    let flags = [
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--data-dir={}", data.display()),
    ];
    let mut notified = Notified::new(&machine.path("run/notify"));
    let mut master = machine.run(&unit, "$MASTER_FLAGS", &flags, &notified);
    notified.wait_for("READY=1").await;
    assert!(notified.text().contains("STATUS=serves the Kubernetes API at 127.0.0.1"), "{}", notified.text());
    notified.wait_for("WATCHDOG=1").await;
    machine.dpkg(&["--install", &machine.package("master", NEW)]).await;
    master.signal(Signal::TERM);
    notified.wait_for("STOPPING=1").await;
    let ended = wait_until(DEADLINE, async || master.ended().ok_or_else(|| "it still runs".to_owned())).await;
    assert!(ended.unwrap().success());

    machine.dpkg(&["--remove", "coracle-master"]).await;
    let purge = machine.dpkg(&["--purge", "coracle-master"]).await;
    assert!(purge.contains("left the CA and the objects of the cluster in /var/lib/master"), "{purge}");
    assert!(data.join("admin.kubeconfig").exists());
    assert!(!machine.path("etc/coracle/master.yaml").exists());
}

#[tokio::test]
async fn the_units_have_a_watchdog_and_the_kubelet_no_mount_namespace() {
    let machine = Machine::new("debunit").await;
    for program in ["kubelet", "master"] {
        machine.dpkg(&["--install", &machine.package(program, OLD)]).await;
        let unit = machine.unit(program);
        assert_eq!((unit.value("Type"), unit.value("NotifyAccess")), ("notify", "main"));
        let watchdog: u64 = unit.value("WatchdogSec").parse().unwrap();
        assert!(
            Duration::from_secs(watchdog) >= Duration::from_secs(30),
            "a busy machine is no reason for a restart"
        );
        assert_eq!(unit.value("Restart"), "always");
    }
    let kubelet = machine.unit("kubelet");
    // systemd.exec(5): each of them makes a mount namespace, in which the engine does not see volumes.
    for option in [
        "ProtectSystem",
        "ProtectHome",
        "ProtectProc",
        "PrivateTmp",
        "PrivateDevices",
        "PrivateMounts",
        "ProtectKernelTunables",
        "ProtectKernelModules",
        "ProtectKernelLogs",
        "ProtectControlGroups",
        "ReadWritePaths",
        "ReadOnlyPaths",
        "InaccessiblePaths",
        "TemporaryFileSystem",
        "BindPaths",
        "BindReadOnlyPaths",
        "DynamicUser",
        "RootDirectory",
    ] {
        assert!(!kubelet.has(option), "{option}");
    }
}
