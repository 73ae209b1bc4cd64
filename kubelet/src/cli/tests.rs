//! Parsing of subcommands and their arguments.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::ffi::OsString;

use super::Failure;
use super::args::{Cli, Verb};

fn read(line: &str) -> Result<Cli, Failure<Cli>> {
    super::parse(line.split_whitespace().map(OsString::from).collect())
}

fn mistakes(line: &str) -> Vec<String> {
    match read(line) {
        Err(Failure::Mistakes(mistakes, _)) => mistakes,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn run_is_the_default() {
    for line in ["", "run", "--v 4", "--v=4", "--root-dir /x", "--root-dir=/x --port 1", "run --root-dir /x"]
    {
        assert!(matches!(read(line).unwrap().verb, Verb::Run(_)), "{line}");
    }
    let cli =
        read("--root-dir /x --pod-manifest-path /p --manifest-url-header A:b --manifest-url-header C:d")
            .unwrap();
    assert_eq!(cli.root_dir.unwrap().to_str(), Some("/x"));
    let Verb::Run(flags) = cli.verb else { panic!("no run") };
    assert_eq!(flags.pod_manifest_path.as_deref(), Some("/p"));
    assert_eq!(flags.manifest_url_header, ["A:b", "C:d"]);
}

#[test]
fn directory_argument_is_accepted_before_and_after_the_subcommand() {
    for line in ["--root-dir /x get pods", "get pods --root-dir /x", "get --root-dir=/x pods"] {
        let cli = read(line).unwrap();
        assert!(matches!(cli.verb, Verb::Get(_)), "{line}");
        assert_eq!(cli.root_dir.unwrap().to_str(), Some("/x"), "{line}");
    }
}

#[test]
fn kubectl_style_flags_are_parsed() {
    let Verb::Get(get) = read("get po web -o yaml -n shop").unwrap().verb else { panic!("no get") };
    assert_eq!((get.resource.as_str(), get.place.namespace.as_str()), ("po", "shop"));
    let Verb::Logs(logs) =
        read("logs web -c c -f --previous --tail -1 --since 1h --timestamps").unwrap().verb
    else {
        panic!("no logs")
    };
    assert_eq!((logs.tail.as_deref(), logs.since.as_deref()), (Some("-1"), Some("1h")));
    assert!(logs.follow && logs.previous && logs.timestamps);
    let Verb::Exec(exec) = read("exec -it web -c c -- sh -c x --flag").unwrap().verb else {
        panic!("no exec")
    };
    assert!(exec.session.stdin && exec.tty);
    assert_eq!(exec.command, ["sh", "-c", "x", "--flag"]);
}

#[test]
fn logs_need_a_pod_or_a_selector() {
    for line in ["logs web", "logs web main", "logs -l app=web", "logs web --all-containers"] {
        assert!(matches!(read(line).unwrap().verb, Verb::Logs(_)), "{line}");
    }
    for line in ["logs", "logs web -l app=web", "logs web -c main --all-containers"] {
        assert_eq!(mistakes(line).len(), 1, "{line}");
    }
}

#[test]
fn every_unknown_flag_is_an_error() {
    let found = mistakes("--foo --port 1 --bar=2 --root-dir /x");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("--foo") && found[1].contains("--bar"), "{found:?}");
    assert!(mistakes("--prot 1")[0].contains("--port"), "the nearest flag is named");
}

#[test]
fn stock_flag_with_its_value_is_one_error() {
    let found = mistakes("--cgroup-driver systemd --port 1 --pod-max-pids=5 --runonce --foo");
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[0].starts_with("only the stock kubelet has the flag --cgroup-driver"), "{found:?}");
    assert!(found[1].contains("podPidsLimit") && found[2].contains("runOnce"), "{found:?}");
    assert!(found[3].contains("--foo"), "{found:?}");
}

#[test]
fn command_line_errors_are_one_line() {
    for line in ["get", "frobnicate", "get pods -o csv", "exec web sh", "logs", "--port"] {
        let found = mistakes(line);
        assert!(
            found.iter().all(|mistake| !mistake.contains('\n') && !mistake.is_empty()),
            "{line}: {found:?}"
        );
    }
}

#[test]
fn exec_without_double_dash_gets_a_hint() {
    for line in ["exec web ls", "exec web ls -l", "--root-dir /x exec -n ns -it web sh", "exec web"] {
        assert_eq!(
            mistakes(line),
            ["exec needs the command after `--`: kubelet exec POD -- COMMAND"],
            "{line}"
        );
    }
    assert!(!mistakes("exec --tyt web -- ls")[0].contains("needs the command"));
    assert!(!mistakes("logs exec --frob")[0].contains("needs the command"));
}

#[test]
fn help_and_version_are_not_errors() {
    for line in ["--help", "-h", "--version", "get --help", "run --help"] {
        assert!(matches!(read(line), Err(Failure::HelpOrVersion(_))), "{line}");
    }
}
