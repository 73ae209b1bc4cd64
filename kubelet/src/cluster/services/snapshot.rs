//! The latest Services and EndpointSlices, changed by the deltas of the reflectors. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::Delta;
use serde_json::Value;

use super::objects::{ApiService, ApiSlice, EndpointSlice, Service, ServiceName};
use crate::cluster::stored::Snapshot;

/// Namespace and name of the Service that every cluster has.
const API_SERVICE: (&str, &str) = ("default", "kubernetes");

/// All Services and their EndpointSlices at one moment. A clone shares all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceSnapshot {
    /// Whether the content comes from an API server or from the disk. Until then it is empty: Services are unknown, not
    /// missing.
    pub is_known: bool,
    /// Whether the content is not known because the API server does not let this node list it.
    pub is_forbidden: bool,
    /// The Services.
    pub services: BTreeMap<Arc<ServiceName>, Arc<Service>>,
    /// The EndpointSlices of each Service, in the order of their names. A Service without any is missing here.
    pub endpoint_slices: BTreeMap<Arc<ServiceName>, Arc<Vec<Arc<EndpointSlice>>>>,
}

impl Snapshot for ServiceSnapshot {
    fn is_known(&self) -> bool {
        self.is_known
    }
}

impl ServiceSnapshot {
    /// The EndpointSlices of a Service.
    pub fn slices_of(&self, service: &ServiceName) -> &[Arc<EndpointSlice>] {
        self.endpoint_slices.get(service).map_or(&[], |slices| slices.as_slice())
    }

    /// The snapshot of complete lists of JSON objects. `None` if one of them has fields of the wrong type.
    pub fn of_objects(services: Vec<Value>, slices: Vec<Value>) -> Option<Self> {
        let mut snapshot = Self { is_known: true, ..Self::default() };
        for object in services {
            let (name, service) = serde_json::from_value::<ApiService>(object).ok()?.into_service();
            snapshot.services.insert(Arc::new(name), Arc::new(service));
        }
        for object in slices {
            let slice = serde_json::from_value::<ApiSlice>(object).ok()?.into_slice();
            slice.into_iter().for_each(|slice| snapshot.put_slice(slice));
        }
        Some(snapshot)
    }

    /// Adds an EndpointSlice, or replaces the one of the same Service and name.
    pub(super) fn put_slice(&mut self, slice: EndpointSlice) {
        let slices = self.endpoint_slices.entry(slice.service.clone()).or_default();
        let slices = Arc::make_mut(slices);
        match slices.binary_search_by(|one| one.name.cmp(&slice.name)) {
            Ok(at) => slices[at] = Arc::new(slice),
            Err(at) => slices.insert(at, Arc::new(slice)),
        }
    }

    fn remove_slice(&mut self, service: &ServiceName, name: &str) -> bool {
        let Some(slices) = self.endpoint_slices.get_mut(service) else { return false };
        let Ok(at) = slices.binary_search_by(|one| (*one.name).cmp(name)) else { return false };
        Arc::make_mut(slices).remove(at);
        if slices.is_empty() {
            self.endpoint_slices.remove(service);
        }
        true
    }

    /// Removes an EndpointSlice from whatever Service has it.
    fn remove_slice_by_name(&mut self, namespace: &str, name: &str) -> bool {
        let in_namespace = self.endpoint_slices.keys().filter(|service| &*service.namespace == namespace);
        let services: Vec<Arc<ServiceName>> = in_namespace.cloned().collect();
        services.iter().any(|service| self.remove_slice(service, name))
    }
}

/// What the API server has reported so far.
#[derive(Debug, Default)]
pub(super) struct Informer {
    current: ServiceSnapshot,
    has_services: bool,
    has_slices: bool,
    /// Whether the API server does not let this node list one of the kinds.
    is_forbidden: bool,
}

impl Informer {
    /// Applies a delta of Services.
    pub fn apply_services(&mut self, delta: Delta<ApiService>) {
        let services = &mut self.current.services;
        let mut put = |object: ApiService| {
            let (name, service) = object.into_service();
            // An unchanged Service keeps its place in memory, by which consumers see that nothing changed.
            if services.get(&name).is_none_or(|known| **known != service) {
                services.insert(Arc::new(name), Arc::new(service));
            }
        };
        match delta {
            Delta::Replaced(objects, _) => {
                let before = std::mem::take(&mut self.current.services);
                for object in objects {
                    let (name, service) = object.into_service();
                    let (name, service) = match before.get_key_value(&name) {
                        Some((name, known)) if **known == service => (name.clone(), known.clone()),
                        Some((name, _)) => (name.clone(), Arc::new(service)),
                        None => (Arc::new(name), Arc::new(service)),
                    };
                    self.current.services.insert(name, service);
                }
                self.has_services = true;
            }
            Delta::Applied(object) => put(object),
            Delta::Deleted(object) => drop(services.remove(&object.into_service().0)),
        }
    }

    /// Applies a delta of EndpointSlices.
    pub fn apply_slices(&mut self, delta: Delta<ApiSlice>) {
        match delta {
            Delta::Replaced(objects, _) => {
                self.current.endpoint_slices.clear();
                objects
                    .into_iter()
                    .filter_map(ApiSlice::into_slice)
                    .for_each(|one| self.current.put_slice(one));
                self.has_slices = true;
            }
            Delta::Applied(object) => {
                let (namespace, name) = (object.metadata.namespace.clone(), object.metadata.name.clone());
                let slice = object.into_slice();
                let known = slice.as_ref().is_some_and(|slice| {
                    self.current.slices_of(&slice.service).iter().any(|one| *one.name == *name)
                });
                // The label that names the Service may have changed.
                if !known {
                    self.current.remove_slice_by_name(&namespace, &name);
                }
                if let Some(slice) = slice {
                    self.current.put_slice(slice);
                }
            }
            Delta::Deleted(object) => {
                self.current.remove_slice_by_name(&object.metadata.namespace, &object.metadata.name);
            }
        }
    }

    /// Records that the API server does not let this node list a kind.
    pub fn forbid(&mut self) {
        self.is_forbidden = true;
    }

    /// Whether the snapshot is not known because the API server does not let this node list a kind.
    pub fn is_forbidden(&self) -> bool {
        self.is_forbidden && !(self.has_services && self.has_slices)
    }

    /// The snapshot to publish. `None` if it may not be complete: before both lists, and while the API server has no
    /// Service `default/kubernetes`. Every API server creates that one, so without it the server has lost its data
    /// or has just started.
    pub fn complete(&self) -> Option<ServiceSnapshot> {
        let (namespace, name) = API_SERVICE;
        let is_plausible = self.current.services.contains_key(&ServiceName::new(namespace, name));
        let is_complete = self.has_services && self.has_slices && is_plausible;
        is_complete.then(|| ServiceSnapshot { is_known: true, ..self.current.clone() })
    }
}
