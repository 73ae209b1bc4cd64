//! Routing of requests by host and path, as the Ingress API documents it. Pure.
//!
//! A host of a rule precedes a wildcard, and a wildcard precedes rules without a host. Within them, an exact path
//! precedes prefixes, and the longest prefix precedes others. Requests that match no rule go to the default backend.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster::ingresses::{
    BackendPort, Ingress, IngressSnapshot, NamespacedName, PathType, ServiceBackend,
};
use crate::cluster::services::{Protocol, ServiceName, ServiceSnapshot};

/// A route to a Service.
#[derive(Debug)]
pub struct Route {
    /// The Ingress.
    pub ingress: NamespacedName,
    /// The ready endpoints, in the order of their addresses.
    endpoints: Vec<SocketAddr>,
    /// Number of the endpoint of the next request.
    next: AtomicUsize,
}

impl Route {
    /// The endpoints in the order in which a request tries them. Each request starts at the next one.
    pub fn endpoints(&self) -> impl Iterator<Item = SocketAddr> {
        let first = self.next.fetch_add(1, Ordering::Relaxed).checked_rem(self.endpoints.len()).unwrap_or(0);
        let (before, from) = self.endpoints.split_at(first);
        from.iter().chain(before).copied()
    }
}

/// All routes at one moment.
#[derive(Debug, Default)]
pub struct Routes {
    hosts: HashMap<Box<str>, Paths>,
    /// By the domain after `*.`.
    wildcards: HashMap<Box<str>, Paths>,
    any_host: Paths,
    default_backend: Option<Arc<Route>>,
}

/// The routes of a host.
#[derive(Debug, Default)]
struct Paths {
    exact: HashMap<Box<str>, Arc<Route>>,
    /// Prefixes without their last slash, the longest first.
    prefixes: Vec<(Box<str>, Arc<Route>)>,
}

impl Routes {
    /// Builds the routes. `seed` is the number of the first endpoint, so that changes do not favour an endpoint.
    pub fn new(ingresses: &IngressSnapshot, services: &ServiceSnapshot, seed: usize) -> Self {
        let mut routes = Self::default();
        let mut sorted: Vec<_> = ingresses.ingresses.iter().collect();
        // Of two equal rules, that of the older Ingress applies.
        sorted.sort_by(|one, other| (&one.1.created, one.0).cmp(&(&other.1.created, other.0)));
        let mut known = HashMap::new();
        for (name, ingress) in sorted {
            routes.add(name, ingress, &mut |backend| {
                let key = (name.clone(), backend.clone());
                let create = || {
                    let endpoints = endpoints(services, &name.namespace, backend);
                    Arc::new(Route { ingress: name.clone(), endpoints, next: seed.into() })
                };
                known.entry(key).or_insert_with(create).clone()
            });
        }
        let others = routes.hosts.values_mut().chain(routes.wildcards.values_mut());
        for paths in others.chain([&mut routes.any_host]) {
            // Stable, so the older Ingress stays first.
            paths.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        }
        routes
    }

    fn add(
        &mut self,
        name: &NamespacedName,
        ingress: &Ingress,
        route: &mut impl FnMut(&ServiceBackend) -> Arc<Route>,
    ) {
        let unsupported = ServiceBackend::default();
        for rule in &ingress.rules {
            let host = rule.host.to_ascii_lowercase();
            let paths = match host.strip_prefix("*.") {
                Some(domain) => self.wildcards.entry(domain.into()).or_default(),
                None if host.is_empty() => &mut self.any_host,
                None => self.hosts.entry(host.into()).or_default(),
            };
            for path in &rule.http.paths {
                let to = route(path.backend.service.as_ref().unwrap_or(&unsupported));
                match path.path_type {
                    PathType::Exact => drop(paths.exact.entry(path.path.clone()).or_insert(to)),
                    PathType::Prefix | PathType::ImplementationSpecific => {
                        paths.prefixes.push((path.path.trim_end_matches('/').into(), to));
                    }
                }
            }
        }
        if let Some(backend) = &ingress.default_backend {
            if self.default_backend.is_some() {
                tracing::debug!(ingress = %name, "an older Ingress has the default backend");
            }
            let to = || route(backend.service.as_ref().unwrap_or(&unsupported));
            self.default_backend.get_or_insert_with(to);
        }
    }

    /// The route of a request. `host` has neither a port nor upper-case letters.
    pub fn find(&self, host: &str, path: &str) -> Option<&Arc<Route>> {
        let host = host.strip_suffix('.').unwrap_or(host);
        // A wildcard matches one label.
        let wildcard = host.split_once('.').and_then(|(_, domain)| self.wildcards.get(domain));
        let candidates = [self.hosts.get(host), wildcard, Some(&self.any_host)];
        let found = candidates.into_iter().flatten().find_map(|paths| paths.find(path));
        found.or(self.default_backend.as_ref())
    }
}

impl Paths {
    fn find(&self, path: &str) -> Option<&Arc<Route>> {
        self.exact.get(path).or_else(|| {
            let matching = |prefix: &str| {
                path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            self.prefixes.iter().find(|(prefix, _)| matching(prefix)).map(|(_, route)| route)
        })
    }
}

/// The addresses of the endpoints of a backend: ready ones, or terminating ones that still serve if none is ready.
fn endpoints(services: &ServiceSnapshot, namespace: &str, backend: &ServiceBackend) -> Vec<SocketAddr> {
    let name = ServiceName::new(namespace, &backend.name);
    let Some(service) = services.services.get(&name) else { return Vec::new() };
    let BackendPort { name: port_name, number } = &backend.port;
    let is_meant = |name: &str, port: u16| if *number == 0 { *name == **port_name } else { port == *number };
    let port =
        service.ports.iter().find(|one| one.protocol == Protocol::Tcp && is_meant(&one.name, one.port));
    let Some(port) = port else { return Vec::new() };
    let (mut ready, mut serving) = (Vec::new(), Vec::new());
    for slice in services.slices_of(&name) {
        let to = slice.ports.iter().find(|one| one.protocol == Protocol::Tcp && one.name == port.name);
        let Some(to) = to.filter(|to| to.port != 0) else { continue };
        for endpoint in &slice.endpoints {
            let Some(ip) = endpoint.addresses.first() else { continue };
            let address = SocketAddr::new(*ip, to.port);
            if endpoint.is_ready {
                ready.push(address);
            } else if endpoint.is_serving && endpoint.is_terminating {
                serving.push(address);
            }
        }
    }
    let mut all = if ready.is_empty() { serving } else { ready };
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests;
