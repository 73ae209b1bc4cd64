//! Termination of pods, one case per line.

use super::*;

const WEB: &str =
    "terminationGracePeriodSeconds: 20\ncontainers: [{name: web, image: a}, {name: db, image: a}]";
const SIDE: &str = "terminationGracePeriodSeconds: 20\ninitContainers: [{name: s1, image: a, restartPolicy: Always}, {name: s2, image: a, restartPolicy: Always}]\ncontainers: [{name: web, image: a}]";

fn ended(mut moment: Moment, since: i64, grace_seconds: i64) -> Moment {
    moment.ending = Some(Ending { since: at(since), grace_seconds });
    moment
}

#[test]
fn containers_stop_in_parallel_before_the_sandbox_is_removed() {
    let up = || Moment::of(WEB).up().with("web", 0, running(2)).with("db", 0, running(2));
    assert_eq!(ended(up(), 100, 20).summary(), "stop db0 20s PodEnds, stop web0 20s PodEnds");
    assert_eq!(ended(up(), 90, 20).summary(), "stop db0 10s PodEnds, stop web0 10s PodEnds");
    assert_eq!(ended(up(), 60, 20).summary(), "stop db0 2s PodEnds, stop web0 2s PodEnds");
    assert_eq!(ended(up(), 100, 0).summary(), "stop db0 0s PodEnds, stop web0 0s PodEnds");
    let half = Moment::of(WEB).up().with("web", 0, running(2)).with("db", 0, exited(0, 99));
    assert_eq!(ended(half, 100, 20).summary(), "stop web0 20s PodEnds");
    let stop_all = Moment::of(WEB).up().with("web", 0, State::Created).with("db", 0, exited(0, 99));
    assert_eq!(ended(stop_all, 100, 20).summary(), "remove db0, remove web0, remove sb");
}

#[test]
fn sidecars_end_last_in_reverse_order() {
    let up = || Moment::of(SIDE).up().with("s1", 0, running(2)).with("s2", 0, running(2));
    assert_eq!(ended(up().with("web", 0, running(3)), 100, 20).summary(), "stop web0 20s PodEnds");
    assert_eq!(ended(up().with("web", 0, exited(0, 99)), 100, 20).summary(), "stop s20 20s PodEnds");
    let last = Moment::of(SIDE).up().with("s1", 0, running(2)).with("s2", 0, exited(0, 99));
    assert_eq!(ended(last, 100, 20).summary(), "stop s10 20s PodEnds");
}

#[test]
fn ephemeral_container_stops_with_its_pod() {
    let debugged = || Moment::of(SIDE).up().tune(|m| m.pod = debugged(SIDE, &["debug"]));
    let up = || debugged().with("s1", 0, running(2)).with("web", 0, running(3));
    assert_eq!(
        ended(up().with("debug", 0, running(9)), 100, 20).summary(),
        "stop debug0 20s PodEnds, stop web0 20s PodEnds"
    );
    assert_eq!(ended(up().with("debug", 0, State::Created), 100, 20).summary(), "stop web0 20s PodEnds");
    // While its image is being pulled nothing is removed; the pull is aborted.
    let key = Key::Container("debug".to_owned());
    assert_eq!(ended(debugged().busy(key.clone()), 100, 20).summary(), "");
    assert!(hashes(&debugged().pod).of(&key).is_some());
    assert_eq!(ended(debugged(), 100, 20).summary(), "remove sb");
}

#[test]
fn pod_directory_is_removed_last() {
    assert_eq!(ended(Moment::of(WEB), 100, 20).summary(), "clean up");
    let clean = ended(Moment::of(WEB), 100, 20).tune(|m| m.history.cleaned_up = true);
    assert!(clean.plan().gone);
    let busy = ended(Moment::of(WEB), 100, 20).busy(Key::Container("web".to_owned()));
    assert_eq!(busy.summary(), "");
}

#[test]
fn evicted_pod_stops_quickly_and_releases_its_resources() {
    let evicted = |moment: Moment| {
        let hashes = hashes(&moment.pod);
        moment.tune(|m| {
            m.history.terminal = Some(Terminal::evicted("too much".to_owned(), eviction(), &hashes))
        })
    };
    let up = Moment::of(WEB).up().with("web", 0, running(2)).with("db", 0, running(2));
    assert_eq!(evicted(up).summary(), "stop db0 2s PodEnds, stop web0 2s PodEnds");
    let stop_all =
        || evicted(Moment::of(WEB).up().with("web", 0, exited(137, 99)).with("db", 0, exited(137, 99)));
    assert_eq!(stop_all().summary(), "empty, remove sb, remove db0, remove web0");
    assert_eq!(stop_all().tune(|m| m.history.emptied = true).summary(), "remove sb, remove db0, remove web0");
}

#[test]
fn a_soft_eviction_shortens_the_grace_period() {
    for (longest, expected) in [(0, "2s"), (7, "7s"), (500, "20s")] {
        let moment = Moment::of(WEB).up().with("web", 0, running(2));
        let hashes = hashes(&moment.pod);
        let eviction = Eviction { grace: Duration::from_secs(longest), ..eviction() };
        let terminal = Terminal::evicted("too much".to_owned(), eviction, &hashes);
        let evicted = moment.tune(|m| m.history.terminal = Some(terminal));
        assert_eq!(evicted.summary(), format!("stop web0 {expected} PodEnds"));
    }
}

#[test]
fn only_an_eviction_because_of_pressure_ends() {
    use crate::observed::Pressure::Memory;
    for (pressure, returned_at, ends) in
        [(Some(Memory), 91, true), (Some(Memory), 90, false), (None, 91, false)]
    {
        let moment = Moment::of(WEB);
        let (hashes, eviction) = (hashes(&moment.pod), Eviction { pressure, ..eviction() });
        let mut history = History {
            terminal: Some(Terminal::evicted("low".to_owned(), eviction, &hashes)),
            emptied: true,
            ..History::default()
        };
        assert_eq!(history.end_eviction(at(returned_at), at(100)), pressure.filter(|_| ends));
        assert_eq!((history.terminal.is_none(), history.revived_at), (ends, ends.then(|| at(100))));
        assert_eq!(history.end_eviction(at(returned_at), at(100)), None);
    }
}

#[test]
fn an_oom_kill_is_new_once() {
    let killed = |finished| {
        let State::Exited(exit) = exited(137, finished) else { return exited(137, finished) };
        State::Exited(Exit { oom_killed: true, ..exit })
    };
    let count = |history: &History, state: State| {
        let observed = Moment::of(WEB).with("web", 0, state).observed;
        history.new_oom_kills(&observed, at(1000)).len()
    };
    let mut history = History::default();
    assert_eq!(count(&history, killed(990)), 1, "it ended before the first look");
    assert_eq!(count(&history, killed(100)), 0, "an earlier kubelet has reported it");
    assert_eq!(count(&history, exited(137, 990)), 0);
    history.remember(&Moment::of(WEB).with("web", 0, running(2)).observed, at(3));
    assert_eq!(count(&history, killed(100)), 1);
    history.remember(&Moment::of(WEB).with("web", 0, killed(100)).observed, at(101));
    assert_eq!(count(&history, killed(100)), 0);
}
