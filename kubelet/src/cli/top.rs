//! `kubelet top`: CPU and memory usage of pods and of the node, from the metrics API, in kubectl's table.

use std::collections::BTreeMap;
use std::process::ExitCode;

use ::client::percent_encoded;
use api::quantity::Quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::args::{Top, UsageColumn};
use super::client::Client;
use super::get::{PODS, ResourceType};
use super::pod;
use super::print::{Columns, note, out};

const JSON: &str = "application/json";
/// Path of the metrics API.
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";
const MEBIBYTE: i64 = 1 << 20;

/// A list of the metrics API, or of nodes.
#[derive(Debug, Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: String,
}

/// Quantities by resource name.
type Amounts = BTreeMap<String, QuantityText>;

#[derive(Debug, Deserialize)]
struct PodMetrics {
    metadata: Metadata,
    containers: Vec<ContainerMetrics>,
}

#[derive(Debug, Deserialize)]
struct ContainerMetrics {
    name: String,
    usage: Amounts,
}

#[derive(Debug, Deserialize)]
struct NodeMetrics {
    metadata: Metadata,
    usage: Amounts,
}

#[derive(Debug, Deserialize)]
struct Node {
    metadata: Metadata,
    status: NodeStatus,
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    allocatable: Amounts,
}

/// CPU in cores, and memory in bytes.
#[derive(Clone, Copy, Debug)]
struct Usage {
    cpu: Quantity,
    memory: Quantity,
}

impl Usage {
    const NONE: Self = Self { cpu: Quantity::ZERO, memory: Quantity::ZERO };

    fn of(amounts: &Amounts) -> Self {
        let quantity = |name: &str| Quantity::of(amounts.get(name)?).ok();
        let [cpu, memory] = ["cpu", "memory"].map(|name| quantity(name).unwrap_or(Quantity::ZERO));
        Self { cpu, memory }
    }

    fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu.plus(other.cpu), memory: self.memory.plus(other.memory) }
    }

    fn cells(self) -> [String; 2] {
        [format!("{}m", self.cpu.milli()), format!("{}Mi", self.memory.units() / MEBIBYTE)]
    }

    /// The value of a column: thousandths of a core, or bytes.
    fn column(self, column: UsageColumn) -> i64 {
        match column {
            UsageColumn::Cpu => self.cpu.milli(),
            UsageColumn::Memory => self.memory.units(),
        }
    }
}

/// Runs the subcommand.
pub async fn run(client: &Client, top: &Top) -> anyhow::Result<ExitCode> {
    match ResourceType::find(&top.resource) {
        Some(PODS) => pods(client, top).await,
        Some(resource) if resource.plural == "nodes" => nodes(client, top).await,
        _ => anyhow::bail!("unknown resource \"{}\": use pods or nodes", top.resource),
    }
}

async fn pods(client: &Client, top: &Top) -> anyhow::Result<ExitCode> {
    let namespace = format!("{METRICS}/namespaces/{}/pods", percent_encoded(&top.place.namespace));
    let found: Vec<PodMetrics> = match &top.name {
        Some(_) if top.all_namespaces => anyhow::bail!("a name cannot be combined with -A: leave out -A"),
        Some(name) => {
            let (name, _) = pod::object(client, &top.place.namespace, name).await?;
            vec![read(client, &format!("{namespace}/{}", percent_encoded(&name))).await?]
        }
        None => {
            let path = if top.all_namespaces { format!("{METRICS}/pods") } else { namespace };
            read::<List<PodMetrics>>(client, &selected(path, top)).await?.items
        }
    };
    if found.is_empty() {
        if top.all_namespaces {
            note("No resources found");
        } else {
            note(format_args!("No resources found in {} namespace.", top.place.namespace));
        }
        return Ok(ExitCode::SUCCESS);
    }
    out(pod_table(found, top).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn pod_table(mut pods: Vec<PodMetrics>, top: &Top) -> String {
    let total = |pod: &PodMetrics| {
        pod.containers.iter().map(|container| Usage::of(&container.usage)).fold(Usage::NONE, Usage::plus)
    };
    pods.sort_by(|a, b| {
        let place = |pod: &PodMetrics| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        let column = top.sort_by.map(|column| total(b).column(column).cmp(&total(a).column(column)));
        column.unwrap_or(std::cmp::Ordering::Equal).then_with(|| place(a).cmp(&place(b)))
    });
    let mut rows = Vec::new();
    if !top.no_headers {
        let namespace = top.all_namespaces.then_some("NAMESPACE");
        let name: &[&str] = if top.containers { &["POD", "NAME"] } else { &["NAME"] };
        let heads = namespace.into_iter().chain(name.iter().copied()).chain(["CPU(cores)", "MEMORY(bytes)"]);
        rows.push(heads.map(str::to_owned).collect());
    }
    let mut sum = Usage::NONE;
    for pod in &pods {
        sum = sum.plus(total(pod));
        let head = top.all_namespaces.then(|| pod.metadata.namespace.clone());
        let head: Vec<String> = head.into_iter().chain([pod.metadata.name.clone()]).collect();
        if !top.containers {
            rows.push([&head[..], &total(pod).cells()].concat());
            continue;
        }
        let mut containers: Vec<&ContainerMetrics> = pod.containers.iter().collect();
        containers.sort_by(|a, b| {
            let column = |container: &ContainerMetrics, column| Usage::of(&container.usage).column(column);
            let by = top.sort_by.map(|by| column(b, by).cmp(&column(a, by)));
            by.unwrap_or(std::cmp::Ordering::Equal).then_with(|| a.name.cmp(&b.name))
        });
        for container in containers {
            rows.push(
                [&head[..], std::slice::from_ref(&container.name), &Usage::of(&container.usage).cells()]
                    .concat(),
            );
        }
    }
    if top.sum {
        let empty = usize::from(top.all_namespaces) + usize::from(top.containers) + 1;
        let ruler = ["________", "________"].map(str::to_owned);
        rows.push([&vec![String::new(); empty][..], &ruler].concat());
        rows.push([&vec![String::new(); empty][..], &sum.cells()].concat());
    }
    Columns::default().lines(&rows)
}

async fn nodes(client: &Client, top: &Top) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        !top.containers && !top.all_namespaces && !top.sum,
        "--containers, -A and --sum are for pods"
    );
    let nodes: List<Node> = read(client, "/api/v1/nodes").await?;
    let mut metrics: Vec<NodeMetrics> = match &top.name {
        Some(name) => vec![read(client, &format!("{METRICS}/nodes/{}", percent_encoded(name))).await?],
        None => read::<List<NodeMetrics>>(client, &selected(format!("{METRICS}/nodes"), top)).await?.items,
    };
    metrics.sort_by_key(|node| {
        let key = top.sort_by.map_or(0, |column| -Usage::of(&node.usage).column(column));
        (key, node.metadata.name.clone())
    });
    out(node_table(&metrics, &nodes.items, top).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn node_table(metrics: &[NodeMetrics], nodes: &[Node], top: &Top) -> String {
    let mut rows = Vec::new();
    if !top.no_headers {
        let heads = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"];
        rows.push(heads.map(str::to_owned).to_vec());
    }
    for one in metrics {
        let used = Usage::of(&one.usage);
        let node = nodes.iter().find(|node| node.metadata.name == one.metadata.name);
        let available = node.map_or(Usage::NONE, |node| Usage::of(&node.status.allocatable));
        let percent = |used: i64, available: i64| match available {
            ..=0 => "<unknown>".to_owned(),
            available => format!("{}%", used.saturating_mul(100) / available),
        };
        let [cpu, memory] = used.cells();
        rows.push(vec![
            one.metadata.name.clone(),
            cpu,
            percent(used.cpu.milli(), available.cpu.milli()),
            memory,
            percent(used.memory.units(), available.memory.units()),
        ]);
    }
    Columns::default().lines(&rows)
}

fn selected(path: String, top: &Top) -> String {
    match &top.selector {
        Some(selector) => format!("{path}?labelSelector={}", percent_encoded(selector)),
        None => path,
    }
}

async fn read<T: DeserializeOwned>(client: &Client, path: &str) -> anyhow::Result<T> {
    let value: Value = client.json(path, JSON).await?;
    Ok(serde_json::from_value(value)?)
}

#[cfg(test)]
mod tests {
    //! Tests of tables of usage.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use clap::Parser as _;
    use serde_json::json;

    use super::{node_table, pod_table};
    use crate::cli::args::{Cli, Top, Verb};

    fn top(flags: &str) -> Top {
        let line = ["kubelet", "top", "pods"].into_iter().chain(flags.split_whitespace());
        match Cli::parse_from(line).verb {
            Verb::Top(top) => top,
            other => panic!("{other:?}"),
        }
    }

    fn pods(flags: &str) -> String {
        let pod = |name: &str, containers: &[(&str, &str, &str)]| {
            let container = |(name, cpu, memory): &(&str, &str, &str)| json!({"name": name, "usage": {"cpu": cpu, "memory": memory}});
            let containers: Vec<_> = containers.iter().map(container).collect();
            let pod = json!({"metadata": {"namespace": "default", "name": name}, "containers": containers});
            serde_json::from_value(pod).unwrap()
        };
        let pods = vec![
            pod("web", &[("main", "2500000n", "10Mi"), ("helper", "1m", "2048Ki")]),
            pod("db", &[("main", "1", "1Mi")]),
        ];
        pod_table(pods, &top(flags))
    }

    #[test]
    fn pods_are_shown_in_the_table_of_kubectl() {
        for (flags, expected) in [
            ("", "NAME   CPU(cores)   MEMORY(bytes)\ndb     1000m        1Mi\nweb    4m           12Mi\n"),
            ("--no-headers --sort-by memory", "web   4m      12Mi\ndb    1000m   1Mi\n"),
            (
                "-A --no-headers --containers",
                "default   db    main     1000m   1Mi\ndefault   web   helper   1m      2Mi\n\
                 default   web   main     3m      10Mi\n",
            ),
            (
                "--sum --no-headers",
                "db    1000m      1Mi\nweb   4m         12Mi\n      ________   ________\n      1004m      13Mi\n",
            ),
        ] {
            assert_eq!(pods(flags), expected, "{flags}");
        }
    }

    #[test]
    fn nodes_are_shown_with_the_share_of_their_allocatable_resources() {
        let usage = json!({"metadata": {"name": "n"}, "usage": {"cpu": "500m", "memory": "512Mi"}});
        let node =
            json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}});
        let table = node_table(
            &[serde_json::from_value(usage).unwrap()],
            &[serde_json::from_value(node).unwrap()],
            &top(""),
        );
        let expected = "NAME   CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)\nn      500m         25%      512Mi           50%\n";
        assert_eq!(table, expected);
    }
}
