//! How endpoints are put into slices: what stays stays where it is, and as few slices as can be are written. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::is_ending;
use super::service::{Family, list};
use crate::controllers::client::Json;
use crate::controllers::object::{at, text};

/// A port of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Its name, empty when it is the only one.
    pub name: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// All ports when there is none.
    pub number: Option<u64>,
    /// What is spoken there.
    pub app_protocol: Option<String>,
}

impl Port {
    /// Reads one as it stands in slices and Endpoints.
    pub fn of(port: &Value) -> Self {
        let protocol = text(port.get("protocol"));
        Self {
            name: text(port.get("name")),
            protocol: if protocol.is_empty() { "TCP".to_owned() } else { protocol },
            number: port.get("port").and_then(Value::as_u64),
            app_protocol: port.get("appProtocol").and_then(Value::as_str).map(str::to_owned),
        }
    }

    /// As it stands in slices.
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

/// Endpoints that can share slices: of one family, with the same ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Their family.
    pub family: Family,
    /// Their ports.
    pub ports: Vec<Port>,
    /// The endpoints. None of them: a slice stands there all the same, so that clients see that there are none.
    pub endpoints: Vec<Value>,
}

/// What all slices of one service have.
#[derive(Clone, Debug)]
pub struct Head {
    /// What their names begin with.
    pub name: String,
    /// Their labels.
    pub labels: Json,
    /// Their annotations, where those are ours to say.
    pub annotations: Option<Json>,
    /// Whom they go with.
    pub owner: Value,
}

/// What is to become of slices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// New ones.
    pub create: Vec<Value>,
    /// Those that are there, as they are to be, in the version that was seen.
    pub update: Vec<Json>,
    /// Those that go.
    pub delete: Vec<Json>,
}

/// A slice while it is decided what is in it.
struct Bin {
    /// The slice that is there, if it is.
    slice: Option<Json>,
    family: Family,
    ports: Vec<Port>,
    endpoints: Vec<Value>,
    /// It has to be written.
    is_changed: bool,
}

/// By what slices are told apart beyond their endpoints.
type Shelf = (Family, Vec<Port>);

/// Puts the endpoints of these groups into slices of at most `most`, beginning with the slices that are there.
pub fn fit(found: Vec<Json>, groups: Vec<Group>, head: &Head, most: usize) -> Changes {
    let mut shelves: BTreeMap<Shelf, Vec<Json>> = BTreeMap::new();
    let mut changes = Changes::default();
    for slice in found.into_iter().filter(|slice| !is_ending(slice)) {
        match Family::read(&text(slice.get("addressType"))) {
            Some(family) => shelves.entry((family, sorted(&ports_of(&slice)))).or_default().push(slice),
            None => changes.delete.push(slice),
        }
    }
    let mut bins = Vec::new();
    for group in groups {
        let here = shelves.remove(&(group.family, sorted(&group.ports))).unwrap_or_default();
        bins.extend(fill(here, group, most, &mut changes.delete));
    }
    changes.delete.extend(shelves.into_values().flatten());
    for bin in bins {
        place(bin, head, &mut changes);
    }
    changes
}

/// The slices of one group.
fn fill(here: Vec<Json>, group: Group, most: usize, gone: &mut Vec<Json>) -> Vec<Bin> {
    let Group { family, ports, endpoints } = group;
    let is_empty = endpoints.is_empty();
    let mut wanted: BTreeMap<String, Value> =
        endpoints.into_iter().map(|endpoint| (identity(&endpoint), endpoint)).collect();
    let mut bins: Vec<Bin> = Vec::new();
    for slice in here {
        let before: Vec<Value> = list(slice.get("endpoints")).cloned().collect();
        let mut stay: Vec<Value> =
            before.iter().filter_map(|endpoint| wanted.remove(&identity(endpoint))).collect();
        // A slice that holds more than it may, because somebody wrote it.
        wanted.extend(stay.drain(most.min(stay.len())..).map(|endpoint| (identity(&endpoint), endpoint)));
        let is_changed = stay != before;
        bins.push(Bin { slice: Some(slice), family, ports: ports.clone(), endpoints: stay, is_changed });
    }
    let mut rest = wanted.into_values();
    // Those that are written anyway come first.
    for bin in bins.iter_mut().filter(|bin| bin.is_changed) {
        let room = most.saturating_sub(bin.endpoints.len());
        bin.endpoints.extend(rest.by_ref().take(room));
    }
    let rest: Vec<Value> = rest.collect();
    for chunk in rest.chunks(most.max(1)) {
        // Then the one that this fills best; the last chunk alone may find one.
        let fitting = bins
            .iter_mut()
            .filter(|bin| !bin.is_changed && bin.endpoints.len() + chunk.len() <= most)
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

/// Notes how a slice comes to be: as it is, written over, in the place of one that goes, or new.
fn place(mut bin: Bin, head: &Head, changes: &mut Changes) {
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

fn new(bin: Bin, head: &Head) -> Value {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"generateName": format!("{}-", head.name)},
        "addressType": bin.family.as_str(),
    });
    over(slice.as_object().cloned().unwrap_or_default(), bin, head).into()
}

fn over(mut slice: Json, bin: Bin, head: &Head) -> Json {
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

fn has_head(slice: &Json, head: &Head) -> bool {
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

/// What makes an endpoint the same one, whatever else is said of it.
fn identity(endpoint: &Value) -> String {
    let part = |path: &str| endpoint.pointer(path).map(Value::to_string).unwrap_or_default();
    ["/addresses", "/hostname", "/targetRef/namespace", "/targetRef/name", "/targetRef/uid"]
        .map(part)
        .join(" ")
}

#[cfg(test)]
mod tests;
