//! `master check connection`: which NetworkPolicies allow or block a connection.

use std::fmt::Write as _;
use std::net::IpAddr;

use api::network_policy::{
    Connection, Decision, Direction, End, NamedPort, NamespaceLabels, Pod, Policy, Protocol, decide,
};
use command::visible;
use k8s_openapi::api::core::v1::{ContainerPort, Namespace, Pod as ApiPod, PodSpec};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde::de::DeserializeOwned;

use super::{Target, kubeconfig_of, output};
use crate::controllers::{Client, Kind, Remote, connect};

/// A connection as the user describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The client.
    pub from: Place,
    /// The server.
    pub to: Place,
    /// The port, by number or name.
    pub port: String,
    /// The protocol.
    pub protocol: Protocol,
}

/// A pod or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Namespace and name of a pod.
    Pod(String, String),
    /// An address outside of the cluster, or of a node.
    Address(IpAddr),
}

impl Question {
    /// Parses `--from` and `--to`.
    ///
    /// # Errors
    /// If one of them has another form. The error says which one.
    pub fn parse(from: &str, to: &str) -> Result<Self, String> {
        let mistake =
            || format!("--to: {to:?} is not of the form NAMESPACE/POD:PORT or NAMESPACE/POD:PORT/PROTOCOL");
        let (place, port) = to.rsplit_once(':').ok_or_else(mistake)?;
        let (port, protocol) = port.split_once('/').unwrap_or((port, ""));
        let protocol = Protocol::parse(&protocol.to_uppercase()).ok_or_else(mistake)?;
        if port.is_empty() {
            return Err(mistake());
        }
        let of_from = || format!("--from: {from:?} is neither NAMESPACE/POD nor an address");
        let to = Place::parse(place).ok_or_else(mistake)?;
        Ok(Self { from: Place::parse(from).ok_or_else(of_from)?, to, port: port.to_owned(), protocol })
    }
}

impl Place {
    /// Parses `NAMESPACE/POD`, `POD` in the namespace `default`, or an address, also in brackets.
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse() {
            return Some(Self::Address(address));
        }
        let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
        let is_name = |text: &str| !text.is_empty() && !text.contains(['/', ':', ' ']);
        (is_name(namespace) && is_name(name)).then(|| Self::Pod(namespace.to_owned(), name.to_owned()))
    }
}

/// The answer: the text for the user, and whether the connection is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// One line per direction, and the result.
    pub text: String,
    /// Whether all policies allow the connection.
    pub is_allowed: bool,
}

/// The objects that decide.
#[derive(Debug, Default)]
struct Objects {
    pods: Vec<ApiPod>,
    namespaces: NamespaceLabels,
    policies: Vec<Policy>,
}

/// Reads pods, namespaces and policies, and decides about a connection.
///
/// # Errors
/// If they cannot be read, or a pod does not exist. The error is the reason, as a sentence.
pub async fn check(target: &Target, question: &Question) -> Result<Answer, String> {
    let config = kubeconfig_of(target).map_err(|finding| output::line(&finding))?;
    let client = connect(&Remote::from(&config)).map_err(|error| error.to_string())?;
    let objects = Objects::read(&client.with_agent("check")).await?;
    objects.answer(question)
}

impl Objects {
    async fn read(client: &Client) -> Result<Self, String> {
        let namespaces: Vec<Namespace> = list(client, &Kind::NAMESPACE).await?;
        let policies: Vec<NetworkPolicy> = list(client, &Kind::NETWORK_POLICY).await?;
        Ok(Self {
            pods: list(client, &Kind::POD).await?,
            namespaces: namespaces
                .into_iter()
                .map(|one| (one.metadata.name.unwrap_or_default(), one.metadata.labels.unwrap_or_default()))
                .collect(),
            policies: policies
                .into_iter()
                .map(|one| Policy {
                    namespace: one.metadata.namespace.unwrap_or_default(),
                    name: one.metadata.name.unwrap_or_default(),
                    spec: one.spec.unwrap_or_default(),
                })
                .collect(),
        })
    }

    fn answer(&self, question: &Question) -> Result<Answer, String> {
        let (from, to) = (self.find(&question.from)?, self.find(&question.to)?);
        let port = to.port(&question.port, question.protocol)?;
        let (client, server) = common_family(&from, &to)?;
        let mut text = String::new();
        let is_own = |host: &Found, pod: &Found| host.host_of.is_some() && host.host_of == pod.node;
        if is_own(&from, &to) || is_own(&to, &from) {
            text.push_str("allowed: policies do not apply between a pod and its own node\n");
            return Ok(Answer { text, is_allowed: true });
        }
        let connection =
            Connection { from: from.end(client), to: to.end(server), protocol: question.protocol, port };
        let mut is_allowed = true;
        for (direction, what) in [(Direction::Egress, &from), (Direction::Ingress, &to)] {
            let decision = decide(&self.policies, &self.namespaces, &connection, direction);
            is_allowed &= decision.is_allowed();
            let _ =
                writeln!(text, "{} {}: {}", direction.as_str().to_lowercase(), what.name, explain(&decision));
        }
        let result = if is_allowed { "allowed" } else { "blocked" };
        let _ = writeln!(
            text,
            "{} to {} port {port}/{}: {result}",
            from.name,
            to.name,
            question.protocol.as_str()
        );
        Ok(Answer { text: text.lines().map(|line| format!("{}\n", visible(line))).collect(), is_allowed })
    }

    fn find(&self, place: &Place) -> Result<Found, String> {
        let (namespace, name) = match place {
            Place::Address(address) => return Ok(Found::address(*address)),
            Place::Pod(namespace, name) => (namespace, name),
        };
        let is_it = |pod: &&ApiPod| {
            pod.metadata.namespace.as_ref() == Some(namespace) && pod.metadata.name.as_ref() == Some(name)
        };
        let pod = self.pods.iter().find(is_it);
        let pod = pod
            .ok_or_else(|| format!("the pod {namespace}/{name} does not exist: see `kubectl get pods -A`"))?;
        Found::pod(pod)
            .ok_or_else(|| format!("the pod {namespace}/{name} has no address yet: it does not run"))
    }
}

/// An end of the connection.
struct Found {
    name: String,
    pod: Option<Pod>,
    /// The addresses, the primary one first.
    addresses: Vec<IpAddr>,
    /// The node of a pod.
    node: Option<String>,
    /// The node of a pod on the host network.
    host_of: Option<String>,
}

impl Found {
    fn address(address: IpAddr) -> Self {
        Self { name: address.to_string(), pod: None, addresses: vec![address], node: None, host_of: None }
    }

    fn pod(pod: &ApiPod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let status = pod.status.as_ref()?;
        let ips = status.pod_ips.iter().flatten().map(|one| &one.ip).chain(&status.pod_ip);
        let mut addresses: Vec<IpAddr> = ips.filter_map(|ip| ip.parse().ok()).collect();
        addresses.dedup();
        let address = *addresses.first()?;
        let (namespace, name) = (
            pod.metadata.namespace.clone().unwrap_or_default(),
            pod.metadata.name.clone().unwrap_or_default(),
        );
        let shown = format!("{namespace}/{name}");
        if spec.host_network == Some(true) {
            let shown = format!("{shown} (on the host network, {address})");
            return Some(Self {
                name: shown,
                pod: None,
                addresses,
                node: None,
                host_of: spec.node_name.clone(),
            });
        }
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let found = Pod { namespace, name, labels, addresses: addresses.clone(), ports: named_ports(spec) };
        Some(Self { name: shown, pod: Some(found), addresses, node: spec.node_name.clone(), host_of: None })
    }

    fn end(&self, address: IpAddr) -> End<'_> {
        self.pod.as_ref().map_or(End::Address(address), |pod| End::Pod(pod, address))
    }

    /// The number of a port.
    fn port(&self, text: &str, protocol: Protocol) -> Result<u16, String> {
        if let Ok(number) = text.parse() {
            return Ok(number);
        }
        let ports = self.pod.iter().flat_map(|pod| &pod.ports);
        let mut named = ports.filter(|port| port.name == text && port.protocol == protocol);
        named.next().map(|port| port.number).ok_or_else(|| format!("{} has no port {text:?}", self.name))
    }
}

/// The addresses of both ends: of the family of the client's first address that the server has too.
fn common_family(from: &Found, to: &Found) -> Result<(IpAddr, IpAddr), String> {
    let of = |client: &IpAddr| to.addresses.iter().find(|server| server.is_ipv4() == client.is_ipv4());
    let mut pairs = from.addresses.iter().filter_map(|client| Some((*client, *of(client)?)));
    pairs.next().ok_or_else(|| format!("{} and {} have no addresses of the same family", from.name, to.name))
}

fn named_ports(spec: &PodSpec) -> Vec<NamedPort> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let named = |port: &ContainerPort| {
        let protocol = Protocol::parse(port.protocol.as_deref().unwrap_or_default())?;
        Some(NamedPort {
            name: port.name.clone()?,
            protocol,
            number: u16::try_from(port.container_port).ok()?,
        })
    };
    containers.flat_map(|container| container.ports.iter().flatten()).filter_map(named).collect()
}

/// What a decision means, with the policies.
fn explain(decision: &Decision<'_>) -> String {
    let names = |policies: &[&Policy]| -> String {
        let names: Vec<String> =
            policies.iter().map(|one| format!("{}/{}", one.namespace, one.name)).collect();
        names.join(", ")
    };
    match decision {
        Decision::NotIsolated => "allowed: no NetworkPolicy selects it".to_owned(),
        Decision::AllowedBy(policies) => format!("allowed by {}", names(policies)),
        Decision::BlockedBy(policies) => {
            format!("blocked by {}: none of their rules allows it", names(policies))
        }
    }
}

async fn list<T: DeserializeOwned + Send>(client: &Client, kind: &Kind) -> Result<Vec<T>, String> {
    let (mut all, mut unreadable) = (Vec::new(), None);
    let read = client.list(kind, "", |object| match T::deserialize(&object) {
        Ok(object) => all.push(object),
        Err(error) => unreadable = Some(error),
    });
    read.await.map_err(|error| format!("cannot list {}: {}", kind.qualified(), error.full_message()))?;
    match unreadable {
        None => Ok(all),
        Some(error) => Err(format!("cannot decode an object of {}: {error}", kind.qualified())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::{Value, json};

    use super::{Objects, Policy, Protocol, Question};

    fn pod(namespace: &str, name: &str, spec: Value, ip: &str) -> super::ApiPod {
        let status = json!({"podIP": ip, "podIPs": [{"ip": ip}]});
        let metadata = json!({"namespace": namespace, "name": name, "labels": {"app": name}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn objects() -> Objects {
        let policy = |name: &str, spec: Value| Policy {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            spec: serde_json::from_value(spec).unwrap(),
        };
        let ports = json!([{"name": "sql", "containerPort": 5432}]);
        let spec = json!({"nodeName": "n1", "containers": [{"name": "main", "ports": ports}]});
        let from = json!([{"podSelector": {"matchLabels": {"app": "web"}}}]);
        Objects {
            pods: vec![
                pod("shop", "web", json!({"nodeName": "n1", "containers": []}), "10.0.0.2"),
                pod("shop", "db", spec, "10.0.0.3"),
                pod(
                    "ops",
                    "agent",
                    json!({"nodeName": "n1", "hostNetwork": true, "containers": []}),
                    "192.0.2.1",
                ),
                pod(
                    "ops",
                    "far",
                    json!({"nodeName": "n2", "hostNetwork": true, "containers": []}),
                    "192.0.2.2",
                ),
            ],
            namespaces: Default::default(),
            policies: vec![
                policy("deny", json!({"podSelector": {}})),
                policy(
                    "db",
                    json!({"podSelector": {"matchLabels": {"app": "db"}},
                    "ingress": [{"from": from, "ports": [{"port": "sql"}]}]}),
                ),
            ],
        }
    }

    fn ask(from: &str, to: &str) -> Result<(String, bool), String> {
        let answer = objects().answer(&Question::parse(from, to)?)?;
        Ok((answer.text, answer.is_allowed))
    }

    #[test]
    fn an_answer_names_the_policies_of_both_directions() {
        let (text, is_allowed) = ask("shop/web", "shop/db:sql").unwrap();
        assert!(is_allowed);
        assert_eq!(
            text,
            "egress shop/web: allowed: no NetworkPolicy selects it\ningress shop/db: allowed by shop/db\n\
             shop/web to shop/db port 5432/TCP: allowed\n"
        );
        let (text, is_allowed) = ask("shop/web", "shop/db:80/tcp").unwrap();
        assert!(!is_allowed && text.contains("blocked by shop/deny, shop/db: none"), "{text}");
        assert!(!ask("10.9.9.9", "shop/web:80").unwrap().1);
        assert!(!ask("shop/web", "shop/db:5432/UDP").unwrap().1);
    }

    #[test]
    fn a_pod_on_the_host_network_reaches_pods_of_its_node() {
        assert!(ask("ops/agent", "shop/db:80").unwrap().1);
        assert!(!ask("ops/far", "shop/db:80").unwrap().1);
    }

    #[test]
    fn a_connection_has_the_address_family_of_both_ends() {
        let mut objects = objects();
        let ips = json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]});
        objects.pods[0].status = serde_json::from_value(ips).unwrap();
        let from = json!([{"ipBlock": {"cidr": "fd00::/8"}}]);
        let spec = json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": from}]});
        objects.policies[1].spec = serde_json::from_value(spec).unwrap();
        let ask = |from: &str, to: &str| objects.answer(&Question::parse(from, to).unwrap());
        assert!(ask("fd00::9", "shop/web:80").unwrap().is_allowed);
        assert!(!ask("10.9.9.9", "shop/web:80").unwrap().is_allowed);
        let error = ask("fd00::9", "shop/db:80").unwrap_err();
        assert!(error.contains("no addresses of the same family"), "{error}");
    }

    #[test]
    fn mistakes_name_the_flag_or_the_object() {
        for (from, to, expected) in [
            ("shop/web", "shop/db", "--to"),
            ("shop/web", "shop/db:80/IP", "--to"),
            ("a/b/c", "shop/db:80", "--from"),
            ("shop/none", "shop/db:80", "shop/none does not exist"),
            ("shop/web", "shop/db:none", "no port"),
        ] {
            let error = ask(from, to).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(Question::parse("web", "[fd00::1]:53/udp").unwrap().protocol, Protocol::Udp);
    }
}
