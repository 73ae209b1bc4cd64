//! Packs endpoints into EndpointSlices with as few writes as possible. Pure.

use std::collections::BTreeMap;

use client::Json;
use serde_json::{Value, json};

use super::is_terminating;
use super::service::{Family, list};
use crate::controllers::object::{at, text};

/// A port of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// The port name; empty for a single port.
    pub name: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// The port number; `None` means all ports.
    pub number: Option<u64>,
    /// The application protocol.
    pub app_protocol: Option<String>,
}

impl Port {
    /// Reads a port of an EndpointSlice or an Endpoints object.
    pub fn of(port: &Value) -> Self {
        let protocol = text(port.get("protocol"));
        Self {
            name: text(port.get("name")),
            protocol: if protocol.is_empty() { "TCP".to_owned() } else { protocol },
            number: port.get("port").and_then(Value::as_u64),
            app_protocol: port.get("appProtocol").and_then(Value::as_str).map(str::to_owned),
        }
    }

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
    /// The endpoints. An empty group still gets one empty slice, which tells clients that there are none.
    pub endpoints: Vec<Value>,
}

/// Metadata that all slices of a service share.
#[derive(Clone, Debug)]
pub struct SliceMetadata {
    /// Prefix of generated names.
    pub name: String,
    pub labels: Json,
    /// The annotations; `None` leaves existing ones unchanged.
    pub annotations: Option<Json>,
    /// The owner reference.
    pub owner: Value,
}

/// The writes that bring the slices to the wanted state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Slices to create.
    pub create: Vec<Value>,
    /// Slices to update, at the observed resource version.
    pub update: Vec<Json>,
    /// Slices to delete.
    pub delete: Vec<Json>,
}

/// A slice that is being filled.
struct Bin {
    /// The existing slice, if any.
    slice: Option<Json>,
    family: Family,
    ports: Vec<Port>,
    endpoints: Vec<Value>,
    /// Whether the slice must be written.
    is_changed: bool,
}

/// What distinguishes groups of slices.
type SliceKey = (Family, Vec<Port>);

/// Packs the endpoints of these groups into slices of at most `max_endpoints`, reusing existing slices.
pub fn pack(found: Vec<Json>, groups: Vec<Group>, head: &SliceMetadata, max_endpoints: usize) -> Changes {
    let mut existing_by_key: BTreeMap<SliceKey, Vec<Json>> = BTreeMap::new();
    let mut changes = Changes::default();
    for slice in found.into_iter().filter(|slice| !is_terminating(slice)) {
        match Family::read(&text(slice.get("addressType"))) {
            Some(family) => {
                existing_by_key.entry((family, sorted(&ports_of(&slice)))).or_default().push(slice)
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
fn fill(existing: Vec<Json>, group: Group, max_endpoints: usize, gone: &mut Vec<Json>) -> Vec<Bin> {
    let Group { family, ports, endpoints } = group;
    let is_empty = endpoints.is_empty();
    let mut wanted: BTreeMap<String, Value> =
        endpoints.into_iter().map(|endpoint| (identity(&endpoint), endpoint)).collect();
    let mut bins: Vec<Bin> = Vec::new();
    for slice in existing {
        let before: Vec<Value> = list(slice.get("endpoints")).cloned().collect();
        let mut stay: Vec<Value> =
            before.iter().filter_map(|endpoint| wanted.remove(&identity(endpoint))).collect();
        // The slice exceeds the limit because another client wrote it.
        wanted.extend(
            stay.drain(max_endpoints.min(stay.len())..).map(|endpoint| (identity(&endpoint), endpoint)),
        );
        let is_changed = stay != before;
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
        // Then the slice that the chunk fills best; usually only the last chunk fits one.
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
    let of_family = |slice: &Json| text(slice.get("addressType")) == family;
    let into = match bin.slice.take() {
        Some(slice) if !bin.is_changed && has_head(&slice, head) => return,
        Some(slice) => Some(slice),
        None => changes.delete.iter().position(of_family).map(|at| changes.delete.swap_remove(at)),
    };
    match into {
        Some(slice) => changes.update.push(over(slice, bin, head)),
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
        metadata.insert("labels".to_owned(), head.labels.clone().into());
        metadata.insert("ownerReferences".to_owned(), json!([head.owner]));
        if let Some(annotations) = &head.annotations {
            metadata.insert("annotations".to_owned(), annotations.clone().into());
        }
    }
    slice.insert("endpoints".to_owned(), bin.endpoints.into());
    slice.insert("ports".to_owned(), bin.ports.iter().map(Port::json).collect());
    slice
}

fn has_head(slice: &Json, head: &SliceMetadata) -> bool {
    let none = Json::new();
    let map = |path: &str| at(slice, path).and_then(Value::as_object).unwrap_or(&none);
    *map("/metadata/labels") == head.labels
        && head.annotations.as_ref().is_none_or(|annotations| map("/metadata/annotations") == annotations)
        && list(at(slice, "/metadata/ownerReferences")).eq([&head.owner])
}

fn ports_of(slice: &Json) -> Vec<Port> {
    list(slice.get("ports")).map(Port::of).collect()
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
