//! Pod status: phase, conditions and container states, one case per line.

use super::*;
use k8s_openapi::api::core::v1::PodCondition;

use crate::observed::EDIT_PENDING;
use crate::plan::status;

const WEB: &str = "containers: [{name: web, image: a}]";

/// `phase; container states; conditions that are True`.
fn status_summary(moment: &Moment) -> String {
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
    assert_eq!(status_summary(&moment), expected);
}

#[test]
fn pod_status_follows_a_normal_lifecycle() {
    check(Moment::of(WEB), "Pending; web=ContainerCreatingx0; Initialized PodScheduled");
    check(
        Moment::of(WEB).up(),
        "Pending; web=ContainerCreatingx0; PodReadyToStartContainers Initialized PodScheduled",
    );
    check(
        Moment::of(WEB).up().with("web", 0, running(2)),
        "Running; web=Readyx0; PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled",
    );
}

#[test]
fn the_end_of_a_container_is_shown_before_its_back_off() {
    for (ended_at, expected) in
        [(99, "Error(1)"), (98, "Error(1)"), (97, "CrashLoopBackOff"), (90, "CrashLoopBackOff")]
    {
        check(
            Moment::of(WEB).up().with("web", 0, exited(1, ended_at)).tune(|m| {
                m.observed.containers[0].back_off = Duration::from_secs(20);
            }),
            &format!("Running; web={expected}x0; PodReadyToStartContainers Initialized PodScheduled"),
        );
    }
    check(
        Moment::of(WEB).up().with("web", 0, exited(1, 90)),
        "Running; web=Error(1)x0; PodReadyToStartContainers Initialized PodScheduled",
    );
}

#[test]
fn deleted_pod_succeeds_if_its_containers_succeeded() {
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
    // Its containers are unknown.
    let unknown = ending(Moment::of(WEB).up().with("web", 0, running(2)));
    let unknown = unknown.tune(|m| m.pod.spec.as_mut().unwrap().containers.clear());
    assert!(status_summary(&unknown).starts_with("Running;"), "{}", status_summary(&unknown));
}

#[test]
fn readiness_follows_the_probe() {
    let spec = "containers: [{name: web, image: a, readinessProbe: {tcpSocket: {port: 1}}}]";
    let web = || Moment::of(spec).up().with("web", 0, running(2));
    check(web(), "Running; web=Runningx0; PodReadyToStartContainers Initialized PodScheduled");
    check(
        web().probe_result("web0", Kind::Readiness, true),
        "Running; web=Readyx0; PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled",
    );
}

#[test]
fn container_that_never_started_does_not_count_as_restart() {
    let counts = |moment: Moment| {
        let status = moment.look(|input| status(input, &compute_pod_actions(input), &[], &[]));
        status.container_statuses.unwrap_or_default().iter().map(|c| c.restart_count).collect::<Vec<_>>()
    };
    let made = || Moment::of(WEB).up().with("web", 1, exited(1, 90));
    assert_eq!(counts(made()), [1]);
    assert_eq!(counts(made().with("web", 2, State::Created)), [1]);
    assert_eq!(counts(made().with("web", 2, running(95))), [2]);
}

#[test]
fn pod_that_never_restarts_succeeds_or_fails() {
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
fn pod_is_pending_until_init_containers_complete() {
    let spec = "initContainers: [{name: one, image: a}]\ncontainers: [{name: web, image: a}]";
    check(
        Moment::of(spec).up().with("one", 0, running(2)),
        "Pending; one=Runningx0 web=PodInitializingx0; PodReadyToStartContainers PodScheduled",
    );
    check(
        Moment::of(spec).up().with("one", 0, exited(0, 9)),
        "Pending; one=Completed(0)x0 web=PodInitializingx0; PodReadyToStartContainers Initialized PodScheduled",
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
fn status_contains_failure_reasons() {
    let failed = |retry_at| Moment::of(WEB).up().failed(Key::Container("web".to_owned()), retry_at);
    check(failed(109), "Pending; web=ErrImagePullx0; PodReadyToStartContainers Initialized PodScheduled");
    assert_eq!(failed(109).plan().wake_at, Some(at(102)), "three seconds after it failed");
    check(failed(107), "Pending; web=ImagePullBackOffx0; PodReadyToStartContainers Initialized PodScheduled");
    assert_eq!(failed(107).plan().wake_at, Some(at(107)));
}

/// A condition that is not simply True, as `type=status reason: message`.
fn conditions(moment: &Moment, before: &[(&str, &str)]) -> Vec<String> {
    let plan = moment.plan();
    let before: Vec<PodCondition> = before
        .iter()
        .map(|(kind, status)| PodCondition {
            type_: (*kind).to_owned(),
            status: (*status).to_owned(),
            ..PodCondition::default()
        })
        .collect();
    let status = moment.look(|input| status(input, &plan, &before, &["192.0.2.1".parse().unwrap()]));
    let all = status.conditions.unwrap().into_iter().filter(|c| c.status != "True" || c.reason.is_some());
    all.map(|c| {
        let (reason, message) = (c.reason.unwrap_or_default(), c.message.unwrap_or_default());
        format!("{}={} {reason}: {message}", c.type_, c.status)
    })
    .collect()
}

#[test]
fn conditions_have_the_stock_reasons_and_messages() {
    let init =
        "initContainers: [{name: one, image: a}, {name: two, image: a}]\ncontainers: [{name: web, image: a}]";
    let side = "initContainers: [{name: side, image: a, restartPolicy: Always}]\ncontainers: [{name: web, image: a}]";
    let never = |spec: &str| format!("restartPolicy: Never\n{spec}");
    let gated = format!(
        "readinessGates: [{{conditionType: example.com/a}}, {{conditionType: example.com/b}}]\n{WEB}"
    );
    let down = "PodReadyToStartContainers=False : ";
    let both = |reason: &str| [format!("Ready=False {reason}"), format!("ContainersReady=False {reason}")];
    let case = |first: &[&str], reason: &str| -> Vec<String> {
        first.iter().map(|text| (*text).to_owned()).chain(both(reason)).collect()
    };
    let init_fails = Moment::of(&never(init)).with("one", 0, exited(1, 9));
    assert_eq!(
        conditions(&init_fails, &[]),
        case(
            &[
                down,
                "Initialized=False ContainersNotInitialized: containers with incomplete status: [one two]"
            ],
            "PodFailed: "
        ),
    );
    let second = Moment::of(init).up().with("one", 0, exited(0, 3)).with("two", 0, running(4));
    assert_eq!(
        conditions(&second, &[]),
        case(
            &["Initialized=False ContainersNotInitialized: containers with incomplete status: [two]"],
            "ContainersNotReady: containers with unready status: [web]"
        ),
    );
    let starts = Moment::of(side).up();
    assert_eq!(
        conditions(&starts, &[]),
        case(
            &["Initialized=False ContainersNotInitialized: containers with incomplete status: [side]"],
            "ContainersNotReady: containers with unready status: [side web]"
        ),
    );
    let done = Moment::of(&never(WEB)).with("web", 0, exited(0, 9));
    assert_eq!(conditions(&done, &[]), case(&[down, "Initialized=True PodCompleted: "], "PodCompleted: "));
    let failed = Moment::of(&never(WEB)).with("web", 0, exited(3, 9));
    assert_eq!(conditions(&failed, &[]), case(&[down], "PodFailed: "));
    let runs = Moment::of(&gated).up().with("web", 0, running(2));
    for (before, message) in [
        (
            &[][..],
            "corresponding condition of pod readiness gate \"example.com/a\" does not exist., corresponding condition of pod \
             readiness gate \"example.com/b\" does not exist.",
        ),
        (
            &[("example.com/a", "True"), ("example.com/b", "False")][..],
            "the status of pod readiness gate \"example.com/b\" is not \"True\", but False",
        ),
    ] {
        assert_eq!(conditions(&runs, before), [format!("Ready=False ReadinessGatesNotReady: {message}")]);
    }
}

#[test]
fn pending_edit_sets_a_pod_condition() {
    let condition = |moment: &Moment, previous: &[PodCondition]| {
        let status = moment.look(|input| status(input, &moment.plan(), previous, &[]));
        status.conditions.unwrap().into_iter().find(|condition| condition.type_ == EDIT_PENDING)
    };
    let runs = || Moment::of(WEB).up().with("web", 0, running(2));
    assert_eq!(condition(&runs(), &[]), None);
    let edit = RefusedEdit { reason: "UnsupportedField".to_owned(), message: "leave it out".to_owned() };
    let refused = condition(&runs().tune(|m| m.refused_edit = Some(edit)), &[]).unwrap();
    let part = |condition: &PodCondition| (condition.status.clone(), condition.reason.clone().unwrap());
    assert_eq!(part(&refused), ("True".to_owned(), "UnsupportedField".to_owned()));
    assert_eq!(refused.message.as_deref(), Some("leave it out"));
    let waits = condition(&runs().failed(Key::Replacement("web".to_owned()), 110), &[]).unwrap();
    assert_eq!(part(&waits), ("True".to_owned(), "ErrImagePull".to_owned()));
    let over = condition(&runs(), &[refused]).unwrap();
    assert_eq!(part(&over).0, "False", "a merge patch takes no condition away");
}
