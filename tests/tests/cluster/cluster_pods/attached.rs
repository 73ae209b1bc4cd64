//! `kubectl run` with an attached client: whenever a short command ends, the client ends too and has its complete output.

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use tests::{IMAGE, Kubectl, Master, World, kubectls};
use tokio::process::Command;

use crate::cluster_pods::joined;

/// The number of runs of each kind, spread over all installed kubectl versions.
const RUNS: usize = 50;
/// The number of concurrent runs.
const AT_ONCE: usize = 4;
/// A pod starts, ends and is deleted in seconds; a client that hangs would do so forever.
const WITHIN: Duration = Duration::from_secs(90);

/// Commands that end at once, or around the moment at which a client attaches, with output before, during and after that.
const SCRIPTS: [&str; 5] = [
    "echo one; echo two",
    "echo one; sleep 0.1; echo two",
    "echo one; sleep 0.5; echo two",
    "sleep 0.3; echo one; echo two",
    "echo one; sleep 1; echo two",
];

/// Runs one command. Returns a description of the failure.
async fn run(
    master: &Master,
    world: &World,
    kubectl: &Kubectl,
    number: usize,
    flags: &[&str],
) -> Option<String> {
    let script = SCRIPTS[number % SCRIPTS.len()];
    let name = world.pod_name(&format!("run{}{number}", flags.len()));
    let overrides =
        format!(r#"{{"spec": {{"nodeName": "{}", "terminationGracePeriodSeconds": 1}}}}"#, world.node);
    let home = world.path(&format!("home-{name}"));
    std::fs::create_dir_all(&home).unwrap();
    let mut command = Command::new(&kubectl.path);
    command.env("HOME", home).arg("--kubeconfig").arg(master.data_dir().join("admin.kubeconfig"));
    command.args(["run", &name, "--restart=Never", "--image", IMAGE, "--overrides", &overrides]).args(flags);
    command.args(["--command", "--", "sh", "-c", script]);
    command.stdin(Stdio::from(File::open("/dev/null").unwrap())).kill_on_drop(true);
    let begun = Instant::now();
    let what = format!("kubectl 1.{} run {flags:?} -- {script:?}", kubectl.minor);
    match tokio::time::timeout(WITHIN, command.output()).await {
        Err(_) => Some(format!("{what} hangs")),
        Ok(output) => {
            let output = output.unwrap();
            let (printed, errors) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let lines: Vec<&str> = printed.lines().filter(|line| !line.starts_with("pod ")).collect();
            let is_right = output.status.success() && lines == ["one", "two"];
            (!is_right).then(|| format!("{what} after {:?}: {printed:?} {errors:?}", begun.elapsed()))
        }
    }
}

#[tokio::test]
async fn attach_to_short_commands_ends_without_lost_output() {
    let (master, world) = joined("attached").await;
    let kubectls = kubectls();
    for flags in [&["-i", "--rm"][..], &["--attach"]] {
        let runs = iter(0..RUNS)
            .map(|number| run(&master, &world, &kubectls[number % kubectls.len()], number, flags));
        let wrong: Vec<Option<String>> = runs.buffer_unordered(AT_ONCE).collect().await;
        let wrong: Vec<String> = wrong.into_iter().flatten().collect();
        assert!(wrong.is_empty(), "{} of {RUNS}: {wrong:#?}", wrong.len());
    }
}
