//! Manifests for Compose files: examples of the Compose specification, and what they do not express.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use serde_json::{Value, json};

use super::interpolate::Variables;
use super::{Context, Findings, file, objects, stream};
use crate::cli::args::{Cli, Verb};
use crate::cli::check::inspect::{Host, Input, inspect};
use crate::observed::Timestamp;

/// The result of an import.
struct Imported {
    text: String,
    objects: Vec<Value>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Imported {
    /// The value at a JSON pointer in the object of this kind.
    fn at(&self, kind: &str, pointer: &str) -> Value {
        let object = self.objects.iter().find(|object| object["kind"] == kind);
        object.and_then(|object| object.pointer(pointer)).cloned().unwrap_or_default()
    }

    /// The value at a JSON pointer in the first container.
    fn container(&self, pointer: &str) -> Value {
        self.at("Pod", &format!("/spec/containers/0{pointer}"))
    }
}

fn import_with(text: &str, flags: &[&str]) -> Imported {
    let files = [
        ("/project/web.env", "FROM_FILE=1\nBOTH=file\n"),
        ("/project/nginx.conf", "worker_processes 1;\n"),
        ("/project/password", "secret"),
    ];
    let read = |path: &Path| {
        let found = files.iter().find(|(name, _)| path == Path::new(name));
        let content = found.map(|(_, content)| content.as_bytes().to_vec());
        content.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    let is_file = |path: &Path| read(path).is_ok();
    let variables = Variables {
        process: [("TAG".to_owned(), "1.2".to_owned()), ("TOKEN".to_owned(), "t0ken".to_owned())].into(),
        dot_env: BTreeMap::new(),
    };
    let Verb::Import(arguments) =
        Cli::parse_from([&["kubelet", "import", "compose.yaml"], flags].concat()).verb
    else {
        panic!("no import")
    };
    let mut findings = Findings::default();
    let value = api::decode::value(text.as_bytes()).unwrap().unwrap();
    let parsed = file::read(value, &variables, &mut findings).unwrap();
    let context = Context {
        project: "shop".to_owned(),
        directory: PathBuf::from("/project"),
        volumes_directory: PathBuf::from("/volumes"),
        variables,
        volumes: parsed.volumes.clone(),
        configs: parsed.configs.clone(),
        secrets: parsed.secrets.clone(),
        read: &read,
        is_file: &is_file,
    };
    let objects = objects(&parsed, &context, &arguments, &mut findings);
    let text = stream(&objects).unwrap();
    let documents = api::decode::documents(text.as_bytes()).unwrap();
    let objects = documents.into_iter().flat_map(|document| document.values.unwrap()).collect();
    let lines = |found: &[api::problem::Problem]| found.iter().map(ToString::to_string).collect();
    Imported { text, objects, problems: lines(&findings.problems), warnings: lines(&findings.warnings) }
}

fn import(text: &str) -> Imported {
    import_with(text, &[])
}

/// Imports a service `web` with these fields, in YAML with four spaces.
fn service(fields: &str) -> Imported {
    import(&format!("services:\n  web:\n    image: nginx\n{fields}\nvolumes: {{data: {{}}}}\n"))
}

/// What `kubelet check` says about the manifests.
fn check(imported: &Imported) -> Vec<String> {
    let inputs = [Input { origin: "out.yaml".to_owned(), read: Ok(imported.text.clone().into_bytes()) }];
    let host = Host { node: "n".to_owned(), app_armor: None };
    let report = inspect(&inputs, &host, Timestamp::UNIX_EPOCH);
    report.problems.iter().chain(&report.warnings).map(ToString::to_string).collect()
}

/// The first example of the Compose specification, with images.
const FRONTEND_AND_BACKEND: &str = r#"
services:
  frontend:
    image: example/webapp
    ports: ["443:8043"]
    networks: [front-tier, back-tier]
    configs: [httpd-config]
    secrets: [server-certificate]
    depends_on: [backend]
    restart: always
  backend:
    image: example/database:${TAG}
    volumes: ["db-data:/etc/data"]
    networks: {back-tier: {aliases: [database]}}
    restart: always
volumes:
  db-data:
    driver: local
configs:
  httpd-config: {file: ./nginx.conf}
secrets:
  server-certificate: {file: ./password}
networks:
  front-tier: {}
  back-tier: {}
"#;

#[test]
fn services_become_the_containers_of_one_pod() {
    let imported = import(FRONTEND_AND_BACKEND);
    assert_eq!(imported.problems, [""; 0]);
    assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
    assert!(
        imported.warnings[0]
            .starts_with("volumes.db-data: the volume becomes the directory /volumes/shop_db-data")
    );
    assert_eq!(check(&imported), [""; 0], "{}", imported.text);
    let pod = |pointer: &str| imported.at("Pod", pointer);
    assert_eq!(pod("/metadata/name"), "shop");
    assert_eq!(pod("/spec/restartPolicy"), "Always");
    assert_eq!(pod("/spec/terminationGracePeriodSeconds"), 10);
    let hosts = json!([{"ip": "127.0.0.1", "hostnames": ["backend", "database", "frontend"]}]);
    assert_eq!(pod("/spec/hostAliases"), hosts);
    // The backend comes first, because the frontend depends on it.
    assert_eq!(pod("/spec/containers/0/image"), "example/database:1.2");
    assert_eq!(
        pod("/spec/containers/0/volumeMounts"),
        json!([{"name": "db-data", "mountPath": "/etc/data"}])
    );
    assert_eq!(
        pod("/spec/containers/1/ports"),
        json!([{"containerPort": 8043, "hostPort": 443, "protocol": "TCP"}])
    );
    let mounts = json!([
        {"name": "config-httpd-config", "mountPath": "/httpd-config", "readOnly": true, "subPath": "httpd-config"},
        {"name": "secret-server-certificate", "mountPath": "/run/secrets/server-certificate", "readOnly": true,
         "subPath": "server-certificate"},
    ]);
    assert_eq!(pod("/spec/containers/1/volumeMounts"), mounts);
    assert_eq!(imported.at("ConfigMap", "/data"), json!({"httpd-config": "worker_processes 1;\n"}));
    assert_eq!(imported.at("Secret", "/data"), json!({"server-certificate": "c2VjcmV0"}));
    assert_eq!(imported.at("Secret", "/metadata/name"), "shop-server-certificate");
}

#[test]
fn conditions_of_depends_on_become_the_order_of_init_containers() {
    let imported = import(
        r#"
services:
  web:
    image: web
    restart: unless-stopped
    depends_on:
      db: {condition: service_healthy}
      migrate: {condition: service_completed_successfully}
      cache: {condition: service_started}
  migrate: {image: migrate, depends_on: [db, queue]}
  cache: {image: redis, restart: on-failure}
  queue: {image: queue, restart: always}
  db:
    image: postgres
    restart: always
    healthcheck: {test: [CMD, pg_isready], interval: 10s, timeout: 5s, retries: 5, start_period: 30s}
"#,
    );
    assert_eq!(imported.problems, [""; 0]);
    assert_eq!(imported.warnings, [""; 0]);
    assert_eq!(check(&imported), [""; 0], "{}", imported.text);
    let spec = imported.at("Pod", "/spec");
    let shown = |list: &str| -> Vec<String> {
        let containers = spec[list].as_array().unwrap().iter();
        let one = |container: &Value| {
            let policy = container["restartPolicy"].as_str().unwrap_or("-");
            format!("{} {policy}", container["name"].as_str().unwrap())
        };
        containers.map(one).collect()
    };
    assert_eq!(shown("initContainers"), ["queue Always", "db Always", "migrate -"]);
    assert_eq!(shown("containers"), ["cache OnFailure", "web -"]);
    assert_eq!(spec["restartPolicy"], "Always");
    let probe = |period: u64, failures: u64| json!({"exec": {"command": ["pg_isready"]}, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures});
    let db = &spec["initContainers"][1];
    assert_eq!(db["readinessProbe"], probe(10, 5));
    // 30 s of grace and 5 failures at intervals of 10 s, probed every 5 s.
    assert_eq!(db["startupProbe"], probe(5, 16));
    assert_eq!(spec["initContainers"][0]["startupProbe"], Value::Null);
}

#[test]
fn fields_of_a_service_become_fields_of_its_container() {
    for (fields, pointer, expected) in [
        ("    command: bundle exec 'thin -p' $$HOME", "/args", json!(["bundle", "exec", "thin -p", "$HOME"])),
        ("    command: [sh, -c, 'echo $$(A)']", "/args", json!(["sh", "-c", "echo $$(A)"])),
        ("    entrypoint: /run.sh", "/command", json!(["/run.sh"])),
        ("    working_dir: /srv", "/workingDir", json!("/srv")),
        ("    user: '1000:50'", "/securityContext", json!({"runAsUser": 1000, "runAsGroup": 50})),
        ("    user: 7", "/securityContext", json!({"runAsUser": 7})),
        (
            "    cap_add: [NET_ADMIN]\n    cap_drop: [CAP_CHOWN, all]",
            "/securityContext/capabilities",
            json!({"add": ["NET_ADMIN"], "drop": ["CHOWN", "ALL"]}),
        ),
        ("    privileged: true\n    init: false", "/securityContext", json!({"privileged": true})),
        ("    read_only: 'true'", "/securityContext", json!({"readOnlyRootFilesystem": true})),
        (
            "    security_opt: ['no-new-privileges:true', 'seccomp:unconfined']",
            "/securityContext",
            json!({"allowPrivilegeEscalation": false, "seccompProfile": {"type": "Unconfined"}}),
        ),
        ("    stop_signal: SIGQUIT", "/lifecycle", json!({"stopSignal": "SIGQUIT"})),
        ("    tty: true\n    stdin_open: true", "/tty", json!(true)),
        ("    pull_policy: always", "/imagePullPolicy", json!("Always")),
        ("    container_name: x", "/imagePullPolicy", json!("IfNotPresent")),
        (
            "    mem_limit: 1gb\n    cpus: 0.5",
            "/resources",
            json!({"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "0", "memory": "0"}}),
        ),
        (
            "    deploy: {resources: {limits: {cpus: '0.50', memory: 50M}, reservations: {memory: 20M}}}",
            "/resources",
            json!({"limits": {"cpu": "500m", "memory": "50Mi"}, "requests": {"cpu": "0", "memory": "20Mi"}}),
        ),
        (
            "    env_file: web.env\n    environment: {BOTH: own, EMPTY: '', TOKEN: , ABSENT: , N: 1}",
            "/env",
            json!([{"name": "FROM_FILE", "value": "1"}, {"name": "BOTH", "value": "own"}, {"name": "EMPTY", "value": ""},
                   {"name": "TOKEN", "value": "t0ken"}, {"name": "N", "value": "1"}]),
        ),
        (
            "    env_file: [{path: none.env, required: false}]\n    environment: [A=b=c, TOKEN, 'V=${TAG}']",
            "/env",
            json!([{"name": "A", "value": "b=c"}, {"name": "TOKEN", "value": "t0ken"}, {"name": "V", "value": "1.2"}]),
        ),
        (
            "    ports: [{target: 80, published: '8080', host_ip: 127.0.0.1, protocol: udp, name: dns, mode: host}]",
            "/ports",
            json!([{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1", "protocol": "UDP", "name": "dns"}]),
        ),
        ("    expose: [3000, '3000/tcp']", "/ports", json!([{"containerPort": 3000, "protocol": "TCP"}])),
        (
            "    healthcheck: {test: curl -f http://localhost}",
            "/readinessProbe/exec/command",
            json!(["/bin/sh", "-c", "curl -f http://localhost"]),
        ),
        ("    healthcheck: {test: [NONE]}", "/readinessProbe", Value::Null),
        ("    healthcheck: {disable: true}", "/readinessProbe", Value::Null),
        (
            "    volumes: ['.:/code:ro', 'data:/var/lib/data', '/anonymous']",
            "/volumeMounts",
            json!([{"name": "web-volume-0", "mountPath": "/code", "readOnly": true}, {"name": "data", "mountPath": "/var/lib/data"},
                   {"name": "web-volume-2", "mountPath": "/anonymous"}]),
        ),
        (
            "    volumes: [{type: bind, source: ./a/../b, target: /b, bind: {propagation: rslave}}]\n    shm_size: 64m",
            "/volumeMounts",
            json!([{"name": "web-volume-0", "mountPath": "/b", "mountPropagation": "HostToContainer"},
                   {"name": "web-shm", "mountPath": "/dev/shm"}]),
        ),
    ] {
        let imported = service(fields);
        assert_eq!(imported.container(pointer), expected, "{fields}\n{}", imported.text);
        assert_eq!(imported.problems, [""; 0], "{fields}");
        assert_eq!(check(&imported), [""; 0], "{fields}\n{}", imported.text);
    }
}

#[test]
fn fields_of_a_service_become_fields_of_its_pod() {
    for (fields, pointer, expected) in [
        ("    restart: 'no'", "/restartPolicy", json!("Never")),
        ("    restart: unless-stopped", "/restartPolicy", json!("Always")),
        ("    deploy: {restart_policy: {condition: on-failure}}", "/restartPolicy", json!("OnFailure")),
        ("    network_mode: host\n    ports: ['80:80']", "/hostNetwork", json!(true)),
        ("    pid: host", "/hostPID", json!(true)),
        ("    hostname: web1", "/hostname", json!("web1")),
        ("    stop_grace_period: 1m30s", "/terminationGracePeriodSeconds", json!(90)),
        ("    group_add: [5]", "/securityContext/supplementalGroups", json!([5])),
        (
            "    sysctls: {net.ipv4.ip_unprivileged_port_start: 0}",
            "/securityContext/sysctls",
            json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]),
        ),
        (
            "    dns: 8.8.8.8\n    dns_search: [example.com]\n    dns_opt: ['ndots:2', use-vc]",
            "/dnsConfig",
            json!({"nameservers": ["8.8.8.8"], "searches": ["example.com"],
                   "options": [{"name": "ndots", "value": "2"}, {"name": "use-vc"}]}),
        ),
        (
            "    extra_hosts: ['a.example=10.0.0.1', 'b:10.0.0.1', 'c=[::1]']",
            "/hostAliases",
            json!([{"ip": "10.0.0.1", "hostnames": ["a.example", "b"]}, {"ip": "127.0.0.1", "hostnames": ["web"]},
                   {"ip": "::1", "hostnames": ["c"]}]),
        ),
        (
            "    tmpfs: '/run:size=1m,mode=755'",
            "/volumes",
            json!([{"name": "web-tmpfs-0", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]),
        ),
        (
            "    volumes: ['./src:/src', './nginx.conf:/etc/nginx.conf']",
            "/volumes",
            json!([{"name": "web-volume-0", "hostPath": {"path": "/project/src", "type": "DirectoryOrCreate"}},
                   {"name": "web-volume-1", "hostPath": {"path": "/project/nginx.conf"}}]),
        ),
    ] {
        let imported = service(fields);
        assert_eq!(imported.at("Pod", &format!("/spec{pointer}")), expected, "{fields}\n{}", imported.text);
        assert_eq!(imported.problems, [""; 0], "{fields}");
        assert_eq!(check(&imported), [""; 0], "{fields}\n{}", imported.text);
    }
}

#[test]
fn what_is_not_expressed_is_named_with_its_field() {
    for (fields, expected) in [
        ("    ulimits: {nofile: 1024}", "services.web.ulimits: `ulimits` is not expressed"),
        ("    init: true", "services.web.init: `init` is not expressed"),
        ("    extends: {service: base}", "services.web.extends: `extends` is not expressed"),
        ("    imag: x", "services.web.imag: Compose has no field `imag` here"),
        ("    devices: ['/dev/a:/dev/a']", "services.web.devices: `devices` is not expressed"),
        ("    deploy: {resources: {limits: {pids: 1}}}", "services.web.deploy.resources.limits.pids: `pids`"),
        ("    deploy: {replicas: 3}", "services.web.deploy.replicas: one pod has one container of a service"),
        ("    ports: ['80']", "services.web.ports[0]: the kubelet does not choose a port of the host"),
        ("    ports: ['x:80']", "services.web.ports[0]: `x` is not a port"),
        ("    user: www-data", "services.web.user: a Pod needs the number of `www-data`"),
        (
            "    restart: 'on-failure:3'",
            "services.web.restart: the kubelet does not limit the number of restarts",
        ),
        ("    restart: sometimes", "services.web.restart: `sometimes` is not a restart policy"),
        ("    entrypoint: []", "services.web.entrypoint: a Pod cannot clear the command of an image"),
        (
            "    healthcheck: {interval: 5s}",
            "services.web.healthcheck: the kubelet does not read the health check",
        ),
        (
            "    volumes: ['none:/x']",
            "services.web.volumes[0]: the volume none is not in the top-level `volumes`",
        ),
        (
            "    volumes: [{type: npipe, source: a, target: /x}]",
            "services.web.volumes[0]: volumes of the type `npipe`",
        ),
        ("    secrets: [none]", "services.web.secrets[0]: `none` is not in the top-level `secrets`"),
        ("    network_mode: none", "services.web.network_mode: the network mode `none`"),
        (
            "    networks: {a: {ipv4_address: 10.0.0.2}}",
            "services.web.networks.a.ipv4_address: a pod has one network",
        ),
        (
            "    extra_hosts: ['x=host-gateway']",
            "services.web.extra_hosts: x: `host-gateway` is not an IP address",
        ),
        ("    env_file: absent.env", "services.web.env_file[0]: /project/absent.env cannot be read"),
        ("    labels: ['a b=c']", "services.web.labels: `a b` is not a valid key"),
        ("    tty: maybe", "services.web.tty: expected true or false"),
        ("    environment: 3", "services.web.environment: expected a map or a list, found a number"),
        ("    command: \"${NEEDED:?say}\"", "services.web.command: the variable NEEDED is required: say"),
        ("    links: [db]", ""),
        ("    x-own: {a: 1}\n    logging: {}\n    develop: {watch: []}", ""),
    ] {
        let imported = service(fields);
        match expected {
            "" => assert_eq!(imported.problems, [""; 0], "{fields}"),
            expected => {
                assert_eq!(imported.problems.len(), 1, "{fields}: {:?}", imported.problems);
                assert!(imported.problems[0].starts_with(expected), "{fields}: {:?}", imported.problems);
            }
        }
    }
}

#[test]
fn conflicts_of_services_in_one_pod_are_named() {
    for (text, expected) in [
        (
            "services:\n  a: {image: x, expose: [80]}\n  b: {image: x, ports: ['81:80']}\n",
            "services.b.ports: b and a both listen on port 80 (TCP)",
        ),
        (
            "services:\n  a: {image: x, depends_on: [b]}\n  b: {image: x, depends_on: [a]}\n",
            "services.a.depends_on: the services depend on each other",
        ),
        (
            "services:\n  a: {image: x, network_mode: host}\n  b: {image: x}\n",
            "services.a.network_mode: services on the network of the host",
        ),
        (
            "services:\n  a: {image: x, depends_on: {b: {condition: service_healthy}}}\n  b: {image: x}\n",
            "services.a.depends_on.b: the service b has no health check",
        ),
        ("services:\n  my_db: {image: x}\n", "services.my_db: `my_db` cannot be a host name"),
        ("services:\n  a: {image: x}\ninclude: [b.yaml]\n", "include: `include` is not expressed"),
        ("services:\n  a: {}\n", "services.a: the service has no image"),
        (
            "services:\n  a: {image: x}\nnetworks: {n: {internal: true}}\n",
            "networks.n.internal: `internal` is not expressed",
        ),
    ] {
        let imported = import(text);
        assert!(
            imported.problems.first().is_some_and(|first| first.starts_with(expected)),
            "{:?}",
            imported.problems
        );
    }
}

#[test]
fn inactive_profiles_are_left_out_and_builds_use_their_image() {
    let text = "services:\n  web: {build: ., profiles: [full]}\n  tool: {image: x, profiles: [debug]}\n  a: {image: y}\n";
    let imported = import_with(text, &["--profile", "full"]);
    assert_eq!(imported.problems, [""; 0]);
    assert!(imported.warnings[0].contains("does not build images; the container uses the image shop-web"));
    assert!(imported.warnings[1].contains("the service tool is left out"), "{:?}", imported.warnings);
    assert_eq!(imported.at("Pod", "/spec/containers").as_array().unwrap().len(), 2);
    assert_eq!(imported.container("/image"), "shop-web");
}

#[test]
fn a_pod_per_service_has_headless_services() {
    let imported = import_with(FRONTEND_AND_BACKEND, &["--pod-per-service"]);
    assert_eq!(imported.problems, [""; 0]);
    let names = |kind: &str| -> Vec<&str> {
        let objects = imported.objects.iter().filter(|object| object["kind"] == kind);
        objects.map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
    };
    assert_eq!(names("Pod"), ["frontend", "backend"]);
    assert_eq!(names("Service"), ["frontend", "backend", "database"]);
    let selector = json!({"app.kubernetes.io/name": "frontend", "app.kubernetes.io/part-of": "shop"});
    assert_eq!(imported.at("Service", "/spec/selector"), selector);
    assert_eq!(imported.at("Pod", "/metadata/labels"), selector);
    assert_eq!(imported.at("Service", "/spec/clusterIP"), "None");
    assert_eq!(imported.at("Service", "/spec/ports/0/port"), 8043);
    assert_eq!(imported.at("Pod", "/spec/hostAliases"), Value::Null);
    let scaled = import_with("services: {a: {image: x, scale: 2}}", &["--pod-per-service"]);
    assert_eq!(scaled.objects.iter().filter(|object| object["kind"] == "Pod").count(), 2);
    assert_eq!(scaled.at("Pod", "/metadata/name"), "a-1");
}

#[test]
fn problems_have_the_line_of_their_field() {
    let text = "services:\n  web:\n    image: x\n    ulimits:\n      nofile: 1\n";
    let mut findings = Findings::default();
    let value = api::decode::value(text.as_bytes()).unwrap().unwrap();
    file::read(value, &Variables::default(), &mut findings).unwrap();
    findings.problem("services.web.ulimits", "what", "remedy");
    findings.problem("services.web.absent", "what", "remedy");
    api::decode::locate(text.as_bytes(), &mut findings.problems);
    assert_eq!((findings.problems[0].line, findings.problems[0].column), (4, 5));
    assert_eq!(findings.problems[1].line, 3);
}
