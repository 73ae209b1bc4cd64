//! Events across a restart.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::sync::Arc;

use jiff::SignedDuration;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{EventLog, KEPT, LAST_WRITE, MOST_BYTES};
use crate::report::{About, Mail, Note};
use crate::status::StatusManager;
use crate::status::tests::notes::{at, note};

fn apply(status_manager: &StatusManager, notes: impl IntoIterator<Item = Note>) {
    let notes = notes.into_iter().collect::<std::collections::VecDeque<_>>();
    let now = notes.back().map_or(at(0), |note| note.at);
    status_manager.apply(Mail { notes, ..Mail::default() }, now);
}

/// The status manager of the next kubelet process, restored at that second.
fn next(event_log: &EventLog, second: i64) -> Arc<StatusManager> {
    let status_manager = StatusManager::new("n1");
    event_log.restore(&status_manager, at(second));
    status_manager
}

/// Message and count of each event, oldest first.
fn shown(status_manager: &StatusManager) -> Vec<String> {
    status_manager
        .events()
        .iter()
        .map(|event| format!("{} x{}", event["message"].as_str().unwrap(), event["count"]))
        .collect()
}

#[test]
fn restored_events_continue_their_count() {
    let folder = tempfile::tempdir().unwrap();
    let event_log = EventLog::new(folder.path());
    let before = StatusManager::new("n1");
    apply(&before, [note("web", "x", 0), note("web", "x", 10), note("db", "y", 5)]);
    apply(&before, [Note { about: About::node("n1"), ..note("", "z", 20) }]);
    event_log.write(&before);
    let after = next(&event_log, 30);
    let strip = |status_manager: &StatusManager| {
        let mut events = status_manager.events();
        events
            .iter_mut()
            .for_each(|event| drop(event["metadata"].as_object_mut().unwrap().remove("resourceVersion")));
        events
    };
    assert_eq!(strip(&after), strip(&before));
    apply(&after, [note("web", "x", 40)]);
    assert_eq!(shown(&after), ["y x1", "z x1", "x x3"]);
}

#[test]
fn combined_events_stay_combined_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let event_log = EventLog::new(folder.path());
    let before = StatusManager::new("n1");
    apply(&before, (0..12).map(|n| note("web", &format!("m{n}"), n)));
    event_log.write(&before);
    assert_eq!(shown(&next(&event_log, 20)), shown(&before));
}

#[test]
fn events_expire_after_an_hour_across_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let event_log = EventLog::new(folder.path());
    let before = StatusManager::new("n1");
    apply(&before, [note("web", "old", 0), note("web", "young", 1000)]);
    event_log.write(&before);
    let after = next(&event_log, 3601);
    assert_eq!(shown(&after), ["young x1"]);
    after.apply(Mail::default(), at(1000) + SignedDuration::from_secs(3601));
    assert_eq!(shown(&after), [""; 0], "it expires in its turn");
}

#[test]
fn event_log_keeps_a_limited_number_of_latest_events() {
    let folder = tempfile::tempdir().unwrap();
    let event_log = EventLog::new(folder.path());
    for (count, message, kept) in
        [(KEPT as i64 + 10, "short".to_owned(), KEPT), (50, "x".repeat(MOST_BYTES / 10), 9)]
    {
        let status_manager = StatusManager::new("n1");
        apply(&status_manager, (0..count).map(|n| note(&format!("pod{n}"), &message, n)));
        event_log.write(&status_manager);
        assert!(fs::metadata(&event_log.path).unwrap().len() <= MOST_BYTES as u64);
        let events = next(&event_log, count).events();
        assert_eq!(events.len(), kept);
        assert_eq!(events[kept - 1]["involvedObject"]["name"], format!("pod{}", count - 1));
    }
}

#[test]
fn damaged_event_log_is_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let event_log = EventLog::new(folder.path());
    for text in ["", "[{", "{}", "[1]", r#"[{"kind": "Event"}, {"involvedObject": 7, "metadata": []}]"#] {
        fs::write(&event_log.path, text).unwrap();
        assert_eq!(next(&event_log, 0).events().len(), 0, "{text}");
    }
}

#[test]
fn concurrent_event_log_writes_leave_a_complete_file() {
    let folder = tempfile::tempdir().unwrap();
    let event_log = EventLog::new(folder.path());
    let status_manager = StatusManager::new("n1");
    apply(&status_manager, (0..100).map(|n| note(&format!("pod{n}"), "short", n)));
    event_log.write(&status_manager);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..100).for_each(|_| event_log.write(&status_manager)));
        }
        for _ in 0..200 {
            assert_eq!(event_log.load().unwrap().len(), 100);
        }
    });
}

#[tokio::test(start_paused = true)]
async fn hanging_disk_does_not_block_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let event_log = EventLog::new(folder.path());
    // Opening a FIFO waits for a reader.
    let hangs = folder.path().join("events.json.tmp");
    mknodat(CWD, &hangs, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let last = tokio::spawn({
        let event_log = event_log.clone();
        async move { event_log.write_last(StatusManager::new("n1")).await }
    });
    tokio::task::yield_now().await;
    tokio::time::advance(LAST_WRITE).await;
    last.await.unwrap();
    assert_eq!(fs::read(&hangs).unwrap(), b"[]", "it goes on when the disk does");
}
