//! Tests that only Docker can run: errors of a real kernel, files, namespaces and the image in the binary.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::CreateContainerOptionsBuilder;
use kubelet::observed::Sandbox;
use kubelet::runtime::contract::{Bench, identity};
use kubelet::runtime::docker::{Docker, Settings};
use kubelet::runtime::spec::{HostPort, Mount, Network};
use kubelet::runtime::{Error, Inspected, Runtime, labels};
use tests::{Engine, IMAGE, free_port};

async fn bench(test: &str) -> Bench {
    super::bench(&format!("docker-{test}")).await
}

async fn start(bench: &Bench, id: &str) -> Sandbox {
    match bench.runtime.start(id).await.unwrap().seen {
        Inspected::Sandbox(_, sandbox) => sandbox,
        other => panic!("not a sandbox: {other:?}"),
    }
}

/// The output of a command in a container of that sandbox.
async fn run_script(bench: &Bench, pod: &str, sandbox: &Sandbox, script: &str) -> String {
    let spec = bench.container(pod, sandbox, "sleep 1000").await;
    let made = bench.runtime.create_container(&spec).await.unwrap();
    bench.runtime.start(&made.id).await.unwrap();
    let command = ["sh", "-c", script].map(str::to_owned);
    let done = bench.runtime.exec(&made.id, &command, Duration::from_secs(60), 1 << 16).await.unwrap();
    assert_eq!(done.exit_code, Some(0), "{}", String::from_utf8_lossy(&done.output));
    String::from_utf8(done.output).unwrap()
}

#[tokio::test]
async fn settings_that_the_engine_rejects_are_omitted_and_reported() {
    let test = |bench: Bench| async move {
        let sandbox = bench.pod("refusals").await;
        let mut spec = bench.container("refusals", &sandbox, "sleep 1000").await;
        spec.oom_score_adj = -997;
        spec.security.privileged = true;
        let made = bench.runtime.create_container(&spec).await.unwrap();
        let started = bench.runtime.start(&made.id).await.unwrap();
        let Inspected::Container(identity, container) = started.seen else { panic!("not a container") };
        assert!(container.state.is_running());
        assert_eq!(identity, spec.identity);
        assert_eq!(container.image, spec.image);

        let host = Engine::connect().await.inspect(&container.id).await.unwrap().host_config.unwrap();
        let mut omitted = Vec::new();
        if host.oom_score_adj != Some(-997) {
            omitted.push("oom_score_adj -997");
        }
        if host.privileged != Some(true) {
            omitted.push("privileged");
        }
        let omitted_parts: Vec<_> =
            started.omitted.iter().map(|part| part.split(" (").next().unwrap()).collect();
        assert_eq!(omitted_parts, omitted, "the reported omissions are the actual ones");
        assert_eq!(
            container.id == made.id,
            host.privileged == Some(true),
            "made again only when refused late"
        );

        let mut second = bench.container("refusals", &sandbox, "sleep 1000").await;
        second.identity.container = "second".to_owned();
        second.security.privileged = true;
        let made = bench.runtime.create_container(&second).await.unwrap();
        let again = bench.runtime.start(&made.id).await.unwrap();
        let Inspected::Container(_, container) = again.seen else { panic!("not a container") };
        assert_eq!(container.id, made.id, "a refusal is met once");
        assert_eq!(again.omitted, started.omitted[started.omitted.len().min(1)..]);
    };
    bench("refusals").await.run(test).await;
}

#[tokio::test]
async fn kubelet_removes_late_probe_containers_of_a_killed_kubelet() {
    let test = |bench: Bench| async move {
        let node = format!("contract-{}-docker-tried", std::process::id());
        let (engine, name) = (Engine::connect().await, format!("k8s_probe_{node}"));
        for _ in 0..2 {
            let options = CreateContainerOptionsBuilder::new().name(&name).build();
            let body = ContainerCreateBody {
                image: Some(IMAGE.to_owned()),
                labels: Some([(labels::NODE.to_owned(), node.clone())].into()),
                ..ContainerCreateBody::default()
            };
            engine.docker().create_container(Some(options), body).await.unwrap();
            bench.pod("tried").await; // This is the first time that the engine is probed.
            bench.runtime.list().await.unwrap();
            let left: Vec<_> = engine.containers(&node).await.into_iter().map(|c| c.engine_name).collect();
            assert!(!left.contains(&name), "{left:?}");
        }
    };
    bench("tried").await.run(test).await;
}

#[tokio::test]
async fn capability_all_means_the_capabilities_of_the_engine() {
    let test = |bench: Bench| async move {
        let sandbox = bench.pod("caps").await;
        let mut spec = bench.container("caps", &sandbox, "sleep 1000").await;
        spec.security.add = vec!["ALL".to_owned()];
        let made = bench.runtime.create_container(&spec).await.unwrap();
        let started = bench.runtime.start(&made.id).await.unwrap();
        let Inspected::Container(_, container) = started.seen else { panic!("not a container") };
        let command = ["sh", "-c", "grep CapBnd /proc/1/status"].map(str::to_owned);
        let logged =
            bench.runtime.exec(&container.id, &command, Duration::from_secs(60), 1024).await.unwrap().output;
        let logged = String::from_utf8(logged).unwrap();
        let has = u64::from_str_radix(logged.trim_start_matches("CapBnd:").trim(), 16).unwrap().count_ones();
        assert!(has > 30, "{has} capabilities, without {:?}", started.omitted);
    };
    bench("caps").await.run(test).await;
}

#[tokio::test]
async fn concurrent_creates_of_one_sandbox_create_it_once() {
    let test = |bench: Bench| async move {
        let spec = bench.sandbox("twice");
        let (one, two) =
            tokio::join!(bench.runtime.create_sandbox(&spec), bench.runtime.create_sandbox(&spec));
        assert_eq!(one.unwrap().id, two.unwrap().id);
    };
    bench("twice").await.run(test).await;
}

#[tokio::test]
async fn sandbox_has_hostname_host_aliases_and_dns_settings() {
    let test = |bench: Bench| async move {
        let mut spec = bench.sandbox("names");
        spec.domain = Some("web.default.svc.cluster.local".to_owned());
        spec.host_aliases = vec![("db.example".to_owned(), "10.9.8.7".parse().unwrap())];
        spec.dns.servers = vec!["192.0.2.53".to_owned()];
        spec.dns.searches = vec!["svc.cluster.local".to_owned()];
        spec.dns.options = vec!["ndots:5".to_owned()];
        spec.sysctls = [("net.ipv4.ip_unprivileged_port_start".to_owned(), "77".to_owned())].into();
        let made = bench.runtime.create_sandbox(&spec).await.unwrap();
        let sandbox = start(&bench, &made.id).await;
        let script =
            "hostname; cat /etc/hosts /etc/resolv.conf /proc/sys/net/ipv4/ip_unprivileged_port_start; ip a";
        let text = run_script(&bench, "names", &sandbox, script).await;
        let ip = sandbox.ips[0].to_string();
        let wanted = [
            "names\n",
            "10.9.8.7\tdb.example",
            "nameserver 192.0.2.53",
            "search svc.cluster.local",
            "ndots:5",
            "77\n",
        ];
        for wanted in wanted.into_iter().chain([ip.as_str()]) {
            assert!(text.contains(wanted), "{wanted:?} in {text}");
        }
    };
    bench("names").await.run(test).await;
}

#[tokio::test]
async fn host_network_pod_has_the_host_name_and_network() {
    let test = |bench: Bench| async move {
        let mut spec = bench.sandbox("host");
        spec.network = Network::Host;
        spec.hostname = None;
        spec.host_aliases = vec![("db.example".to_owned(), "10.9.8.7".parse().unwrap())];
        let made = bench.runtime.create_sandbox(&spec).await.unwrap();
        let sandbox = start(&bench, &made.id).await;
        assert_eq!(sandbox.ips, [] as [std::net::IpAddr; 0]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!("hostname; grep db.example /etc/hosts; netstat -lnt | grep :{port}");
        let text = run_script(&bench, "host", &sandbox, &script).await;
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert!(text.starts_with(&name), "{text}");
    };
    bench("host").await.run(test).await;
}

#[tokio::test]
async fn host_port_is_forwarded_to_the_pod() {
    let test = |bench: Bench| async move {
        let lease = free_port();
        let port = HostPort {
            host_ip: Some("127.0.0.1".parse().unwrap()),
            host_port: lease.number,
            container_port: 8080,
            protocol: "TCP".to_owned(),
        };
        let mut spec = bench.sandbox("port");
        spec.host_ports = vec![port.clone()];
        let made = bench.runtime.create_sandbox(&spec).await.unwrap();
        let sandbox = start(&bench, &made.id).await;
        run_script(&bench, "port", &sandbox, "mkdir /w; echo here > /w/x; httpd -p 8080 -h /w").await;
        let page = tokio::task::spawn_blocking(move || {
            use std::io::{Read, Write};
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port.host_port)).unwrap();
            stream.write_all(b"GET /x HTTP/1.0\r\n\r\n").unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).unwrap();
            page
        });
        assert!(page.await.unwrap().ends_with("here\n"));

        let mut second = bench.sandbox("port-taken");
        second.host_ports = spec.host_ports;
        let made = bench.runtime.create_sandbox(&second).await.unwrap();
        let refused = bench.runtime.start(&made.id).await;
        let Err(Error::Refused { message, .. }) = refused else { panic!("{refused:?}") };
        assert!(
            message.contains("port is already allocated") || message.contains("already in use"),
            "{message}"
        );
    };
    bench("port").await.run(test).await;
}

#[tokio::test]
async fn mount_of_a_missing_source_fails() {
    let test = |bench: Bench| async move {
        let folder = tempfile::tempdir().unwrap();
        let last_words = folder.path().join("last-words");
        std::fs::write(&last_words, "").unwrap();
        let mount = |source: &std::path::Path, target: &str, read_only| Mount {
            source: source.to_str().unwrap().to_owned(),
            target: target.to_owned(),
            read_only,
            propagation: "rprivate".to_owned(),
        };
        let sandbox = bench.pod("mounts").await;
        let script = "echo no > /fixed/file 2>/dev/null && exit 9; test -d /host/proc || exit 8; \
            printf 'out of cake' > /dev/termination-log; exit 7";
        let mut spec = bench.container("mounts", &sandbox, script).await;
        // The last one contains the engine's own directory.
        spec.mounts = vec![
            mount(folder.path(), "/fixed", true),
            mount(&last_words, "/dev/termination-log", false),
            mount(std::path::Path::new("/"), "/host", true),
        ];
        spec.termination.file = last_words.to_str().unwrap().to_owned();
        let made = bench.runtime.create_container(&spec).await.unwrap();
        bench.runtime.start(&made.id).await.unwrap();
        let (ended, exit) = bench.ended(&made.id).await;
        assert_eq!((exit.code, ended.message.as_deref()), (7, Some("out of cake")));

        let missing = folder.path().join("missing");
        spec.identity = identity("mounts", "other");
        spec.mounts = vec![mount(&missing, "/x", false)];
        let refused = bench.runtime.create_container(&spec).await;
        let Err(Error::Refused { message, .. }) = refused else { panic!("{refused:?}") };
        assert!(message.contains(missing.to_str().unwrap()), "{message}");
        assert!(!missing.exists(), "nothing is made unasked");
    };
    bench("mounts").await.run(test).await;
}

#[tokio::test]
async fn pause_container_reaps_processes_and_stops_at_once() {
    let test = |bench: Bench| async move {
        let mut spec = bench.sandbox("reaper");
        spec.share_process_namespace = true;
        let made = bench.runtime.create_sandbox(&spec).await.unwrap();
        let sandbox = start(&bench, &made.id).await;
        let mut spec = bench.container("reaper", &sandbox, "sleep 1000").await;
        spec.processes_of = Some(made.id.clone());
        let app = bench.runtime.create_container(&spec).await.unwrap();
        bench.runtime.start(&app.id).await.unwrap();
        // Process 1 adopts a grandchild whose parent has ended: none stays behind as a zombie.
        let script = "exec 2>/dev/null; cat /proc/1/comm; \
                      orphans=$(for i in 1 2 3; do sh -c 'sleep 0.01 >/dev/null & echo $!'; done); \
                      echo $orphans | wc -w; \
                      for i in $(seq 500); do left=; \
                      for one in $orphans; do [ -e /proc/$one ] && left=\"$left $one\"; done; \
                      [ -z \"$left\" ] && break; sleep 0.01; done; \
                      for one in $left; do grep -H State /proc/$one/status; done; exit 0";
        let command = ["sh", "-c", script].map(str::to_owned);
        let done = bench.runtime.exec(&app.id, &command, Duration::from_secs(60), 1 << 16).await.unwrap();
        assert_eq!(String::from_utf8(done.output).unwrap(), "pause\n3\n");
        bench.runtime.remove(&app.id).await.unwrap();

        let began = Instant::now();
        bench.runtime.signal(&sandbox.id, "SIGTERM").await.unwrap();
        assert!(bench.runtime.wait(&sandbox.id, Duration::from_secs(60)).await.unwrap());
        assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
        let Inspected::Sandbox(_, sandbox) = bench.runtime.inspect(&sandbox.id).await.unwrap() else {
            panic!("not one")
        };
        assert!(matches!(sandbox.state, kubelet::observed::State::Exited(exit) if exit.code == 0));
    };
    bench("reaper").await.run(test).await;
}

#[tokio::test]
async fn removed_pause_image_is_loaded_again() {
    let test = |bench: Bench| async move {
        // The engine refuses this while a sandbox of another test uses the image, which is fine here.
        let engine = tests::Engine::connect().await;
        let options = None::<bollard::query_parameters::RemoveImageOptions>;
        let _ = engine.docker().remove_image(&bench.sandbox_image, options, None).await;
        let made = bench.runtime.create_sandbox(&bench.sandbox("image")).await.unwrap();
        assert!(start(&bench, &made.id).await.state.is_running());
    };
    bench("image").await.run(test).await;
}

#[tokio::test]
async fn stopped_engine_gives_an_unreachable_error() {
    let away = Docker::connect("unix:///no/such/docker.sock", "n", Settings::default()).unwrap();
    assert!(matches!(away.info().await, Err(Error::Unreachable { .. })));
    assert!(matches!(away.list().await, Err(Error::Unreachable { .. })));
    assert!(matches!(away.events().await.map(drop), Err(Error::Unreachable { .. })));
}

#[tokio::test]
async fn terminal_output_arrives_before_the_line_ends() {
    use futures_util::StreamExt;
    use tokio::io::AsyncWriteExt;
    let test = |bench: Bench| async move {
        let app = bench.running("terminal", "sleep 1000").await;
        let command = ["sh", "-c", "printf 'name? '; read name; echo hello $name; stty size"]
            .map(str::to_owned)
            .to_vec();
        let request = kubelet::runtime::ExecRequest { command, stdin: true, tty: true };
        let mut session = bench.runtime.exec_start(&app.id, &request).await.unwrap();
        let mut received = String::new();
        let mut receive = async |wanted: &str| {
            while !received.contains(wanted) {
                let piece =
                    tokio::time::timeout(Duration::from_secs(60), session.output.next()).await.expect(wanted);
                received.push_str(&String::from_utf8_lossy(&piece.expect(wanted).unwrap().1));
            }
        };
        receive("name? ").await;
        bench.runtime.exec_resize(&session.id, 99, 33).await.unwrap();
        session.input.write_all(b"pod\n").await.unwrap();
        receive("hello pod").await;
        receive("33 99").await;
    };
    bench("terminal").await.run(test).await;
}

#[tokio::test]
async fn exec_that_times_out_leaves_no_process() {
    let test = |bench: Bench| async move {
        let app = bench.running("late", "sleep 1000").await;
        let run = async |script: &str, at_most| {
            let command = ["sh", "-c", script].map(str::to_owned);
            let done = bench.runtime.exec(&app.id, &command, at_most, 1024).await.unwrap();
            (done.exit_code, String::from_utf8(done.output).unwrap())
        };
        assert_eq!(run("exec sleep 2345", Duration::from_millis(200)).await.0, None);
        let script =
            "for i in $(seq 500); do pgrep -f 'sleep 2345$' >/dev/null || break; sleep 0.01; done; ps";
        let (_, processes) = run(script, Duration::from_secs(60)).await;
        assert!(!processes.contains("sleep 2345\n"), "{processes}");
    };
    bench("late").await.run(test).await;
}
