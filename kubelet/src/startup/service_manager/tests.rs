//! Reports of a kubelet whose engine, sources and loops the test controls.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::observed::Timestamp;

/// The state of a kubelet, and the senders of its parts.
struct Node {
    engine: watch::Sender<EngineHealth>,
    desired: watch::Sender<Arc<Desired>>,
    state: State,
}

impl Node {
    fn starting() -> Self {
        let incomplete = Desired { completeness: Completeness::Incomplete, ..Desired::default() };
        let (engine, of_engine) = watch::channel(EngineHealth::Unknown);
        let (desired, of_desired) = watch::channel(Arc::new(incomplete));
        // The sender may be dropped: the kubelet then never stops.
        let stopped = watch::channel(false).1;
        let state = State { engine: of_engine, desired: of_desired, health: Health::new(), stopped };
        Self { engine, desired, state }
    }

    fn complete(&self) {
        self.desired.send_modify(|desired| {
            let now = Desired { completeness: Completeness::Complete, ..Desired::default() };
            *desired = Arc::new(now);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn the_start_is_complete_once_the_engine_answers_and_the_sources_are_read() {
    let node = Node::starting();
    node.complete();
    assert!(!node.state.is_started(None), "the engine has not answered");
    let node = Node::starting();
    let answered = Some(Instant::now());
    assert!(!node.state.is_started(answered), "a source is missing");
    node.complete();
    assert!(node.state.is_started(answered));
}

#[tokio::test(start_paused = true)]
async fn a_source_delays_the_start_by_half_a_minute_at_most() {
    let node = Node::starting();
    let answered = Some(Instant::now());
    tokio::time::advance(SOURCES_TIMEOUT - Duration::from_millis(1)).await;
    assert!(!node.state.is_started(answered));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(node.state.is_started(answered));
}

#[test]
fn the_status_names_what_the_kubelet_waits_for() {
    let node = Node::starting();
    assert_eq!(node.state.status(), "waits for the container engine");
    node.engine.send_replace(EngineHealth::Up);
    assert_eq!(node.state.status(), "runs 0 pods, and waits for a source of pods");
    node.complete();
    assert_eq!(node.state.status(), "runs 0 pods");
    let down =
        EngineHealth::Down { since: Timestamp::now(), message: "the engine does not answer".to_owned() };
    node.engine.send_replace(down);
    assert_eq!(node.state.status(), "the engine does not answer");
}
