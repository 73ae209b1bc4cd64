//! What a whole Pod asks for, as the scheduler adds it up.

mod slim;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::quantity::Quantity;

pub use self::slim::slim_spec;

/// Amounts by resource name: `cpu` in cores, `memory` in bytes.
pub type ResourceList = BTreeMap<String, Quantity>;

/// The requests of a Pod: its containers and sidecars together, or its hungriest moment while it initializes, whichever
/// is more; then what the Pod itself states, then the overhead. Texts that are no amounts count as nothing.
pub fn pod_requests(spec: &PodSpec) -> ResourceList {
    let mut total = together(spec, |resources| resources.requests.as_ref());
    total.extend(list(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref())));
    add(&mut total, &list(spec.overhead.as_ref()));
    total
}

/// The limits of a Pod, added up like its requests. The overhead widens a limit and makes none.
pub fn pod_limits(spec: &PodSpec) -> ResourceList {
    let mut total = together(spec, |resources| resources.limits.as_ref());
    total.extend(list(spec.resources.as_ref().and_then(|resources| resources.limits.as_ref())));
    for (name, overhead) in list(spec.overhead.as_ref()) {
        total.entry(name).and_modify(|limit| *limit = limit.plus(overhead));
    }
    total
}

/// The amounts of an API object; texts that are no amounts are left out.
pub fn list(texts: Option<&BTreeMap<String, Text>>) -> ResourceList {
    let amounts = texts.into_iter().flatten();
    amounts.filter_map(|(name, text)| Some((name.clone(), Quantity::of(text).ok()?))).collect()
}

/// True for an init container that stays up beside the others.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

type Part = fn(&ResourceRequirements) -> Option<&BTreeMap<String, Text>>;

fn together(spec: &PodSpec, part: Part) -> ResourceList {
    let of = |container: &Container| list(container.resources.as_ref().and_then(part));
    let mut running = ResourceList::new();
    for container in &spec.containers {
        add(&mut running, &of(container));
    }
    let mut sidecars = ResourceList::new();
    let mut most = ResourceList::new();
    for container in spec.init_containers.iter().flatten() {
        let own = of(container);
        if is_sidecar(container) {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            raise(&mut most, &sidecars);
        } else {
            let mut moment = own;
            add(&mut moment, &sidecars);
            raise(&mut most, &moment);
        }
    }
    raise(&mut running, &most);
    running
}

fn add(total: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        total.entry(name.clone()).and_modify(|sum| *sum = sum.plus(*amount)).or_insert(*amount);
    }
}

fn raise(total: &mut ResourceList, floor: &ResourceList) {
    for (name, amount) in floor {
        total.entry(name.clone()).and_modify(|most| *most = (*most).max(*amount)).or_insert(*amount);
    }
}
