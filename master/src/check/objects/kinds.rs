//! The objects that are checked, with the fields that the checks read. Up to 100,000 of each kind are kept in
//! memory.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Deserialize;

use crate::objects::meta::ConditionedStatus;
use crate::objects::node::{NodeAddress, NodeSpec, NodeSystemInfo};
use crate::objects::pod::SchedulingGate;
use crate::objects::{Condition, List, ObjectMeta, StringMap, time};
use crate::trust::SIGNED_BY;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: ObjectMeta<NodeAnnotations>,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default)]
pub struct NodeAnnotations {
    /// The CA that signed the client certificate of the node; empty if it is unknown.
    pub signed_by: Box<str>,
}

impl<'de> Deserialize<'de> for NodeAnnotations {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let all = StringMap::deserialize(input)?;
        Ok(Self { signed_by: all.get(SIGNED_BY).unwrap_or_default().into() })
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    pub addresses: List<NodeAddress>,
    pub conditions: List<Condition>,
    pub node_info: NodeSystemInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: Box<str>,
    pub scheduling_gates: List<SchedulingGate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    pub phase: Box<str>,
    pub reason: Box<str>,
    pub message: Box<str>,
    pub conditions: List<Condition>,
    pub container_statuses: List<ContainerStatus>,
    pub init_container_statuses: List<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    pub name: Box<str>,
    pub restart_count: i64,
    pub state: ContainerState,
    pub last_state: ContainerState,
}

/// The state of a container that is waiting or has ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub waiting: Option<Waiting>,
    pub terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Waiting {
    pub reason: Box<str>,
    pub message: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    pub exit_code: i64,
    pub reason: Box<str>,
    pub message: Box<str>,
    #[serde(deserialize_with = "time")]
    pub finished_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    pub metadata: ObjectMeta,
    pub spec: NamespaceSpec,
    pub status: ConditionedStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceSpec {
    pub finalizers: List<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    pub metadata: ObjectMeta,
    pub status: ResourceQuotaStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    pub hard: StringMap,
    pub used: StringMap,
}

/// A ValidatingWebhookConfiguration or MutatingWebhookConfiguration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WebhookConfiguration {
    pub metadata: ObjectMeta,
    pub webhooks: List<Webhook>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Webhook {
    pub name: Box<str>,
    pub failure_policy: Box<str>,
    pub client_config: WebhookClientConfig,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WebhookClientConfig {
    pub service: Option<ServiceReference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceReference {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    pub metadata: ObjectMeta,
    pub spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    pub r#type: Box<str>,
    pub selector: StringMap,
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: List<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    pub metadata: ObjectMeta,
    pub spec: ServiceCidrSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    pub cidrs: List<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointSlice {
    pub metadata: ObjectMeta,
    pub endpoints: List<Endpoint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    pub conditions: EndpointConditions,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Whether the endpoint is ready. `None` means ready.
    pub ready: Option<bool>,
}

/// A condition without status, for objects that do not have it.
static NONE: LazyLock<Condition> = LazyLock::new(Condition::default);

/// The condition of this type. Its status is empty if the object has no such condition.
pub fn condition<'a>(conditions: &'a List<Condition>, of: &str) -> &'a Condition {
    conditions.of_type(of).unwrap_or(&NONE)
}

/// Reason and message of a condition.
pub fn why(condition: &Condition) -> String {
    joined(&condition.reason, &condition.message)
}

/// Formats `reason: message`, or the one that is not empty.
pub fn joined(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", one) | (one, "") => one.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}
