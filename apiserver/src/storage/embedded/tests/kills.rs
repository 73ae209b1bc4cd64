//! A process killed at any moment loses no acknowledged write.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::open;
use crate::storage::Store;
use crate::storage::tests::contract::{put, put_late};

/// Number of kills; `CORACLE_KILLS` raises it.
const KILLS: usize = 50;
/// Directory of the child process; unset in the parent.
const DIRECTORY: &str = "CORACLE_KILLED_STORE";
const CHILD: &str = "storage::embedded::tests::kills::a_child_writes_until_it_is_killed";
const WRITERS: u64 = 6;
/// Writers from this number on defer all but every sixteenth write.
const FIRST_LATE: u64 = 4;
const NOT_LATE_EVERY: u64 = 16;

/// Acknowledged writes since the last kill.
#[derive(Default)]
struct Acknowledged {
    /// Number and revision of each write, by writer.
    writes: BTreeMap<u64, Vec<(u64, u64)>>,
    newest: u64,
    /// Newest revision of a durable write.
    newest_safe: u64,
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let kills = env::var("CORACLE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged { newest: 1, ..Acknowledged::default() };
    for kill in 0..kills {
        let mut child = start(directory.path());
        read_until_killed(&mut child, fastrand::usize(..12), &mut acknowledged);
        let store = open(directory.path()).await;
        let now = store.revision().await.unwrap();
        assert!(now >= acknowledged.newest, "kill {kill}: {now} after {}", acknowledged.newest);
        for writer in 0..WRITERS {
            let found = check(&store, writer, &acknowledged, kill).await;
            acknowledged.writes.insert(writer, found.into_iter().collect());
        }
        acknowledged.newest = now;
    }
    assert!(acknowledged.newest > kills as u64, "they did write");
}

/// Number and revision of a writer's last durable write, or of a complete later one.
async fn check(
    store: &dyn Store,
    writer: u64,
    acknowledged: &Acknowledged,
    kill: usize,
) -> Option<(u64, u64)> {
    let writes = acknowledged.writes.get(&writer).map_or([].as_slice(), Vec::as_slice);
    let (number, revision) = writes
        .iter()
        .rfind(|(_, revision)| *revision <= acknowledged.newest_safe)
        .copied()
        .unwrap_or_default();
    let found = store.get(&key(writer)).await.unwrap().entry;
    let Some(entry) = found else {
        assert_eq!(number, 0, "kill {kill}: writer {writer} lost acknowledged write {number}");
        return None;
    };
    let text = String::from_utf8(entry.value.to_vec()).unwrap();
    let at: u64 = text.split(',').next().unwrap().parse().unwrap();
    assert!(text == value(at), "kill {kill}: writer {writer} left {at} torn");
    assert!(at >= number && entry.modified >= revision, "kill {kill}: writer {writer}: {at} after {number}");
    let as_acknowledged = writes.iter().find(|(number, _)| *number == at);
    assert!(
        as_acknowledged.is_none_or(|(_, revision)| *revision == entry.modified),
        "kill {kill}: {as_acknowledged:?} has become {}",
        entry.modified
    );
    Some((at, entry.modified))
}

fn start(directory: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", CHILD, "--nocapture"]).env(DIRECTORY, directory);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the child after this many acknowledgements and reads its remaining output.
fn read_until_killed(child: &mut Child, lines: usize, acknowledged: &mut Acknowledged) {
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut count = 0;
    while count < lines {
        let line = output.next().expect("the child writes until it is killed").unwrap();
        count += usize::from(record_line(&line, acknowledged));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for line in output {
        record_line(&line.unwrap(), acknowledged);
    }
}

/// Parses `acknowledged <writer> <number> <revision> .` or `late ...`; other output comes from the test harness.
fn record_line(line: &str, acknowledged: &mut Acknowledged) -> bool {
    let Some((how, words)) = line.strip_suffix(" .").and_then(|line| line.split_once(' ')) else {
        return false;
    };
    if !matches!(how, "acknowledged" | "late") {
        return false;
    }
    let numbers: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
    let (number, revision) = (numbers[1], numbers[2]);
    let writes = acknowledged.writes.entry(numbers[0]).or_default();
    assert!(writes.last().is_none_or(|last| last.0 < number && last.1 < revision), "{line}");
    writes.push((number, revision));
    acknowledged.newest = acknowledged.newest.max(revision);
    if how == "acknowledged" {
        acknowledged.newest_safe = acknowledged.newest_safe.max(revision);
    }
    how == "acknowledged"
}

/// The child process, not a test of its own.
#[tokio::test]
async fn a_child_writes_until_it_is_killed() {
    let Some(directory) = env::var_os(DIRECTORY) else { return };
    let store = Arc::new(open(Path::new(&directory)).await);
    let write = async |writer: u64| {
        let found = store.get(&key(writer)).await.unwrap().entry;
        let text = found.map_or("0".to_owned(), |entry| String::from_utf8(entry.value.to_vec()).unwrap());
        let last: u64 = text.split(',').next().unwrap().parse().unwrap();
        for number in last + 1.. {
            if writer >= FIRST_LATE && number % NOT_LATE_EVERY != 0 {
                let revision = put_late(&*store, &key(writer), &value(number)).await;
                println!("late {writer} {number} {revision} .");
            } else {
                let revision = put(&*store, &key(writer), &value(number)).await;
                println!("acknowledged {writer} {number} {revision} .");
            }
        }
    };
    tokio::join!(write(0), write(1), write(2), write(3), write(4), write(5));
}

fn key(writer: u64) -> String {
    format!("/writers/{writer}")
}

/// Values of various lengths, up to several pages.
fn value(number: u64) -> String {
    format!("{number},").repeat(10 + (number % 7) as usize * 300)
}
