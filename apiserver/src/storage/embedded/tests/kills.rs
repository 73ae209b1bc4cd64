//! A process that is killed at any moment has lost nothing it was told of.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::open;
use crate::storage::Store;
use crate::storage::tests::contract::put;

/// Kills in a normal run; `CORACLE_KILLS` raises it.
const KILLS: usize = 50;
/// Where the child writes; unset in the parent.
const DIRECTORY: &str = "CORACLE_KILLED_STORE";
const CHILD: &str = "storage::embedded::tests::kills::a_child_writes_until_it_is_killed";
const WRITERS: u64 = 4;

/// Number and revision of the last write of each writer.
type Told = BTreeMap<u64, (u64, u64)>;

#[tokio::test]
async fn what_was_told_outlives_the_process() {
    let kills = env::var("CORACLE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let directory = tempfile::tempdir().unwrap();
    let mut told = Told::new();
    let mut revision = 0;
    for kill in 0..kills {
        let mut child = start(directory.path());
        read_until_killed(&mut child, fastrand::usize(..12), &mut told);
        let store = open(directory.path()).await;
        let now = store.revision().await.unwrap();
        let newest = told.values().map(|(_, revision)| *revision).max().unwrap_or(1);
        assert!(now >= newest.max(revision), "kill {kill}: {now} after {newest} and {revision}");
        revision = now;
        check(&store, &told, kill).await;
    }
    assert!(revision > kills as u64, "they did write");
}

/// Every writer's last word, or one that it had no time to tell of, whole.
async fn check(store: &dyn Store, told: &Told, kill: usize) {
    for writer in 0..WRITERS {
        let (number, revision) = told.get(&writer).copied().unwrap_or((0, 0));
        let found = store.get(&key(writer)).await.unwrap().entry;
        let Some(entry) = found else {
            assert_eq!(number, 0, "kill {kill}: writer {writer} was told of {number}, and it is gone");
            continue;
        };
        let text = String::from_utf8(entry.value.to_vec()).unwrap();
        let at: u64 = text.split(',').next().unwrap().parse().unwrap();
        assert!(text == value(at), "kill {kill}: writer {writer} left {at} torn");
        assert!(
            at >= number && entry.modified >= revision,
            "kill {kill}: writer {writer}: {at} after {number}"
        );
    }
}

fn start(directory: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", CHILD, "--nocapture"]).env(DIRECTORY, directory);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills it when it has told of so many writes, and hears what it said before it died.
fn read_until_killed(child: &mut Child, lines: usize, told: &mut Told) {
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut heard = 0;
    while heard < lines {
        let line = output.next().expect("the child writes until it is killed").unwrap();
        heard += usize::from(hear(&line, told));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for line in output {
        hear(&line.unwrap(), told);
    }
}

/// Takes `told <writer> <number> <revision> .`; the harness says other things.
fn hear(line: &str, told: &mut Told) -> bool {
    let Some(words) = line.strip_prefix("told ").and_then(|line| line.strip_suffix(" .")) else {
        return false;
    };
    let numbers: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
    let last = told.insert(numbers[0], (numbers[1], numbers[2]));
    assert!(last.is_none_or(|(number, revision)| number < numbers[1] && revision < numbers[2]), "{line}");
    true
}

/// Not a test of its own: the process that is killed.
#[tokio::test]
async fn a_child_writes_until_it_is_killed() {
    let Some(directory) = env::var_os(DIRECTORY) else { return };
    let store = Arc::new(open(Path::new(&directory)).await);
    let write = async |writer: u64| {
        let found = store.get(&key(writer)).await.unwrap().entry;
        let text = found.map_or("0".to_owned(), |entry| String::from_utf8(entry.value.to_vec()).unwrap());
        let last: u64 = text.split(',').next().unwrap().parse().unwrap();
        for number in last + 1.. {
            let revision = put(&*store, &key(writer), &value(number)).await;
            println!("told {writer} {number} {revision} .");
        }
    };
    tokio::join!(write(0), write(1), write(2), write(3));
}

fn key(writer: u64) -> String {
    format!("/writers/{writer}")
}

/// Of different lengths, over one page and several.
fn value(number: u64) -> String {
    format!("{number},").repeat(10 + (number % 7) as usize * 300)
}
