//! Start, restart and edits of pods, one case per line.

use super::*;

const WEB: &str = "containers: [{name: web, image: a}]";
const JOB: &str = "restartPolicy: Never\ncontainers: [{name: web, image: a}]";
const RETRY: &str = "restartPolicy: OnFailure\ncontainers: [{name: web, image: a}]";
const INIT: &str =
    "initContainers: [{name: one, image: a}, {name: two, image: a}]\ncontainers: [{name: web, image: a}]";
const SIDE: &str = "initContainers: [{name: side, image: a, restartPolicy: Always, startupProbe: {tcpSocket: {port: 1}}}, {name: one, image: a}]\ncontainers: [{name: web, image: a}]";
const PROBED: &str = "containers: [{name: web, image: a, livenessProbe: {tcpSocket: {port: 1}, terminationGracePeriodSeconds: 5}}]";

fn check(moment: Moment, expected: &str) {
    assert_eq!(moment.summary(), expected);
}

#[test]
fn plan_creates_sandbox_then_containers() {
    check(Moment::of(WEB).tune(|m| m.history.volumes_mounted = false), "mount, create sandbox 0");
    check(Moment::of(WEB), "create sandbox 0");
    check(Moment::of(WEB).sandbox(State::Created), "start sandbox sb, create web 0 (0s)");
    check(
        Moment::of(WEB).sandbox(State::Created).tune(|m| {
            m.needs_address.insert("web".to_owned());
        }),
        "start sandbox sb",
    );
    check(
        Moment::of(WEB).sandbox(State::Created).tune(|m| {
            m.needs_address.insert("web".to_owned());
            m.observed.sandboxes[0].ips = vec!["10.0.0.2".parse().unwrap()];
        }),
        "start sandbox sb, create web 0 (0s)",
    );
    check(Moment::of(WEB).sandbox(State::Created).with("web", 0, State::Created), "start sandbox sb");
    check(Moment::of(WEB).up(), "create web 0 (0s)");
    check(Moment::of(WEB).up().with("web", 0, State::Created), "start web0");
    check(Moment::of(WEB).up().with("web", 0, running(2)), "");
}

#[test]
fn plan_waits_for_running_actions() {
    let busy = |key: Key| Moment::of(WEB).up().busy(key);
    check(busy(Key::Container("web".to_owned())), "");
    check(busy(Key::Volumes), "create web 0 (0s)");
}

#[test]
fn plan_restarts_containers_by_policy() {
    check(Moment::of(WEB).up().with("web", 0, exited(0, 90)), "create web 1 (10s)");
    check(Moment::of(WEB).up().with("web", 0, exited(1, 90)), "create web 1 (10s)");
    check(Moment::of(RETRY).up().with("web", 0, exited(1, 90)), "create web 1 (10s)");
    check(Moment::of(RETRY).up().with("web", 0, exited(0, 90)), "remove sb");
    check(Moment::of(JOB).up().with("web", 0, exited(1, 90)), "remove sb");
    check(Moment::of(JOB).with("web", 0, exited(0, 90)), "");
}

#[test]
fn plan_delays_restarts_with_backoff() {
    let crashed = |back_off: u64, finished: i64| {
        Moment::of(WEB)
            .up()
            .with("web", 3, exited(1, finished))
            .tune(|m| m.observed.containers[0].back_off = Duration::from_secs(back_off))
    };
    check(crashed(20, 90), "");
    assert_eq!(crashed(20, 90).plan().wake_at, Some(at(110)));
    check(crashed(20, 80), "create web 4 (40s)");
    check(crashed(300, -400), "create web 4 (300s)");
    // It ran for ten minutes, which resets the back-off.
    check(crashed(300, 700).tune(|m| m.now = at(701)), "create web 4 (10s)");
}

#[test]
fn plan_runs_init_containers_in_order() {
    check(Moment::of(INIT).up(), "create one 0 (0s)");
    check(Moment::of(INIT).up().with("one", 0, running(2)), "");
    check(Moment::of(INIT).up().with("one", 0, exited(1, 90)), "create one 1 (10s)");
    check(Moment::of(INIT).up().with("one", 0, exited(0, 90)), "create two 0 (0s)");
    let done = || Moment::of(INIT).up().with("one", 0, exited(0, 90)).with("two", 0, exited(0, 91));
    check(done(), "create web 0 (0s)");
    check(done().with("web", 0, running(92)), "");
    // The exited init containers were pruned; they have completed nevertheless.
    check(Moment::of(INIT).up().with("web", 0, running(92)), "");
    check(
        Moment::of(INIT).up().tune(|m| m.history.initialized_in = Some("sb".to_owned())),
        "create web 0 (0s)",
    );
    // In a new sandbox they run again.
    let elsewhere =
        done().tune(|m| m.observed.containers.iter_mut().for_each(|c| c.sandbox_id = "old".to_owned()));
    check(elsewhere, "create one 1 (0s)");
}

#[test]
fn ephemeral_container_starts_once_and_does_not_affect_the_pod() {
    let of = |spec: &str| Moment::of(spec).tune(|m| m.pod = debugged(spec, &["debug"]));
    check(of(WEB), "create sandbox 0");
    check(of(WEB).sandbox(State::Created), "start sandbox sb, create web 0 (0s)");
    check(of(INIT).up(), "create debug 0 (0s), create one 0 (0s)");
    let up = || of(WEB).up().with("web", 0, running(2));
    check(up(), "create debug 0 (0s)");
    check(up().busy(Key::Container("debug".to_owned())), "");
    check(up().tune(|m| m.history.volumes_mounted = false), "mount");
    check(up().with("debug", 0, State::Created), "start debug0");
    let of_the_last = |m: &mut Moment| {
        let debug = m.observed.containers.iter_mut().find(|c| c.name == "debug");
        debug.unwrap().sandbox_id = "old".to_owned();
    };
    check(up().with("debug", 0, State::Created).tune(of_the_last), "remove debug0");
    check(up().with("debug", 0, exited(1, 90)).tune(of_the_last), "");
    check(up().with("debug", 0, running(9)), "");
    check(up().with("debug", 0, exited(1, 90)), "");
    check(up().with("debug", 0, running(9)).tune(|m| m.pod = pod(WEB)), "stop debug0 30s Dropped");
    // It does not keep the pod from completing, and does not restart a finished pod.
    check(of(JOB).up().with("web", 0, exited(0, 90)).with("debug", 0, running(9)), "stop debug0 30s PodEnds");
    let done = Moment::of(JOB).with("web", 0, exited(0, 90)).tune(|m| {
        m.history.terminal = m.plan().terminal;
        m.pod = debugged(JOB, &["debug"]);
        m.history.revive(&hashes(&m.pod), at(100));
    });
    check(done, "");
    // Its sandbox is replaced: the pull for the old sandbox delays that until it is aborted, because its hash differs.
    let renamed = debugged(&format!("hostname: new\n{WEB}"), &["debug"]);
    let key = Key::Container("debug".to_owned());
    assert_ne!(hashes(&renamed).of(&key), hashes(&of(WEB).pod).of(&key));
    check(up().with("web", 0, exited(0, 90)).busy(key).tune(|m| m.pod = renamed), "");
}

#[test]
fn failed_init_container_ends_a_never_restarting_pod() {
    let spec = format!("restartPolicy: Never\n{INIT}");
    let failed = Moment::of(&spec).up().with("one", 0, exited(3, 90));
    check(failed, "remove sb");
}

#[test]
fn app_containers_wait_for_sidecars_that_stay_running() {
    check(Moment::of(SIDE).up(), "create side 0 (0s)");
    check(Moment::of(SIDE).up().with("side", 0, running(2)), "");
    let started =
        || Moment::of(SIDE).up().with("side", 0, running(2)).probe_result("side0", Kind::Startup, true);
    check(started(), "create one 0 (0s)");
    check(started().with("one", 0, exited(0, 90)), "create web 0 (0s)");
    let up = || started().with("one", 0, exited(0, 90)).with("web", 0, running(91));
    check(up(), "");
    check(up().with("side", 0, exited(0, 95)), "create side 1 (10s)");
}

#[test]
fn sidecars_end_after_the_job_is_done() {
    let spec = format!("restartPolicy: Never\nterminationGracePeriodSeconds: 7\n{SIDE}");
    let done = Moment::of(&spec)
        .up()
        .with("side", 0, running(2))
        .probe_result("side0", Kind::Startup, true)
        .with("one", 0, exited(0, 90))
        .with("web", 0, exited(0, 95));
    check(done, "stop side0 7s PodEnds");
}

#[test]
fn plan_stops_containers_with_failed_probes() {
    let web = || Moment::of(PROBED).up().with("web", 0, running(2));
    check(web().probe_result("web0", Kind::Liveness, true), "");
    check(web().probe_result("web0", Kind::Liveness, false), "stop web0 5s Unhealthy");
    check(web().probe_result("web0", Kind::Readiness, false), "");
    check(web().probe_result("web0", Kind::Startup, false), "stop web0 30s NeverStarted");
}

#[test]
fn edit_restarts_only_affected_containers() {
    let spec =
        |image: &str| format!("containers: [{{name: web, image: {image}}}, {{name: other, image: a}}]");
    let edited = Moment::of(&spec("a"))
        .up()
        .with("web", 0, running(2))
        .with("other", 0, running(2))
        .tune(|m| m.pod = pod(&spec("b")));
    check(edited.prepared(), "stop web0 30s Changed");
    let stopped = Moment::of(&spec("a"))
        .up()
        .with("web", 0, exited(137, 99))
        .with("other", 0, running(2))
        .tune(|m| m.pod = pod(&spec("b")));
    check(stopped, "create web 1 (0s)");
    let dropped = Moment::of(&spec("a")).up().with("web", 0, running(2)).with("other", 0, running(2));
    check(dropped.tune(|m| m.pod = pod(WEB)), "stop other0 30s Dropped");
    let replaced = || {
        let web = Moment::of(WEB).up().with("web", 0, running(2));
        web.tune(|m| m.pod = pod("containers: [{name: shop, image: a}]"))
    };
    check(replaced(), "prepare shop");
    check(replaced().prepared(), "stop web0 30s Dropped");
    // The checkpoint of an earlier kubelet may be older than the containers.
    let unconfirmed = |m: &mut Moment| m.is_confirmed = false;
    check(replaced().prepared().tune(unconfirmed), "");
    let edited = Moment::of(&spec("a")).up().with("web", 0, running(2)).with("other", 0, running(2));
    check(edited.tune(|m| m.pod = pod(&spec("b"))).prepared().tune(unconfirmed), "");
    let debugger_ended = || {
        let debugged = Moment::of(WEB).tune(|m| m.pod = debugged(WEB, &["debug"])).up();
        let ended = debugged.with("web", 0, running(2)).with("debug", 0, exited(3, 90));
        ended.tune(|m| m.pod = pod(WEB))
    };
    check(debugger_ended(), "remove debug0");
    check(debugger_ended().tune(unconfirmed), "");
    // A run of another version does not end the pod. The terminal state of an earlier kubelet stays.
    let job = |image: &str| format!("restartPolicy: Never\ncontainers: [{{name: web, image: {image}}}]");
    let ended =
        || Moment::of(&job("a")).up().with("web", 0, exited(143, 90)).tune(|m| m.pod = pod(&job("b")));
    assert_eq!(ended().tune(unconfirmed).plan().terminal, None);
    check(ended(), "create web 1 (0s)");
    let finished = || Moment::of(&job("a")).with("web", 0, exited(0, 90));
    let terminal = finished().plan().terminal;
    let edited =
        finished().tune(|m| m.history.terminal.clone_from(&terminal)).tune(|m| m.pod = pod(&job("b")));
    assert_eq!(edited.tune(unconfirmed).plan().terminal, terminal);
    check(
        replaced().tune(|m| m.observed.containers[0].state = exited(0, 90)),
        "remove web0, create shop 0 (0s)",
    );
    let dead = Moment::of(&spec("a")).up().with("web", 0, running(2)).with("other", 0, exited(0, 9));
    check(dead.tune(|m| m.pod = pod(WEB)), "remove other0");
    // Properties that are fixed for a sandbox require a replacement of the whole pod.
    let renamed = Moment::of(WEB).up().with("web", 0, running(2));
    check(
        renamed.tune(|m| m.pod = pod(&format!("hostname: new\n{WEB}"))).prepared(),
        "stop web0 30s SandboxLost",
    );
    let renamed = Moment::of(WEB).up().with("web", 0, exited(0, 99));
    check(renamed.tune(|m| m.pod = pod(&format!("hostname: new\n{WEB}"))), "remove sb");
}

#[test]
fn impossible_edit_stops_no_container() {
    let edited = |spec: &str| {
        Moment::of(WEB).up().with("web", 0, running(2)).tune(|m| m.pod = pod(&WEB.replace(WEB, spec)))
    };
    let image = || edited("containers: [{name: web, image: b}]");
    check(image(), "prepare web");
    check(image().tune(|m| m.history.volumes_mounted = false), "mount");
    check(image().busy(Key::Replacement("web".to_owned())), "");
    let failed = || image().failed(Key::Replacement("web".to_owned()), 105);
    check(failed(), "");
    assert_eq!(failed().plan().wake_at, Some(at(105)));
    // A container that exits or is unhealthy is replaced by the desired version, if that can be created.
    check(failed().probe_result("web0", Kind::Liveness, false), "stop web0 30s Unhealthy");
    check(failed().tune(|m| m.observed.containers[0].state = exited(1, 90)), "create web 1 (0s)");
    let sandbox = || edited("hostname: new\ncontainers: [{name: web, image: a}]");
    check(sandbox(), "prepare web");
    check(sandbox().failed(Key::Replacement("web".to_owned()), 105), "");
}

#[test]
fn completed_pod_runs_again_after_an_edit() {
    let done = Moment::of(JOB).with("web", 0, exited(0, 90)).tune(|m| {
        m.history.terminal = m.plan().terminal;
        m.pod = pod("restartPolicy: Never\ncontainers: [{name: web, image: b}]");
        m.history.revive(&hashes(&m.pod), at(100));
    });
    check(done, "create sandbox 0");
}

#[test]
fn a_terminated_pod_stays_terminated_unless_an_edit_changes_it() {
    let by = |policy: &str, limit: &str, image: &str| {
        pod(&format!(
            "restartPolicy: {policy}\nvolumes: [{{name: v, emptyDir: {{sizeLimit: {limit}}}}}]\ncontainers: [{{name: web, image: {image}}}]"
        ))
    };
    let of = |limit: &str, image: &str| by("Never", limit, image);
    for (is_evicted, edited, is_new) in [
        (true, of("1Mi", "a"), false),
        (true, by("Always", "1Mi", "a"), true),
        (false, by("Always", "1Mi", "a"), true),
        (true, of("2Mi", "a"), true),
        (true, of("1Mi", "b"), true),
        (false, of("2Mi", "a"), false),
        (false, of("1Mi", "b"), true),
    ] {
        let moment = Moment::of(JOB).with("web", 0, exited(0, 90)).tune(|m| {
            m.pod = of("1Mi", "a");
            m.history.emptied = true;
            let evicted = Terminal::evicted("too much".to_owned(), eviction(), &hashes(&m.pod));
            m.history.terminal = if is_evicted { Some(evicted) } else { m.plan().terminal };
            // As the next kubelet process reads it.
            let kept = serde_json::to_string(&m.history.terminal).unwrap();
            m.history.terminal = serde_json::from_str(&kept).unwrap();
            m.pod = edited;
            m.history.revive(&hashes(&m.pod), at(100));
        });
        assert_eq!(moment.plan().terminal.is_none(), is_new, "evicted: {is_evicted}, {:?}", moment.pod.spec);
        let kept = if is_evicted { "remove web0" } else { "" };
        check(moment, if is_new { "create sandbox 0" } else { kept });
    }
}

#[test]
fn a_lost_sandbox_is_recreated() {
    check(Moment::of(WEB).sandbox(exited(137, 50)).with("web", 0, running(2)), "stop web0 30s SandboxLost");
    check(Moment::of(WEB).sandbox(exited(137, 50)).with("web", 0, exited(137, 50)), "remove sb");
    let gone = Moment::of(WEB).with("web", 0, exited(137, 50)).tune(|m| m.history.sandboxes = 1);
    check(gone, "create sandbox 1");
    let elsewhere = Moment::of(WEB).up().with("web", 0, State::Created);
    check(elsewhere.tune(|m| m.observed.containers[0].sandbox_id = "old".to_owned()), "remove web0");
}

#[test]
fn removed_container_keeps_its_restart_count() {
    let gone = |ended| {
        Moment::of(WEB).up().tune(|m| {
            let hash = hashes(&m.pod).containers["web"].clone();
            let back_off = Duration::from_secs(10);
            let run =
                super::super::LastRun { attempt: 4, hash, back_off, sandbox_id: "sb".to_owned(), ended };
            m.history.last.insert("web".to_owned(), run);
        })
    };
    check(gone(None), "create web 5 (20s)");
    check(gone(Some((1, at(95)))), "");
    check(gone(Some((1, at(80)))), "create web 5 (20s)");
}

#[test]
fn plan_persists_the_history_of_unsaved_runs() {
    let has_unsaved_runs = |there: Moment, written: Option<u32>| {
        let remembered = |moment: Moment| {
            let mut history = super::super::History::default();
            history.remember(&moment.observed, at(100));
            history
        };
        let written = written.map(|attempt| remembered(Moment::of(WEB).with("web", attempt, exited(1, 90))));
        let memory = remembered(Moment::of(WEB).with("web", 4, exited(1, 95)));
        memory.has_unsaved_runs(&written.unwrap_or_default(), &there.observed, &there.in_progress)
    };
    let fourth = || Moment::of(WEB).with("web", 4, exited(1, 95));
    assert!(!has_unsaved_runs(fourth(), None), "the engine has it");
    assert!(
        !has_unsaved_runs(Moment::of(WEB).with("web", 5, running(99)), None),
        "the engine has a later one"
    );
    assert!(
        has_unsaved_runs(Moment::of(WEB).with("web", 3, exited(1, 90)), Some(3)),
        "the engine has an earlier one"
    );
    assert!(has_unsaved_runs(Moment::of(WEB), None), "the engine has none");
    assert!(!has_unsaved_runs(Moment::of(WEB), Some(4)), "it is written down");
    assert!(has_unsaved_runs(fourth().busy(Key::Dead("web4".to_owned())), Some(3)), "it is being removed");
}

#[test]
fn plan_keeps_one_exited_container_per_name() {
    let many = Moment::of(WEB)
        .up()
        .with("web", 3, running(9))
        .with("web", 2, exited(1, 8))
        .with("web", 1, exited(1, 7))
        .with("web", 0, exited(1, 6));
    check(many, "remove web1, remove web0");
    // The newest container has an outdated hash, and the engine started it while it was being removed.
    let late = Moment::of(WEB).up().with("web", 1, exited(1, 90)).with("web", 0, exited(1, 89));
    check(late.busy(Key::Dead("web1".to_owned())), "create web 2 (10s)");
    let twins = Moment::of(WEB).up().with("web", 3, running(9)).with("web", 2, running(8));
    check(twins, "stop web2 30s Changed");
}

#[test]
fn failed_action_is_retried_at_its_retry_time() {
    let failed = |retry_at| Moment::of(WEB).up().failed(Key::Container("web".to_owned()), retry_at);
    check(failed(105), "");
    assert_eq!(failed(105).plan().wake_at, Some(at(105)));
    check(failed(100), "create web 0 (0s)");
}

#[test]
fn active_deadline_ends_the_pod() {
    let spec = format!("activeDeadlineSeconds: 60\n{WEB}");
    let moment = |now| Moment::of(&spec).up().with("web", 0, running(2)).tune(|m| m.now = at(now));
    check(moment(59), "");
    assert_eq!(moment(59).plan().wake_at, Some(at(60)));
    check(moment(60), "stop web0 30s PodEnds");
    assert_eq!(moment(60).plan().terminal.unwrap().reason, "DeadlineExceeded");
}

#[test]
fn container_restart_rules_override_the_policy() {
    let spec = "restartPolicy: Never\ncontainers: [{name: web, image: a, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]";
    check(Moment::of(spec).up().with("web", 0, exited(42, 90)), "create web 1 (10s)");
    check(Moment::of(spec).up().with("web", 0, exited(1, 90)), "remove sb");
}

#[test]
fn failed_actions_are_retried_after_a_delay() {
    check(Moment::of(WEB).failed(Key::Sandbox, 105), "");
    check(Moment::of(WEB).sandbox(State::Created).failed(Key::Sandbox, 105), "create web 0 (0s)");
    let unmounted = Moment::of(WEB).tune(|m| m.history.volumes_mounted = false);
    check(unmounted.failed(Key::Volumes, 105), "create sandbox 0");
    // Neither stop nor remove is repeated rapidly while the engine is unavailable.
    let edited = || {
        Moment::of(WEB)
            .up()
            .with("web", 0, running(2))
            .tune(|m| m.pod = pod(&WEB.replace("image: a", "image: b")))
            .prepared()
    };
    check(edited(), "stop web0 30s Changed");
    let failed = || edited().failed(Key::Container("web".to_owned()), 105);
    check(failed(), "");
    assert_eq!(failed().plan().wake_at, Some(at(105)));
    check(Moment::of(WEB).sandbox(exited(1, 2)).failed(Key::Dead("sb".to_owned()), 105), "");
}
