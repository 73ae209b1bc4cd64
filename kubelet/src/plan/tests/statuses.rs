//! What the world is told: phase, conditions and container states, one line a case.

use super::*;
use crate::plan::status;

const WEB: &str = "containers: [{name: web, image: a}]";

/// `phase; container states; conditions that are True`.
fn tell(moment: &Moment) -> String {
    let plan = moment.plan();
    let status = moment.look(|input| status(input, &plan, &[], &["192.0.2.1".parse().unwrap()]));
    let all =
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let states: Vec<String> = all
        .map(|c| {
            let state = c.state.clone().unwrap();
            let word = if let Some(w) = state.waiting {
                w.reason.unwrap()
            } else if let Some(t) = state.terminated {
                format!("{}({})", t.reason.unwrap(), t.exit_code)
            } else if c.ready {
                "Ready".to_owned()
            } else {
                "Running".to_owned()
            };
            format!("{}={word}x{}", c.name, c.restart_count)
        })
        .collect();
    let conditions = status.conditions.unwrap();
    let holding: Vec<&str> =
        conditions.iter().filter(|c| c.status == "True").map(|c| c.type_.as_str()).collect();
    format!("{}; {}; {}", status.phase.unwrap(), states.join(" "), holding.join(" "))
}

fn check(moment: Moment, expected: &str) {
    assert_eq!(tell(&moment), expected);
}

#[test]
fn a_simple_life() {
    check(Moment::of(WEB), "Pending; web=ContainerCreatingx0; Initialized PodScheduled");
    check(
        Moment::of(WEB).up(),
        "Pending; web=ContainerCreatingx0; PodReadyToStartContainers Initialized PodScheduled",
    );
    check(
        Moment::of(WEB).up().with("web", 0, running(2)),
        "Running; web=Readyx0; PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled",
    );
    check(
        Moment::of(WEB).up().with("web", 0, exited(1, 90)).tune(|m| {
            m.observed.containers[0].back_off = Duration::from_secs(20);
        }),
        "Running; web=CrashLoopBackOffx0; PodReadyToStartContainers Initialized PodScheduled",
    );
}

#[test]
fn a_pod_that_is_ended_has_succeeded_when_its_containers_have() {
    let ending =
        |moment: Moment| moment.tune(|m| m.ending = Some(Ending { since: at(90), grace_seconds: 30 }));
    check(
        ending(Moment::of(WEB).up().with("web", 0, running(2))),
        "Running; web=Readyx0; PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled",
    );
    let once = "restartPolicy: Never\ncontainers: [{name: web, image: a}]";
    check(
        ending(Moment::of(once).up().with("web", 0, exited(0, 95))),
        "Succeeded; web=Completed(0)x0; PodReadyToStartContainers Initialized PodScheduled",
    );
    // Nobody knows which containers it had.
    let unknown = ending(Moment::of(WEB).up().with("web", 0, running(2)));
    let unknown = unknown.tune(|m| m.pod.spec.as_mut().unwrap().containers.clear());
    assert!(tell(&unknown).starts_with("Running;"), "{}", tell(&unknown));
}

#[test]
fn readiness_follows_the_probe() {
    let spec = "containers: [{name: web, image: a, readinessProbe: {tcpSocket: {port: 1}}}]";
    let web = || Moment::of(spec).up().with("web", 0, running(2));
    check(web(), "Running; web=Runningx0; PodReadyToStartContainers Initialized PodScheduled");
    check(
        web().verdict("web0", Kind::Readiness, true),
        "Running; web=Readyx0; PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled",
    );
}

#[test]
fn a_container_that_was_never_started_is_no_restart() {
    let counts = |moment: Moment| {
        let status = moment.look(|input| status(input, &plan(input), &[], &[]));
        status.container_statuses.unwrap_or_default().iter().map(|c| c.restart_count).collect::<Vec<_>>()
    };
    let made = || Moment::of(WEB).up().with("web", 1, exited(1, 90));
    assert_eq!(counts(made()), [1]);
    assert_eq!(counts(made().with("web", 2, State::Created)), [1]);
    assert_eq!(counts(made().with("web", 2, running(95))), [2]);
}

#[test]
fn jobs_end() {
    let spec = "restartPolicy: Never\ncontainers: [{name: web, image: a}]";
    check(
        Moment::of(spec).with("web", 0, exited(0, 9)),
        "Succeeded; web=Completed(0)x0; Initialized PodScheduled",
    );
    check(Moment::of(spec).with("web", 0, exited(3, 9)), "Failed; web=Error(3)x0; Initialized PodScheduled");
    let killed = exited(137, 9);
    let State::Exited(exit) = killed else { unreachable!() };
    let killed = State::Exited(Exit { oom_killed: true, ..exit.clone() });
    check(Moment::of(spec).with("web", 0, killed), "Failed; web=OOMKilled(137)x0; Initialized PodScheduled");
    let absent =
        State::Exited(Exit { code: 127, error: Some("no such file".to_owned()), started_at: None, ..exit });
    check(
        Moment::of(spec).with("web", 0, absent),
        "Failed; web=ContainerCannotRun(127)x0; Initialized PodScheduled",
    );
}

#[test]
fn init_containers_hold_back() {
    let spec = "initContainers: [{name: one, image: a}]\ncontainers: [{name: web, image: a}]";
    check(
        Moment::of(spec).up().with("one", 0, running(2)),
        "Pending; one=Runningx0 web=PodInitializingx0; PodReadyToStartContainers PodScheduled",
    );
    check(
        Moment::of(spec).up().with("one", 0, exited(0, 9)),
        "Pending; one=Completed(0)x0 web=PodInitializingx0; PodReadyToStartContainers PodScheduled",
    );
    check(
        Moment::of(spec).up().with("one", 0, exited(0, 9)).with("web", 0, running(10)),
        "Running; one=Completed(0)x0 web=Readyx0; PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled",
    );
    check(
        Moment::of(&format!("restartPolicy: Never\n{spec}")).with("one", 0, exited(1, 9)),
        "Failed; one=Error(1)x0 web=PodInitializingx0; PodScheduled",
    );
}

#[test]
fn failures_are_named() {
    let failed = |retry_at| Moment::of(WEB).up().failed(Key::Container("web".to_owned()), retry_at);
    check(failed(109), "Pending; web=ErrImagePullx0; PodReadyToStartContainers Initialized PodScheduled");
    assert_eq!(failed(109).plan().wake_at, Some(at(101)), "two seconds after it failed");
    check(failed(108), "Pending; web=ImagePullBackOffx0; PodReadyToStartContainers Initialized PodScheduled");
    assert_eq!(failed(108).plan().wake_at, Some(at(108)));
}
