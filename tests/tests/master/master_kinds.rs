//! Defaulting, validation and immutable fields of the built-in kinds, through kubectl.

use tests::{Master, Output};

const MANIFESTS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: "web:1", resources: {limits: {cpu: 0.5, memory: 1024Mi}}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "web:1"}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: web}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "web:1"}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {a: b}, ports: [{port: 80}]}
"#;

const WRONG: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: wrong, labels: {a: "b c"}}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c}]}}}
"#;

async fn kubectl(master: &Master, arguments: &[&str]) -> Output {
    master.kubectl(&master.data_dir().join("admin.kubeconfig"), arguments).await
}

#[tokio::test]
async fn kubectl_gets_validation_errors_and_defaults_of_built_in_kinds() {
    let master = Master::running().await;
    let write = |name: &str, text: &str| {
        let path = master.data_dir().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    master.until_account("default").await;
    let (right, wrong) = (write("right.yaml", MANIFESTS), write("wrong.yaml", WRONG));
    // Twice with client-side and twice with server-side apply: defaults set by the server cause no conflict.
    let apply = ["apply", "--validate=false", "-f", &right];
    for more in [&[][..], &[], &["--server-side", "--force-conflicts"], &["--server-side"]] {
        let applied = kubectl(&master, &[&apply[..], more].concat()).await;
        assert_eq!(applied.code, 0, "{more:?}: {applied:?}\n{}", master.log());
    }
    for (object, path, expected) in [
        ("pod/web", "{.status.phase} {.status.qosClass}", "Pending Guaranteed"),
        ("pod/web", "{.spec.containers[0].resources.limits}", r#"{"cpu":"500m","memory":"1Gi"}"#),
        ("deployment/web", "{.spec.replicas} {.spec.strategy.rollingUpdate.maxSurge}", "1 25%"),
        ("deployment/web", "{.metadata.generation}", "1"),
        ("job/web", "{.spec.backoffLimit} {.spec.template.metadata.labels.job-name}", "6 web"),
        ("service/web", "{.spec.type} {.spec.ports[0].targetPort}", "ClusterIP 80"),
    ] {
        let shown = kubectl(&master, &["get", object, "-o", &format!("jsonpath={path}")]).await;
        assert_eq!(shown.stdout, expected, "{object} {path}: {shown:?}");
    }
    let refused = kubectl(&master, &["apply", "--validate=false", "-f", &wrong]).await.stderr;
    for words in [
        "metadata.labels[a]: Invalid value: \"b c\": a valid label must be",
        "`selector` does not match template `labels`",
        "spec.template.spec.containers[0].image: Required value",
    ] {
        assert!(refused.contains(words), "{refused}");
    }
    for (object, patch, words) in [
        ("pod/web", r#"{"spec":{"hostNetwork":true}}"#, "pod updates may not change fields other than"),
        (
            "job/web",
            r#"{"spec":{"completions":5}}"#,
            "spec.completions: Invalid value: 5: field is immutable",
        ),
    ] {
        let refused = kubectl(&master, &["patch", object, "-p", patch]).await.stderr;
        assert!(refused.contains(words), "{refused}");
    }
}

const LIMITED: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: limited}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: "web:1", resources: {limits: {cpu: 1000m}}}]}
"#;

const GUARD: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- {name: w.example.com, clientConfig: {url: "https://example.com"}, sideEffects: None, admissionReviewVersions: [v1], rules: []}
"#;

#[tokio::test]
async fn a_request_defaults_to_the_limit_and_unenforced_features_give_warnings() {
    let master = Master::running().await;
    let path = master.data_dir().join("file.yaml");
    let apply = async |text: &str, more: &[&str]| {
        std::fs::write(&path, text).unwrap();
        let file = path.display().to_string();
        let output = kubectl(&master, &[&["apply", "--validate=false", "-f", &file], more].concat()).await;
        assert_eq!(output.code, 0, "{more:?}: {output:?}\n{}", master.log());
        output.stderr
    };
    apply(LIMITED, &[]).await;
    apply(&LIMITED.replace("1000m", "500m"), &[]).await;
    apply(&LIMITED.replace("1000m", "250m"), &["--server-side", "--force-conflicts"]).await;
    let spec = "jsonpath={.spec.template.spec.containers[0].resources}";
    let shown = kubectl(&master, &["get", "deployment/limited", "-o", spec]).await;
    assert_eq!(shown.stdout, r#"{"limits":{"cpu":"250m"}}"#, "{shown:?}");

    let label = "pod-security.kubernetes.io/enforce=restricted";
    let printed = kubectl(&master, &["label", "namespace", "default", label]).await.stderr;
    assert!(
        printed.contains("Warning: ") && printed.contains("does not enforce pod security yet"),
        "{printed}"
    );
    for wrong in ["enforce=bogus", "audit=none", "warn=Baseline", "enforce-version=v2.1", "warn-version=1.30"]
    {
        let label = format!("pod-security.kubernetes.io/{wrong}");
        let refused = kubectl(&master, &["label", "--overwrite", "namespace", "default", &label]).await;
        let (name, value) = label.split_once('=').unwrap();
        let words = format!("metadata.labels[{name}]: Invalid value: \"{value}\": must be ");
        assert!(refused.code == 1 && refused.stderr.contains(&words), "{refused:?}");
    }
    let printed = kubectl(&master, &["annotate", "namespace", "default", "a=b"]).await;
    assert_eq!(
        (printed.code, printed.stderr.as_str()),
        (0, ""),
        "who changes something else is not concerned"
    );
    let printed = apply(GUARD, &[]).await;
    assert!(printed.contains("Warning: webhooks: this master does not call webhooks yet"), "{printed}");
}
