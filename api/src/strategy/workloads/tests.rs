//! Tests of the strategies of workload kinds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use crate::cron::Schedule;
use crate::strategy::Part;
use crate::strategy::tests::{Case, change, refused, stored};

fn template(policy: &str) -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "web:1"}]}})
}

fn workload(kind: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template("Always")},
    })
}

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "default", "uid": "0-1"},
        "spec": {"template": template("Never")},
    })
}

#[test]
fn a_template_may_use_a_token_of_the_default_service_account() {
    let mut deployment = workload("Deployment");
    let token = json!({"serviceAccountToken": {"path": "token", "audience": "vault"}});
    deployment["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "t", "projected": {"sources": [token]}}]);
    assert_eq!(Case::new(deployment).messages(&Part::Main), [""; 0]);
}

#[test]
fn containers_of_a_stateful_set_mount_its_claims() {
    let mut set = workload("StatefulSet");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}]);
    let mount = |set: &mut Value, name: &str| {
        let mounts = json!([{"name": name, "mountPath": "/data"}]);
        set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts;
    };
    mount(&mut set, "data");
    assert_eq!(Case::new(set.clone()).messages(&Part::Main), [""; 0]);
    let place = "spec.template.spec.containers[0].volumeMounts[0].name";
    refused(&set, |set| mount(set, "dta"), place, "there is no volume `dta`; did you mean `data`?");
}

#[test]
fn minimal_workloads_get_defaults() {
    let deployment = Case::new(workload("Deployment"));
    assert_eq!(deployment.at("/spec/replicas"), 1);
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}});
    assert_eq!(deployment.at("/spec/strategy"), strategy);
    assert_eq!(
        (deployment.at("/spec/revisionHistoryLimit"), deployment.at("/spec/progressDeadlineSeconds")),
        (10.into(), 600.into())
    );
    assert_eq!(deployment.at("/spec/template/spec/dnsPolicy"), "ClusterFirst");
    let set = Case::new(workload("StatefulSet"));
    assert_eq!(set.at("/spec/podManagementPolicy"), "OrderedReady");
    assert_eq!(set.at("/spec/updateStrategy/rollingUpdate/partition"), 0);
    let daemons = Case::new(workload("DaemonSet"));
    assert_eq!(daemons.at("/spec/updateStrategy/rollingUpdate"), json!({"maxUnavailable": 1, "maxSurge": 0}));
    let mut controller = workload("ReplicationController");
    controller["apiVersion"] = "v1".into();
    controller["spec"].as_object_mut().unwrap().remove("selector");
    let controller = Case::new(controller);
    assert_eq!(controller.at("/spec/selector"), json!({"app": "a"}));
    assert_eq!(controller.at("/metadata/labels"), json!({"app": "a"}));
    // Explicit values are kept.
    let mut none = workload("Deployment");
    none["spec"]["replicas"] = 0.into();
    none["spec"]["strategy"] = json!({"type": "Recreate"});
    let none = Case::new(none);
    assert_eq!(
        (none.at("/spec/replicas"), none.at("/spec/strategy")),
        (0.into(), json!({"type": "Recreate"}))
    );
}

#[test]
fn daemon_set_generation_follows_its_template() {
    const GENERATION: &str = "/metadata/annotations/deprecated.daemonset.template.generation";
    let image = |set: &mut Value, image: &str| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into()
    };
    let first = Case::new(workload("DaemonSet"));
    assert_eq!(first.at(GENERATION), "1");
    let second = Case::update(&first.object, &Part::Main, |set| image(set, "web:2"));
    assert_eq!(second.at(GENERATION), "2");
    // Neither another change nor the client changes the number.
    let same = Case::update(&second.object, &Part::Main, |set| {
        set["spec"]["minReadySeconds"] = 5.into();
        set["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": "7", "own": "x"});
    });
    assert_eq!((same.at(GENERATION), same.at("/metadata/annotations/own")), ("2".into(), "x".into()));
    let replaced = Case::update(&same.object, &Part::Main, |set| {
        set["metadata"].as_object_mut().unwrap().remove("annotations");
        image(set, "web:3");
    });
    assert_eq!(replaced.at(GENERATION), "3");
}

#[test]
fn template_generation_and_ports_may_change() {
    let mut limited = workload("Deployment");
    limited["spec"]["template"]["spec"]["hostNetwork"] = true.into();
    let container = &mut limited["spec"]["template"]["spec"]["containers"][0];
    container["resources"] = json!({"limits": {"cpu": "1"}});
    container["ports"] = json!([{"containerPort": 80}]);
    let before = Case::new(limited);
    assert_eq!(before.messages(&Part::Main), [] as [&str; 0]);
    let lowered = Case::update(&before.object, &Part::Main, |object| {
        object["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "500m".into();
    });
    assert_eq!(lowered.messages(&Part::Main), [] as [&str; 0]);
    let container = lowered.at("/spec/template/spec/containers/0");
    assert_eq!(container["resources"], json!({"limits": {"cpu": "500m"}}));
    assert_eq!(container["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
}

#[test]
fn invalid_workloads_are_rejected() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str, &str); 8] = [
        (
            |object| drop(object["spec"].as_object_mut().unwrap().remove("selector")),
            "spec.selector",
            "Required value",
        ),
        (|object| object["spec"]["selector"] = json!({}), "spec.selector", "empty selector is invalid"),
        (
            |object| object["spec"]["selector"]["matchLabels"]["app"] = "b".into(),
            "spec.template.metadata.labels",
            "`selector` does not match template `labels`",
        ),
        (
            |object| object["spec"]["template"]["spec"]["restartPolicy"] = "Never".into(),
            "spec.template.spec.restartPolicy",
            "Unsupported value: \"Never\": supported values: \"Always\"",
        ),
        (
            |object| object["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 5.into(),
            "spec.template.spec.activeDeadlineSeconds",
            "Forbidden",
        ),
        (
            |object| object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(null),
            "spec.template.spec.containers[0].image",
            "Required value",
        ),
        (
            |object| object["spec"]["minReadySeconds"] = (-1).into(),
            "spec.minReadySeconds",
            "must be greater than or equal to 0",
        ),
        (
            |object| object["spec"]["selector"]["matchExpressions"] = json!([{"key": "a", "operator": "In"}]),
            "spec.selector.matchExpressions[0].values",
            "Required value",
        ),
    ];
    for kind in ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"] {
        for (change, field, words) in cases {
            refused(&workload(kind), change, field, words);
        }
    }
    let rolling =
        |rolling: Value| move |object: &mut Value| object["spec"]["strategy"]["rollingUpdate"] = rolling;
    let deployment = workload("Deployment");
    const UNAVAILABLE: &str = "spec.strategy.rollingUpdate.maxUnavailable";
    refused(
        &deployment,
        rolling(json!({"maxUnavailable": 0, "maxSurge": "0%"})),
        UNAVAILABLE,
        "may not be 0 when",
    );
    refused(&deployment, rolling(json!({"maxUnavailable": "x%"})), UNAVAILABLE, "percent");
    refused(&deployment, rolling(json!({"maxUnavailable": "101%"})), UNAVAILABLE, "100%");
}

#[test]
fn selectors_and_claim_templates_are_immutable() {
    for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
        let reselect = |object: &mut Value| {
            for path in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
                *object.pointer_mut(path).unwrap() = json!({"app": "b"});
            }
        };
        change(&stored(&workload(kind)), &Part::Main, reselect, "spec.selector", "field is immutable");
    }
    let before = stored(&workload("StatefulSet"));
    change(&before, &Part::Main, |set| set["spec"]["replicas"] = 5.into(), "", "");
    change(
        &before,
        &Part::Main,
        |set| set["spec"]["template"]["spec"]["containers"][0]["image"] = "b".into(),
        "",
        "",
    );
    let other = "updates to statefulset spec for fields other than 'replicas'";
    change(&before, &Part::Main, |set| set["spec"]["serviceName"] = "b".into(), "spec", other);
}

#[test]
fn job_selector_uses_its_uid() {
    let job = Case::new(job());
    assert_eq!(job.at("/spec/selector/matchLabels"), json!({"batch.kubernetes.io/controller-uid": "0-1"}));
    let labels = json!({
        "app": "a", "controller-uid": "0-1", "batch.kubernetes.io/controller-uid": "0-1",
        "job-name": "a", "batch.kubernetes.io/job-name": "a",
    });
    assert_eq!(job.at("/spec/template/metadata/labels"), labels);
    for (field, value) in [
        ("completions", 1.into()),
        ("parallelism", 1.into()),
        ("backoffLimit", 6.into()),
        ("completionMode", Value::from("NonIndexed")),
    ] {
        assert_eq!(job.at(&format!("/spec/{field}")), value, "{field}");
    }
}

#[test]
fn jobs_are_validated_and_immutable() {
    let policy = "spec.template.spec.restartPolicy";
    refused(
        &job(),
        |job| job["spec"]["template"]["spec"]["restartPolicy"] = "".into(),
        policy,
        "valid values: \"OnFailure\", \"Never\"",
    );
}

#[test]
fn work_queue_job_has_no_default_completions() {
    let mut queue = job();
    queue["spec"]["parallelism"] = 3.into();
    let queue = Case::new(queue);
    assert_eq!((queue.at("/spec/parallelism"), queue.at("/spec/completions")), (3.into(), Value::Null));
}

#[test]
fn template_of_a_running_job_is_immutable() {
    let before = stored(&job());
    let image = |job: &mut Value| job["spec"]["template"]["spec"]["containers"][0]["image"] = "b".into();
    let place = |job: &mut Value| job["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
    change(&before, &Part::Main, image, "spec.template", "field is immutable");
    change(&before, &Part::Main, place, "spec.template", "field is immutable");
    change(
        &before,
        &Part::Main,
        |job| job["spec"]["completions"] = 5.into(),
        "spec.completions",
        "field is immutable",
    );
    change(&before, &Part::Main, |job| job["spec"]["parallelism"] = 5.into(), "", "");
    let mut indexed = job();
    indexed["spec"]["completionMode"] = "Indexed".into();
    indexed["spec"]["completions"] = 2.into();
    let before = stored(&indexed);
    let scale = |job: &mut Value| {
        job["spec"]["completions"] = 3.into();
        job["spec"]["parallelism"] = 3.into();
    };
    change(&before, &Part::Main, scale, "", "");
    change(
        &before,
        &Part::Main,
        |job| job["spec"]["completions"] = 3.into(),
        "spec.completions",
        "field is immutable",
    );
    let mut waiting = job();
    waiting["spec"]["suspend"] = true.into();
    let before = stored(&waiting);
    change(&before, &Part::Main, place, "", "");
    change(&before, &Part::Main, image, "spec.template", "field is immutable");
}

#[test]
fn schedules() {
    for right in [
        "* * * * *",
        "*/5 0-6 1,15 jan-MAR mon-fri",
        "0 0 ? * 0",
        "10/2 * * * *",
        "1, * * * *",
        "@daily",
        "@every 1h30m",
    ] {
        assert!(Schedule::parse(right).is_ok(), "{right}");
    }
    for wrong in [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 7",
        "*/0 * * * *",
        "5-1 * * * *",
        "a * * * *",
        "* * * * * *",
        "@never",
        "@every",
        "@every x",
        "-1 * * * *",
    ] {
        assert!(Schedule::parse(wrong).is_err(), "{wrong}");
    }
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"},
        "spec": {"schedule": "@hourly", "jobTemplate": {"spec": {"template": template("OnFailure")}}},
    });
    let spec = Case::new(cron_job.clone());
    for (field, value) in [
        ("concurrencyPolicy", Value::from("Allow")),
        ("successfulJobsHistoryLimit", 3.into()),
        ("failedJobsHistoryLimit", 1.into()),
        ("suspend", false.into()),
    ] {
        assert_eq!(spec.at(&format!("/spec/{field}")), value, "{field}");
    }
    refused(
        &cron_job,
        |job| job["spec"]["schedule"] = "TZ=UTC 0 * * * *".into(),
        "spec.schedule",
        "use timeZone field instead",
    );
    for (zone, why) in [("local", "explicit time zone"), ("Mars/Olympus", "unknown time zone Mars/Olympus")] {
        refused(&cron_job, |job| job["spec"]["timeZone"] = zone.into(), "spec.timeZone", why);
    }
    refused(
        &cron_job,
        |job| job["spec"]["concurrencyPolicy"] = "x".into(),
        "spec.concurrencyPolicy",
        "Unsupported value",
    );
}
