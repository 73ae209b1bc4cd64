//! Custom resources through kubectl: define, use, validate and delete.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tests::{DEADLINE, Master, Output, wait_until};

/// A definition with every feature that kubectl can show.
const CRON_TABS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    selectableFields:
    - jsonPath: .spec.color
    additionalPrinterColumns:
    - {name: Spec, type: string, description: When it runs., jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Color, type: string, priority: 1, jsonPath: .spec.color}
    schema:
      openAPIV3Schema:
        type: object
        description: A task that runs by the clock.
        properties:
          spec:
            type: object
            required: [cronSpec]
            properties:
              cronSpec: {type: string, description: When it runs, pattern: '^(\S+\s+){4}\S+$'}
              replicas: {type: integer, minimum: 0, maximum: 10, default: 1}
              color: {type: string, enum: [red, blue]}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [number]
                items:
                  type: object
                  required: [number]
                  properties: {number: {type: integer}, name: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}}}
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"#;

const MINE: &str = r#"
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: mine}
spec: {cronSpec: "* * * * */5", color: red, ports: [{number: 1, name: one}], free: {what: [ever]}}
"#;

/// A master, its administrator's kubeconfig, and a folder for manifests.
struct Bench {
    master: Master,
    folder: TempDir,
}

impl Bench {
    async fn new() -> Self {
        Self { master: Master::running().await, folder: tempfile::tempdir().unwrap() }
    }

    /// A master with the CronTab definition established.
    async fn with_cron_tabs() -> Self {
        let bench = Self::new().await;
        let file = bench.file("crd.yaml", CRON_TABS);
        bench.ok(&["create", "-f", &file]).await;
        bench
            .ok(&[
                "wait",
                "--for",
                "condition=established",
                "--timeout=50s",
                "crd/crontabs.stable.example.com",
            ])
            .await;
        bench
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    async fn kubectl(&self, arguments: &[&str]) -> Output {
        let admin = self.master.data_dir().join("admin.kubeconfig");
        self.master.kubectl(&admin, arguments).await
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments).await;
        assert!(output.code == 0, "kubectl {}: {output:?}\n{}", arguments.join(" "), self.master.log());
        output.stdout
    }

    async fn refused(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments).await;
        assert!(output.code != 0, "kubectl {} succeeded: {output:?}", arguments.join(" "));
        output.stderr
    }
}

#[tokio::test]
async fn kubectl_handles_custom_resources_like_built_in_ones() {
    let bench = Bench::with_cron_tabs().await;
    assert!(bench.ok(&["api-resources", "--api-group=stable.example.com"]).await.contains("ct"));
    let explained = bench.ok(&["explain", "ct.spec"]).await;
    assert!(explained.contains("cronSpec") && explained.contains("When it runs"), "{explained}");
    let mine = bench.file("mine.yaml", MINE);
    bench.ok(&["create", "-f", &mine]).await;

    // Defaults are set, and the table has the columns of the definition.
    let table = bench.ok(&["get", "ct"]).await;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "SPEC", "REPLICAS", "READY"]);
    assert_eq!((rows[1][0], rows[1].last().copied()), ("mine", Some("1")), "{table}");
    assert!(bench.ok(&["get", "ct", "-o", "wide"]).await.contains("COLOR"));
    assert!(bench.ok(&["get", "all"]).await.contains("crontab.stable.example.com/mine"));
    assert_eq!(bench.ok(&["get", "ct", "--field-selector=spec.color=blue", "-o", "name"]).await, "");

    bench.ok(&["patch", "ct", "mine", "--type=merge", "-p", r#"{"spec":{"color":"blue"}}"#]).await;
    let generation = "jsonpath={.metadata.generation} {.spec.color} {.spec.free.what[0]}";
    assert_eq!(bench.ok(&["get", "ct", "mine", "-o", generation]).await, "2 blue ever");
    assert_eq!(
        bench.ok(&["get", "ct", "--field-selector=spec.color=blue", "-o", "name"]).await,
        "crontab.stable.example.com/mine\n"
    );

    // The status is a subresource, and its changes do not increase the generation.
    let status = r#"{"spec":{"color":"red"},"status":{"replicas":3,"selector":"a=b","conditions":[{"type":"Ready","status":"True"}]}}"#;
    bench.ok(&["patch", "ct", "mine", "--subresource=status", "--type=merge", "-p", status]).await;
    assert_eq!(bench.ok(&["get", "ct", "mine", "-o", generation]).await, "2 blue ever");
    assert!(bench.ok(&["get", "ct", "mine"]).await.contains("True"));

    bench.ok(&["scale", "ct", "mine", "--replicas=4"]).await;
    assert_eq!(bench.ok(&["get", "ct", "mine", "-o", "jsonpath={.spec.replicas}"]).await, "4");
    let scale = "jsonpath={.spec.replicas} {.status.replicas} {.status.selector}";
    assert_eq!(bench.ok(&["get", "ct", "mine", "--subresource=scale", "-o", scale]).await, "4 3 a=b");

    bench.ok(&["delete", "ct", "mine"]).await;
    assert!(bench.refused(&["get", "ct", "mine"]).await.contains("NotFound"));
}

#[tokio::test]
async fn server_side_apply_merges_custom_lists_by_their_keys() {
    let bench = Bench::with_cron_tabs().await;
    let mine = bench.file("mine.yaml", MINE);
    let other = r#"{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"mine"},
                    "spec":{"ports":[{"number":2,"name":"two"}]}}"#;
    let other = bench.file("other.json", other);
    bench.ok(&["apply", "--server-side", "-f", &mine]).await;
    bench.ok(&["apply", "--server-side", "--field-manager=other", "-f", &other]).await;
    assert_eq!(bench.ok(&["get", "ct", "mine", "-o", "jsonpath={.spec.ports[*].name}"]).await, "one two");
    let conflict = other.replace("other.json", "conflict.json");
    fs::write(
        &conflict,
        fs::read_to_string(&other)
            .unwrap()
            .replace(r#""number":2,"name":"two""#, r#""number":1,"name":"uno""#),
    )
    .unwrap();
    let refused = bench.refused(&["apply", "--server-side", "--field-manager=third", "-f", &conflict]).await;
    assert!(refused.contains("conflict") && refused.contains(r#".spec.ports[number=1].name"#), "{refused}");

    // Client-side apply sends a merge patch; applying the same manifest again changes nothing.
    let name = bench.file("theirs.yaml", &MINE.replace("mine", "theirs"));
    bench.ok(&["apply", "-f", &name]).await;
    assert!(bench.ok(&["apply", "-f", &name]).await.contains("unchanged"));
}

#[tokio::test]
async fn server_rejects_invalid_custom_resources_with_reasons() {
    let bench = Bench::with_cron_tabs().await;
    for (text, expected) in [
        (MINE.replace("ports:", "prots:"), r#"unknown field "spec.prots""#),
        (
            MINE.replace("color: red", "color: green"),
            r#"spec.color: Unsupported value: "green": supported values: "red", "blue""#,
        ),
        (
            MINE.replace("color: red", "replicas: ten"),
            r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#,
        ),
        (
            MINE.replace("color: red", "replicas: 11"),
            "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10",
        ),
        (MINE.replace("cronSpec: \"* * * * */5\", ", ""), "spec.cronSpec: Required value"),
        (MINE.replace("* * * * */5", "daily"), r"spec.cronSpec in body should match"),
        (
            MINE.replace("{number: 1, name: one}", "{number: 1}, {number: 1}"),
            r#"spec.ports[1]: Duplicate value: {"number":1}"#,
        ),
    ] {
        let file = bench.file("wrong.yaml", &text);
        // Disables kubectl's own schema validation, so that the server's more detailed error is shown.
        let validate = if expected.starts_with("unknown") { "--validate=strict" } else { "--validate=false" };
        let refused = bench.refused(&["create", validate, "-f", &file]).await;
        assert!(refused.contains(expected), "{refused}");
    }
    let strategic = bench.file("mine.yaml", MINE);
    bench.ok(&["create", "-f", &strategic]).await;
    let refused = bench.refused(&["patch", "ct", "mine", "--type=strategic", "-p", "{}"]).await;
    assert!(refused.contains("strategic"), "{refused}");

    let second =
        CRON_TABS.replace("crontabs", "tabs").replace("type: object\n            required", "required");
    let file = bench.file("second.yaml", &second);
    let refused = bench.refused(&["create", "--validate=false", "-f", &file]).await;
    let expected = "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields";
    assert!(refused.contains(expected), "{refused}");
}

#[tokio::test]
async fn deleting_a_crd_deletes_its_objects() {
    let mut bench = Bench::with_cron_tabs().await;
    let mine = bench.file("mine.yaml", MINE);
    bench.ok(&["create", "-f", &mine]).await;
    // Reads and writes in another version concern the same object.
    let old = bench
        .ok(&[
            "get",
            "crontabs.v1beta1.stable.example.com",
            "mine",
            "-o",
            "jsonpath={.apiVersion} {.spec.color}",
        ])
        .await;
    assert_eq!(old, "stable.example.com/v1beta1 red");

    // A second definition with a name of the first waits until that name is free.
    let second = CRON_TABS
        .replace("crontabs", "tabs")
        .replace("singular: crontab, kind: CronTab,", "singular: tab, kind: Tab,");
    let file = bench.file("second.yaml", &second);
    bench.ok(&["create", "-f", &file]).await;
    let names = [
        "get",
        "crd",
        "tabs.stable.example.com",
        "-o",
        "jsonpath={.status.conditions[?(@.type==\"NamesAccepted\")].message}",
    ];
    let look = async || {
        Some(bench.ok(&names).await)
            .filter(|message| message == "\"ct\" is already in use")
            .ok_or_else(|| "not said".to_owned())
    };
    wait_until(DEADLINE, look).await.unwrap();

    // All objects are there after a kill.
    bench.master.kill();
    bench.master.start().await;
    assert_eq!(bench.ok(&["get", "ct", "-o", "name"]).await, "crontab.stable.example.com/mine\n");

    // An object with a finalizer keeps the definition.
    bench
        .ok(&[
            "patch",
            "ct",
            "mine",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":["example.com/wait"]}}"#,
        ])
        .await;
    bench.ok(&["delete", "crd", "crontabs.stable.example.com", "--wait=false"]).await;
    let deleted = async || {
        let seen = bench.ok(&["get", "ct", "mine", "-o", "jsonpath={.metadata.deletionTimestamp}"]).await;
        Some(seen.clone()).filter(|seen| !seen.is_empty()).ok_or_else(|| "it is not being deleted".to_owned())
    };
    wait_until(DEADLINE, deleted).await.unwrap();
    let theirs = bench.file("theirs.yaml", &MINE.replace("mine", "theirs"));
    let refused = bench.refused(&["create", "--validate=false", "-f", &theirs]).await;
    assert!(refused.contains("terminating"), "{refused}");
    bench.ok(&["patch", "ct", "mine", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]).await;
    bench.ok(&["wait", "--for=delete", "--timeout=50s", "crd/crontabs.stable.example.com"]).await;

    // Afterwards its names are free, and a new definition starts without objects.
    bench
        .ok(&["wait", "--for", "condition=established", "--timeout=50s", "crd/tabs.stable.example.com"])
        .await;
    bench.ok(&["delete", "crd", "tabs.stable.example.com"]).await;
    let file = bench.file("again.yaml", CRON_TABS);
    bench.ok(&["create", "-f", &file]).await;
    bench
        .ok(&["wait", "--for", "condition=established", "--timeout=50s", "crd/crontabs.stable.example.com"])
        .await;
    assert_eq!(bench.ok(&["get", "ct", "-o", "name"]).await, "");
}

#[tokio::test]
async fn crd_validation_rules_apply_to_every_kind_of_write() {
    let bench = Bench::new().await;
    let rules = "spec:\n            type: object\n            x-kubernetes-validations:\n            \
                 - {rule: \"self.replicas <= 5 || self.color == 'blue'\", messageExpression: \"'at most 5, not ' + string(self.replicas)\", fieldPath: .replicas}\n            \
                 - {rule: \"!has(oldSelf.color) || self.color == oldSelf.color\", message: color is immutable, reason: FieldValueForbidden}";
    let with_rules = CRON_TABS.replacen("spec:\n            type: object", rules, 1).replace(
        "status:\n            type: object",
        "status:\n            type: object\n            x-kubernetes-validations: [{rule: 'self.replicas >= 0', message: negative}]",
    );
    let file = bench.file("crd.yaml", &with_rules);
    bench.ok(&["create", "-f", &file]).await;
    let waiting =
        ["wait", "--for", "condition=established", "--timeout=50s", "crd/crontabs.stable.example.com"];
    bench.ok(&waiting).await;
    let mine = bench.file("mine.yaml", MINE);
    bench.ok(&["create", "-f", &mine]).await;
    let six = bench.file("six.yaml", &MINE.replace("color: red", "color: red, replicas: 6"));
    let at_most = "spec.replicas: Invalid value: \"object\": at most 5, not 6";
    for verb in ["replace", "apply"] {
        let refused = bench.refused(&[verb, "-f", &six]).await;
        assert!(refused.contains(at_most), "{refused}");
    }
    let refused = bench.refused(&["apply", "--server-side", "--force-conflicts", "-f", &six]).await;
    assert!(refused.contains(at_most), "{refused}");
    let refused = bench.refused(&["scale", "ct", "mine", "--replicas=6"]).await;
    assert!(refused.contains(at_most), "{refused}");
    for (patch, part, expected) in [
        (r#"{"spec":{"color":"blue"}}"#, "", "spec: Forbidden: color is immutable"),
        (
            r#"{"status":{"replicas":-1}}"#,
            "--subresource=status",
            "status: Invalid value: \"object\": negative",
        ),
    ] {
        let mut arguments = vec!["patch", "ct", "mine", "--type=merge", "-p", patch];
        arguments.extend(Some(part).filter(|part| !part.is_empty()));
        let refused = bench.refused(&arguments).await;
        assert!(refused.contains(expected), "{refused}");
    }
    bench.ok(&["scale", "ct", "mine", "--replicas=5"]).await;
    // A definition with an invalid CEL rule is rejected; the error has the path of the rule.
    let wrong = with_rules.replace("crontabs", "tabs").replace("self.replicas <= 5", "self.replica <= 5");
    let file = bench.file("wrong.yaml", &wrong);
    let refused = bench.refused(&["create", "-f", &file]).await;
    let expected = "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value";
    assert!(refused.contains(expected) && refused.contains("undefined field 'replica'"), "{refused}");
}
