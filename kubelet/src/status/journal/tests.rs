//! Events over a restart.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::sync::Arc;

use jiff::SignedDuration;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{Journal, KEPT, LAST_WRITE, MOST_BYTES};
use crate::report::{About, Mail, Note};
use crate::status::Board;
use crate::status::tests::notes::{at, note};

fn post(board: &Board, notes: impl IntoIterator<Item = Note>) {
    let notes = notes.into_iter().collect::<std::collections::VecDeque<_>>();
    let now = notes.back().map_or(at(0), |note| note.at);
    board.post(Mail { notes, ..Mail::default() }, now);
}

/// What the next kubelet shows at that second.
fn next(journal: &Journal, second: i64) -> Arc<Board> {
    let board = Board::new("n1");
    journal.restore(&board, at(second));
    board
}

/// Message and count of each event, oldest first.
fn shown(board: &Board) -> Vec<String> {
    board
        .events()
        .iter()
        .map(|event| format!("{} x{}", event["message"].as_str().unwrap(), event["count"]))
        .collect()
}

#[test]
fn events_are_what_they_were_and_go_on_counting() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::new(folder.path());
    let before = Board::new("n1");
    post(&before, [note("web", "x", 0), note("web", "x", 10), note("db", "y", 5)]);
    post(&before, [Note { about: About::node("n1"), ..note("", "z", 20) }]);
    journal.write(&before);
    let after = next(&journal, 30);
    let strip = |board: &Board| {
        let mut events = board.events();
        events
            .iter_mut()
            .for_each(|event| drop(event["metadata"].as_object_mut().unwrap().remove("resourceVersion")));
        events
    };
    assert_eq!(strip(&after), strip(&before));
    post(&after, [note("web", "x", 40)]);
    assert_eq!(shown(&after), ["y x1", "z x1", "x x3"]);
}

#[test]
fn many_told_as_one_stay_one() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::new(folder.path());
    let before = Board::new("n1");
    post(&before, (0..12).map(|n| note("web", &format!("m{n}"), n)));
    journal.write(&before);
    assert_eq!(shown(&next(&journal, 20)), shown(&before));
}

#[test]
fn an_hour_is_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::new(folder.path());
    let before = Board::new("n1");
    post(&before, [note("web", "old", 0), note("web", "young", 1000)]);
    journal.write(&before);
    let after = next(&journal, 3601);
    assert_eq!(shown(&after), ["young x1"]);
    after.post(Mail::default(), at(1000) + SignedDuration::from_secs(3601));
    assert_eq!(shown(&after), [""; 0], "it expires in its turn");
}

#[test]
fn the_file_holds_the_latest_and_never_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::new(folder.path());
    for (count, message, kept) in
        [(KEPT as i64 + 10, "short".to_owned(), KEPT), (50, "x".repeat(MOST_BYTES / 10), 9)]
    {
        let board = Board::new("n1");
        post(&board, (0..count).map(|n| note(&format!("pod{n}"), &message, n)));
        journal.write(&board);
        assert!(fs::metadata(&journal.path).unwrap().len() <= MOST_BYTES as u64);
        let events = next(&journal, count).events();
        assert_eq!(events.len(), kept);
        assert_eq!(events[kept - 1]["involvedObject"]["name"], format!("pod{}", count - 1));
    }
}

#[test]
fn a_damaged_file_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::new(folder.path());
    for text in ["", "[{", "{}", "[1]", r#"[{"kind": "Event"}, {"involvedObject": 7, "metadata": []}]"#] {
        fs::write(&journal.path, text).unwrap();
        assert_eq!(next(&journal, 0).events().len(), 0, "{text}");
    }
}

#[test]
fn two_that_write_at_once_leave_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::new(folder.path());
    let board = Board::new("n1");
    post(&board, (0..100).map(|n| note(&format!("pod{n}"), "short", n)));
    journal.write(&board);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..100).for_each(|_| journal.write(&board)));
        }
        for _ in 0..200 {
            assert_eq!(journal.load().unwrap().len(), 100);
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_holds_up_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::new(folder.path());
    // Opening it waits for a reader.
    let hangs = folder.path().join("events.json.tmp");
    mknodat(CWD, &hangs, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let last = tokio::spawn({
        let journal = journal.clone();
        async move { journal.write_last(Board::new("n1")).await }
    });
    tokio::task::yield_now().await;
    tokio::time::advance(LAST_WRITE).await;
    last.await.unwrap();
    assert_eq!(fs::read(&hangs).unwrap(), b"[]", "it goes on when the disk does");
}
