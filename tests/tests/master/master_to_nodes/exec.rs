//! `kubectl exec`, `cp` and `attach`, in every version: those before 1.30 over SPDY, the others over WebSocket.

use std::fs;
use std::process::Stdio;

use tests::manifest::{container, pod};
use tests::{DEADLINE, Kubectl, kubectls, wait_until};
use tokio::process::{Child, Command};

use crate::master_to_nodes::bed::{Cluster, Going};

/// Prints its input.
const EAR: &str =
    "trap 'exit 0' TERM; while :; do if read line; then echo heard $line; else sleep 0.1; fi; done";

#[tokio::test]
async fn commands_run_in_containers_through_the_master() {
    let cluster = Cluster::new("exec").await;
    let manifest = pod(
        "web",
        &format!(
            "containers:\n- {}\n- {}",
            container("main", tests::manifest::FOREVER, ""),
            container("ear", EAR, "stdin: true")
        ),
    );
    let name = cluster.runs("web", &manifest).await;
    let name = name.as_str();
    for kubectl in kubectls() {
        let minor = kubectl.minor;
        for (arguments, code, stdout, stderr) in [
            (&["-c", "main", "--", "echo", "a b", "c&d=%41"][..], 0, "a b c&d=%41\n", ""),
            (
                &["-c", "main", "--", "sh", "-c", "echo no >&2; exit 7"],
                7,
                "",
                "no\ncommand terminated with exit code 7\n",
            ),
        ] {
            let output = cluster.kubectl(&kubectl, &[&["exec", name], arguments].concat()).await;
            let is_right = output.code == code && output.stdout == stdout && output.stderr.contains(stderr);
            assert!(is_right, "1.{minor} {arguments:?}: {output:?}");
        }
        let mut cat = cluster.begins(&kubectl, &["exec", "-i", name, "-c", "main", "--", "cat"]);
        cat.types("through the master").await;
        cat.prints("through the master").await;
        cat.ends_input();
        assert_eq!(cat.ends().await, 0, "1.{minor}: the end of its input ends it");

        let here = cluster.world.path(&format!("file-{minor}"));
        let sent: String = (0..60_000).map(|n| format!("{n}\n")).collect();
        fs::write(&here, &sent).unwrap();
        let (there, back) = (format!("{name}:/tmp/file"), format!("{}.back", here.display()));
        for (from, to) in [(here.display().to_string(), &there), (there.clone(), &back)] {
            let output = cluster.kubectl(&kubectl, &["cp", "-c", "main", &from, to]).await;
            assert_eq!(output.code, 0, "1.{minor}: {output:?}");
        }
        assert!(fs::read_to_string(&back).unwrap() == sent, "1.{minor}");

        let mut attached = cluster.begins(&kubectl, &["attach", "-i", name, "-c", "ear"]);
        attached.types(&format!("kubectl 1.{minor}")).await;
        attached.prints(&format!("heard kubectl 1.{minor}")).await;
    }
}

#[tokio::test]
async fn exec_sets_the_terminal_size_of_the_client() {
    let cluster = Cluster::new("tty").await;
    let name = cluster.runs("web", &tests::manifest::sleeper("web")).await;
    for kubectl in kubectls() {
        let home = cluster.world.path("home");
        fs::create_dir_all(&home).unwrap();
        // The terminal size arrives a moment after the command has started.
        let look = "until stty size | grep -q '^17 91'; do :; done; echo it is; exit 5";
        let kubeconfig = cluster.admin();
        let typed = format!(
            "stty cols 91 rows 17; {} --kubeconfig {} exec -it {name} -- sh -c \"{look}\"",
            kubectl.path.display(),
            kubeconfig.display()
        );
        let mut command = Command::new("script");
        command.env("HOME", home).args(["-qec", &typed, "/dev/null"]);
        let mut terminal = Going::new(command, &format!("1.{}", kubectl.minor));
        terminal.prints("it is").await;
        assert_eq!(terminal.ends().await, 5, "1.{}", kubectl.minor);
    }
}

/// Connections of a local server at that port, and how many of them the client has closed.
pub fn held(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let of_server = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words[1].ends_with(&format!(":{port:04X}")) && matches!(words[3], "01" | "08")
    };
    table.lines().skip(1).filter(of_server).count()
}

/// Starts kubectls that send endless data to a program that does not read, and waits until they block.
async fn stuck(cluster: &Cluster, kubectl: &Kubectl, name: &str) -> Vec<Child> {
    let arguments = ["exec", "-i", name, "-c", "main", "--", "sleep", "1000"];
    let home = cluster.world.path("home");
    fs::create_dir_all(&home).unwrap();
    let begin = || {
        let mut command = Command::new(&kubectl.path);
        command.env("HOME", &home).arg("--kubeconfig").arg(cluster.admin()).args(arguments);
        command.stdin(fs::File::open("/dev/zero").unwrap()).stdout(Stdio::null()).stderr(Stdio::null());
        command.kill_on_drop(true).spawn().unwrap()
    };
    let children: Vec<Child> = (0..4).map(|_| begin()).collect();
    for child in &children {
        let pid = child.id().unwrap();
        let mut last = 0;
        let look = async || {
            let counts = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
            let read = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
            let read: u64 = read.parse().unwrap();
            let is_stuck = read == std::mem::replace(&mut last, read) && read > 1_000_000;
            if is_stuck { Ok(()) } else { Err(format!("it has read {read} bytes")) }
        };
        wait_until(DEADLINE, look).await.unwrap();
    }
    children
}

#[tokio::test]
async fn disconnected_clients_are_detected_while_their_data_is_unread() {
    let cluster = Cluster::new("deaf").await;
    let name = cluster.runs("web", &tests::manifest::sleeper("web")).await;
    let found = kubectls();
    let port = cluster.world.api_port.number;
    let mut children = Vec::new();
    // The oldest speaks SPDY, the newest WebSocket.
    for kubectl in [&found[0], &found[found.len() - 1]] {
        children.extend(stuck(&cluster, kubectl, &name).await);
    }
    assert_eq!(held(port), children.len(), "each has a connection from the master");
    for mut child in children {
        child.kill().await.unwrap();
    }
    let look = async || match held(port) {
        0 => Ok(()),
        held => Err(format!("the kubelet still holds {held} connections")),
    };
    // The master detects dead clients after ten to twenty seconds, and the kubelet a dead master as long after that.
    cluster.world.wait_within(2 * DEADLINE, "all of them to be missed", look).await;
}

#[tokio::test]
async fn rbac_roles_decide_who_may_exec() {
    let cluster = Cluster::new("roles").await;
    let name = cluster.runs("web", &tests::manifest::sleeper("web")).await;
    for role in [
        "create role reader --verb=get --resource=pods,pods/log,pods/exec",
        "create role runner --verb=get,create --resource=pods,pods/exec",
        "create rolebinding reader --role=reader --user=reader",
        "create rolebinding runner --role=runner --user=runner",
    ] {
        let arguments: Vec<&str> = role.split(' ').collect();
        let output = cluster.master.kubectl(&cluster.admin(), &arguments).await;
        assert_eq!(output.code, 0, "{role}: {output:?}");
    }
    let kubectl = kubectls().pop().unwrap();
    let forbidden = |user: &str, verb: &str, part: &str| {
        format!(
            "User \"{user}\" cannot {verb} resource \"pods/{part}\" in API group \"\" in the namespace \"default\""
        )
    };
    for (user, arguments, refused) in [
        ("reader", &["logs", &name][..], None),
        ("reader", &["exec", &name, "--", "true"], Some(forbidden("reader", "create", "exec"))),
        ("runner", &["exec", &name, "--", "true"], None),
        ("runner", &["logs", &name], Some(forbidden("runner", "get", "log"))),
    ] {
        let output = cluster.kubectl(&kubectl, &[&["--as", user], arguments].concat()).await;
        let arguments = format!("{user} {arguments:?}: {output:?}");
        match refused {
            None => assert_eq!(output.code, 0, "{arguments}"),
            Some(words) => assert!(output.code != 0 && output.stderr.contains(&words), "{arguments}"),
        }
    }
}
