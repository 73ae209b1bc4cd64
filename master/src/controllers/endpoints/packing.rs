//! Packs endpoints into EndpointSlices with as few writes as possible. Pure.

use std::collections::BTreeMap;

use client::Json;
use serde::Deserialize;
use serde_json::{Value, json};

use super::service::Family;
use crate::controllers::object::Source as _;
use crate::objects::{List, ObjectMeta, OwnerReference, StringMap};

/// A port of an EndpointSlice or an Endpoints object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// The port name. Empty if there is a single port.
    #[serde(default)]
    pub name: String,
    /// The protocol: TCP, UDP or SCTP.
    #[serde(default = "default_protocol")]
    pub protocol: String,
    /// The port number. `None` means all ports.
    #[serde(rename = "port")]
    pub number: Option<u64>,
    /// The application protocol.
    pub app_protocol: Option<String>,
}

fn default_protocol() -> String {
    "TCP".to_owned()
}

impl Port {
    /// The port as JSON of an EndpointSlice.
    pub fn json(&self) -> Value {
        let mut port = json!({"name": self.name, "protocol": self.protocol});
        if let Some(number) = self.number {
            port["port"] = number.into();
        }
        if let Some(spoken) = &self.app_protocol {
            port["appProtocol"] = spoken.as_str().into();
        }
        port
    }
}

/// Endpoints of one address family with the same ports, which can share slices.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The address family.
    pub family: Family,
    pub ports: Vec<Port>,
    /// The endpoints. An empty group still gets one empty slice, so that clients know that there are no endpoints.
    pub endpoints: Vec<Value>,
}

/// Metadata that all slices of a service share.
#[derive(Clone, Debug)]
pub struct SliceMetadata {
    /// Prefix of generated names.
    pub name: String,
    pub labels: StringMap,
    /// The annotations. `None` leaves existing ones unchanged.
    pub annotations: Option<StringMap>,
    /// The owner reference.
    pub owner: OwnerReference,
}

/// An existing slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The object to write back.
    json: Json,
    pub fields: SliceFields,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SliceFields {
    pub metadata: ObjectMeta<StringMap>,
    /// The type of the addresses: `IPv4`, `IPv6` or `FQDN`.
    address_type: Box<str>,
    ports: List<Port>,
}

impl Slice {
    /// Reads the fields of a slice.
    ///
    /// # Errors
    /// If a field has another type.
    pub fn read(json: Json) -> Result<Self, serde_json::Error> {
        Ok(Self { fields: json.read()?, json })
    }

    fn endpoints(&self) -> &[Value] {
        self.json.get("endpoints").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn has_head(&self, head: &SliceMetadata) -> bool {
        let metadata = &self.fields.metadata;
        metadata.labels == head.labels
            && head.annotations.as_ref().is_none_or(|annotations| metadata.annotations == *annotations)
            && *metadata.owner_references == [head.owner.clone()]
    }
}

/// The writes that bring the slices to the wanted state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Slices to create.
    pub create: Vec<Value>,
    /// Slices to update, at the observed resource version.
    pub update: Vec<Json>,
    /// Slices to delete.
    pub delete: Vec<Slice>,
}

/// A slice that is being filled.
struct Bin {
    /// The existing slice, if any.
    slice: Option<Slice>,
    family: Family,
    ports: Vec<Port>,
    endpoints: Vec<Value>,
    /// Whether the slice must be written.
    is_changed: bool,
}

/// The key that distinguishes groups of slices.
type SliceKey = (Family, Vec<Port>);

/// Packs the endpoints of the groups into slices of at most `max_endpoints`. Reuses existing slices.
pub fn pack(found: Vec<Slice>, groups: Vec<Group>, head: &SliceMetadata, max_endpoints: usize) -> Changes {
    let mut existing_by_key: BTreeMap<SliceKey, Vec<Slice>> = BTreeMap::new();
    let mut changes = Changes::default();
    for slice in found.into_iter().filter(|slice| !slice.fields.metadata.is_terminating()) {
        match Family::read(&slice.fields.address_type) {
            Some(family) => {
                existing_by_key.entry((family, sorted(&slice.fields.ports))).or_default().push(slice)
            }
            None => changes.delete.push(slice),
        }
    }
    let mut bins = Vec::new();
    for group in groups {
        let existing = existing_by_key.remove(&(group.family, sorted(&group.ports))).unwrap_or_default();
        bins.extend(fill(existing, group, max_endpoints, &mut changes.delete));
    }
    changes.delete.extend(existing_by_key.into_values().flatten());
    for bin in bins {
        place(bin, head, &mut changes);
    }
    changes
}

/// Packs one group.
fn fill(existing: Vec<Slice>, group: Group, max_endpoints: usize, gone: &mut Vec<Slice>) -> Vec<Bin> {
    let Group { family, ports, endpoints } = group;
    let is_empty = endpoints.is_empty();
    let mut wanted: BTreeMap<String, Value> =
        endpoints.into_iter().map(|endpoint| (identity(&endpoint), endpoint)).collect();
    let mut bins: Vec<Bin> = Vec::new();
    for slice in existing {
        let mut stay: Vec<Value> =
            slice.endpoints().iter().filter_map(|endpoint| wanted.remove(&identity(endpoint))).collect();
        // The slice exceeds the limit because another client wrote it.
        wanted.extend(
            stay.drain(max_endpoints.min(stay.len())..).map(|endpoint| (identity(&endpoint), endpoint)),
        );
        let is_changed = stay != slice.endpoints();
        bins.push(Bin { slice: Some(slice), family, ports: ports.clone(), endpoints: stay, is_changed });
    }
    let mut rest = wanted.into_values();
    // Slices that must be written anyway are filled first.
    for bin in bins.iter_mut().filter(|bin| bin.is_changed) {
        let room = max_endpoints.saturating_sub(bin.endpoints.len());
        bin.endpoints.extend(rest.by_ref().take(room));
    }
    let rest: Vec<Value> = rest.collect();
    for chunk in rest.chunks(max_endpoints.max(1)) {
        // Then the fullest slice in which the chunk fits. Usually only the last chunk fits in a slice.
        let fitting = bins
            .iter_mut()
            .filter(|bin| !bin.is_changed && bin.endpoints.len() + chunk.len() <= max_endpoints)
            .max_by_key(|bin| bin.endpoints.len());
        match fitting {
            Some(bin) => {
                bin.endpoints.extend_from_slice(chunk);
                bin.is_changed = true;
            }
            None => {
                let (ports, endpoints) = (ports.clone(), chunk.to_vec());
                bins.push(Bin { slice: None, family, ports, endpoints, is_changed: true });
            }
        }
    }
    let mut keeps_one = is_empty;
    if keeps_one && bins.is_empty() {
        bins.push(Bin { slice: None, family, ports, endpoints: Vec::new(), is_changed: true });
    }
    let mut kept = Vec::new();
    for bin in bins {
        if !bin.endpoints.is_empty() || std::mem::take(&mut keeps_one) {
            kept.push(bin);
        } else {
            gone.extend(bin.slice);
        }
    }
    kept
}

/// Adds the write for a slice: none, an update, the reuse of a deleted slice, or a create.
fn place(mut bin: Bin, head: &SliceMetadata, changes: &mut Changes) {
    let family = bin.family.as_str();
    let of_family = |slice: &Slice| *slice.fields.address_type == *family;
    let into = match bin.slice.take() {
        Some(slice) if !bin.is_changed && slice.has_head(head) => return,
        Some(slice) => Some(slice),
        None => changes.delete.iter().position(of_family).map(|at| changes.delete.swap_remove(at)),
    };
    match into {
        Some(slice) => changes.update.push(over(slice.json, bin, head)),
        None => changes.create.push(new(bin, head)),
    }
}

fn new(bin: Bin, head: &SliceMetadata) -> Value {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"generateName": format!("{}-", head.name)},
        "addressType": bin.family.as_str(),
    });
    over(slice.as_object().cloned().unwrap_or_default(), bin, head).into()
}

fn over(mut slice: Json, bin: Bin, head: &SliceMetadata) -> Json {
    if let Some(Value::Object(metadata)) = slice.get_mut("metadata") {
        metadata.insert("labels".to_owned(), json!(head.labels));
        metadata.insert("ownerReferences".to_owned(), json!([head.owner]));
        if let Some(annotations) = &head.annotations {
            metadata.insert("annotations".to_owned(), json!(annotations));
        }
    }
    slice.insert("endpoints".to_owned(), bin.endpoints.into());
    slice.insert("ports".to_owned(), bin.ports.iter().map(Port::json).collect());
    slice
}

fn sorted(ports: &[Port]) -> Vec<Port> {
    let mut ports = ports.to_vec();
    ports.sort();
    ports
}

/// Identifies an endpoint, regardless of its conditions.
fn identity(endpoint: &Value) -> String {
    let part = |path: &str| endpoint.pointer(path).map(Value::to_string).unwrap_or_default();
    ["/addresses", "/hostname", "/targetRef/namespace", "/targetRef/name", "/targetRef/uid"]
        .map(part)
        .join(" ")
}

#[cfg(test)]
mod tests;
