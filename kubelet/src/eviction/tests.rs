//! Which pods return first, and which storage belongs to which file system.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;
use crate::desired::{DesiredPod, SourceKind};
use crate::observed::{Container, Exit, State as ContainerState};

fn evicted(name: &str, priority: i32, seconds: i64) -> Evicted {
    let pod = serde_json::from_value(json!({"spec": {"containers": [], "priority": priority}})).unwrap();
    let pod = DesiredPod { uid: PodUid::new(name), pod: Arc::new(pod), source: SourceKind::File };
    Evicted { pod: Arc::new(pod), at: Timestamp::from_second(seconds).unwrap() }
}

#[test]
fn the_most_important_pod_returns_first() {
    let mut waiting = vec![
        evicted("late", 0, 20),
        evicted("early", 0, 10),
        evicted("important", 1000, 30),
        evicted("least", -1, 1),
    ];
    for expected in ["important", "early", "late", "least"] {
        let next = next_to_return(waiting.clone()).unwrap();
        assert_eq!(next.as_str(), expected);
        waiting.retain(|evicted| evicted.pod.uid != next);
    }
    assert_eq!(next_to_return(waiting), None);
}

#[test]
fn storage_counts_on_its_own_file_system() {
    use Signal::{ImageFsAvailable, MemoryAvailable, NodeFsAvailable};
    for (signal, dedicated, scope, engine) in [
        (NodeFsAvailable, Some(false), DiskScope::All, true),
        (ImageFsAvailable, Some(false), DiskScope::All, true),
        (NodeFsAvailable, Some(true), DiskScope::Volumes, false),
        (ImageFsAvailable, Some(true), DiskScope::Engine, true),
        // The engine is on another machine.
        (NodeFsAvailable, None, DiskScope::Volumes, false),
    ] {
        assert_eq!(disk_scope(signal, dedicated), scope, "{signal} {dedicated:?}");
        assert_eq!(is_of_engine(signal, dedicated), engine, "{signal} {dedicated:?}");
    }
    assert!(!is_of_engine(MemoryAvailable, Some(false)));
}

#[test]
fn a_container_that_has_just_exited_is_not_removed() {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let container = |state| Container {
        id: "id".to_owned(),
        name: "main".to_owned(),
        attempt: 0,
        hash: String::new(),
        back_off: Duration::ZERO,
        image: String::new(),
        image_id: String::new(),
        sandbox_id: String::new(),
        state,
        created_at: at(0),
        stop_signal: None,
        notes: Default::default(),
        message: None,
    };
    let exited = |finished_at| {
        let exit = Exit { code: 0, oom_killed: false, error: None, started_at: None, finished_at };
        container(ContainerState::Exited(exit))
    };
    assert!(is_dead(&exited(at(90)), at(100)));
    assert!(!is_dead(&exited(at(91)), at(100)));
    assert!(!is_dead(&container(ContainerState::Created), at(100)));
    assert!(!is_dead(&container(ContainerState::Running { started_at: at(0), pid: 1 }), at(100)));
    let mut pod = observed::Pod::default();
    for (id, attempt) in [("first", 0), ("second", 1)] {
        pod.put_container(Container { id: id.to_owned(), attempt, ..exited(at(50)) });
    }
    let removed: Vec<&str> = removable(&pod, at(100)).map(|container| container.id.as_str()).collect();
    assert_eq!(removed, ["first"], "the exit of the newest attempt may not be in the history yet");
}
