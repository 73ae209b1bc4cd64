//! (h) Measures the DNS server: answers per second of one core, and the time of an answer, with 1,000 Services.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::tasks::Tasks;
use kubelet::cluster::services::{Endpoint, EndpointSlice, Service, ServiceName, ServiceSnapshot};
use kubelet::dns;
use kubelet::report::Outbox;
use kubelet::runtime::spec::Dns;
use tokio::sync::watch;

use crate::shared::table::Table;

/// The address at which the server listens. No program of the machine uses it.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 53);
/// An address at which nothing listens, so that other names are not resolved.
const UPSTREAM: &str = "127.77.0.54";
/// The number of Services. Each tenth is headless, with ten endpoints.
const SERVICES: u32 = 1000;
/// The number of queries of a measurement.
const QUERIES: usize = 200_000;
/// The number of queries that wait for their answer at the same time.
const WINDOW: usize = 16;
/// Answers per second of one core.
const TARGET_RATE: f64 = 20_000.0;
/// The 99th percentile of the time of an answer, in milliseconds.
const TARGET_LATENCY: f64 = 2.0;

/// Runs the measurement and adds its results to the table.
pub fn measure(table: &mut Table) {
    // The server has a thread of its own, so that it uses at most one core.
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(serve());
    });
    let name = |number: u32| format!("service-{number}.ns-{}.svc.cluster.local", number % 20);
    let is_headless = |number: &u32| number.is_multiple_of(10);
    let headless = (0..SERVICES).filter(is_headless).map(name).collect();
    let cluster_ip = (0..SERVICES).filter(|number| !is_headless(number)).map(name).collect();
    let missing = (0..SERVICES).map(|number| format!("www{number}.example.com.{}", name(number))).collect();
    for (what, names) in
        [("a cluster IP", cluster_ip), ("ten endpoints", headless), ("no such name", missing)]
    {
        let names: Vec<String> = names;
        let (rate, latency) = ask(&names);
        let detail = format!("{QUERIES} queries, {WINDOW} at a time");
        table.at_least(&format!("(h) DNS, {what}"), TARGET_RATE, rate, "/s", detail.clone());
        table.at_most(&format!("(h) DNS, {what}, p99"), TARGET_LATENCY, latency, " ms", detail);
    }
}

/// Serves the Services until the benchmark ends.
async fn serve() {
    let mut tasks = Tasks::default();
    let (_addresses, addresses) = watch::channel(vec![IpAddr::V4(ADDRESS)]);
    let (_services, services) = watch::channel(Arc::new(snapshot()));
    let host_dns = || Ok(Dns { servers: vec![UPSTREAM.to_owned()], ..Dns::default() });
    let settings = dns::Settings {
        node: "bench".to_owned(),
        domain: dns::DEFAULT_DOMAIN.to_owned(),
        addresses,
        services,
        host_dns: Box::new(host_dns),
        state: Arc::default(),
        outbox: Outbox::new(),
    };
    dns::start(settings, &mut tasks).unwrap();
    panic!("{}", tasks.first_end().await);
}

fn snapshot() -> ServiceSnapshot {
    let mut snapshot = ServiceSnapshot { is_known: true, ..ServiceSnapshot::default() };
    for number in 0..SERVICES {
        let name = Arc::new(ServiceName::new(&format!("ns-{}", number % 20), &format!("service-{number}")));
        let is_headless = number.is_multiple_of(10);
        let address = IpAddr::V4(Ipv4Addr::from(0x0a60_0001 + number));
        let cluster_ips = if is_headless { Vec::new() } else { vec![address] };
        let service = Service { is_headless, cluster_ips, ..Service::default() };
        let endpoint = |at: u32| Endpoint {
            addresses: vec![Ipv4Addr::from(0x0af4_0000 + number * 16 + at).into()],
            is_ready: true,
            ..Endpoint::default()
        };
        let slice = EndpointSlice {
            name: "slice".into(),
            service: name.clone(),
            ports: Vec::new(),
            endpoints: (0..10).map(endpoint).collect(),
            has_other_proxy: false,
        };
        snapshot.services.insert(name.clone(), Arc::new(service));
        snapshot.endpoint_slices.insert(name, Arc::new(vec![Arc::new(slice)]));
    }
    snapshot
}

/// Asks for the addresses of these names in turn. Returns answers per second, and the 99th percentile of their time in
/// milliseconds.
fn ask(names: &[String]) -> (f64, f64) {
    let queries: Vec<Vec<u8>> = names.iter().map(|name| query(name)).collect();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect((ADDRESS, 53)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut buffer = [0; 4096];
    // The server may not listen yet.
    while socket.send(&queries[0]).is_err() || socket.recv(&mut buffer).is_err() {}
    let (mut waiting, mut times) = (VecDeque::new(), Vec::with_capacity(QUERIES));
    let began = Instant::now();
    let mut turn = queries.iter().cycle().take(QUERIES);
    loop {
        while waiting.len() < WINDOW
            && let Some(query) = turn.next()
        {
            socket.send(query).unwrap();
            waiting.push_back(Instant::now());
        }
        let Some(sent) = waiting.pop_front() else { break };
        socket.recv(&mut buffer).unwrap();
        times.push(sent.elapsed());
    }
    let rate = QUERIES as f64 / began.elapsed().as_secs_f64();
    times.sort_unstable();
    (rate, times[QUERIES * 99 / 100].as_secs_f64() * 1e3)
}

/// A query for the IPv4 addresses of a name.
fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query
}
