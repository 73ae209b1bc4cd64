//! Tests of the command line.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::ffi::OsString;

use super::args::{Cli, Verb};
use super::{COMMAND, Failure};

fn read(line: &str) -> Result<Cli, Failure<Cli>> {
    COMMAND.parse(line.split_whitespace().map(OsString::from))
}

#[test]
fn run_is_the_default() {
    for line in ["", "run", "--v 4", "--data-dir /x", "--data-dir=/x --secure-port 1", "run --data-dir /x"] {
        assert!(matches!(read(line).unwrap().verb, Verb::Run(_)), "{line}");
    }
    let Verb::Run(flags) = read("--scheduler --tls-san a,b --tls-san c").unwrap().verb else {
        panic!("no run")
    };
    assert_eq!(flags.scheduler.as_deref(), Some("true"));
    assert_eq!(flags.tls_san, ["a,b", "c"]);
    // As in the stock server, the last value wins.
    for line in ["--v 2 --v 4", "-v 2 -v=4", "run --v=2 -v 4"] {
        let Verb::Run(flags) = read(line).unwrap().verb else { panic!("no run") };
        assert_eq!(flags.v.as_deref(), Some("4"), "{line}");
    }
}

#[test]
fn help_lists_only_flags_that_have_an_effect() {
    let Err(Failure::HelpOrVersion(help)) = read("run --help") else { panic!("no help") };
    let help = help.to_string();
    for shown in [
        "--csr-approval-policy",
        "--scheduling-gates",
        "--node-admission",
        "--cluster-cidr",
        "[default: embedded]",
    ] {
        assert!(help.contains(shown), "{shown} not in {help}");
    }
}

#[test]
fn directory_argument_is_accepted_before_and_after_the_subcommand() {
    for line in ["--data-dir /x join-string", "join-string --data-dir=/x"] {
        let cli = read(line).unwrap();
        assert!(matches!(cli.verb, Verb::JoinString), "{line}");
        assert_eq!(cli.data_dir.unwrap().to_str(), Some("/x"), "{line}");
    }
    let Verb::Kubeconfig(of) = read("kubeconfig --user jane --group a --group b,c").unwrap().verb else {
        panic!("not a kubeconfig")
    };
    assert_eq!((of.user.as_str(), of.group.len()), ("jane", 2), "a comma may be part of a group's name");
}

#[test]
fn private_key_is_written_with_owner_only_permissions() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jane.kubeconfig");
    // As a shell redirection creates it with the usual umask.
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(super::secret(Ok("key".to_owned()), Some(&file)).unwrap(), "", "nothing is printed");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(super::secret(Ok("key".to_owned()), None).unwrap(), "key");
    for line in ["kubeconfig --user jane -o f", "cluster-info --tls-san a --output f"] {
        assert!(read(line).is_ok(), "{line}");
    }
}

#[test]
fn each_command_line_error_is_one_line() {
    for (line, expected) in [
        ("--foo --secure-port 1 --bar=2 --data-dir /x", 2),
        ("kubeconfig", 1),
        ("frobnicate", 1),
        ("--secure-port", 1),
        ("kubeconfig --group a", 1),
        ("backup", 1),
        ("restore --replace", 1),
        ("check --format yaml", 1),
        ("cluster-info", 1),
        ("discovery --cluster-info file", 1),
        ("discovery --cluster-info file --listen nowhere", 1),
    ] {
        match read(line) {
            Err(Failure::Mistakes(found, _)) => {
                assert_eq!(found.len(), expected, "{line}: {found:?}");
                assert!(found.iter().all(|mistake| !mistake.contains('\n') && !mistake.is_empty()));
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    for line in ["--help", "-h", "--version", "run --help", "kubeconfig --help"] {
        assert!(matches!(read(line), Err(Failure::HelpOrVersion(_))), "{line}");
    }
}
