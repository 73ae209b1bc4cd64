//! DNS configuration of a pod: its policy, the servers of cluster and host, its own settings, and the limits of
//! resolvers.

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};

use super::Note;
use super::facts::Facts;
use super::{host_network, namespace};
use crate::runtime::spec::Dns;

/// Maximum number of name servers that a resolver uses.
const MAX_SERVERS: usize = 3;
/// Maximum number of search domains that Kubernetes allows.
const MAX_SEARCHES: usize = 32;
/// Maximum length of the search line in characters, including blanks.
const MAX_SEARCH_CHARS: usize = 2048;
/// Maximum length of a domain name in characters.
const MAX_DOMAIN_CHARS: usize = 253;

/// The DNS configuration of a pod, and notes about entries that exceed the limits. An empty configuration means the
/// default of the engine.
pub(crate) fn of(pod: &Pod, facts: &Facts) -> (Dns, Vec<Note>) {
    let Some(spec) = &pod.spec else { return (Dns::default(), Vec::new()) };
    let cluster = match spec.dns_policy.as_deref().unwrap_or("ClusterFirst") {
        "None" => None,
        "ClusterFirstWithHostNet" => Some(true),
        "Default" => Some(false),
        _ => Some(!host_network(pod)),
    };
    let base = match cluster {
        None => Dns::default(),
        Some(true) if facts.node_dns || !facts.cluster_dns.is_empty() => cluster_dns(pod, facts),
        // The engine copies the host's file better, because it handles stub resolvers; it is only replaced if the pod adds
        // settings.
        Some(_) if spec.dns_config.is_none() && !facts.has_own_resolv_conf => {
            return (Dns::default(), Vec::new());
        }
        Some(_) if host_network(pod) => facts.host_dns.clone(),
        Some(_) => facts.host_dns.clone().without_loopback(),
    };
    let mut dns = match &spec.dns_config {
        Some(config) => merge(base, config),
        None => base,
    };
    let mut notes = limit(&mut dns);
    if dns.servers.is_empty() && !dns.uses_node_dns && !facts.host_dns.servers.is_empty() && cluster.is_some()
    {
        notes.push(Note {
            reason: "DNSConfigForming",
            message:
                "the resolv.conf of the node names only servers on its loopback, which the pod cannot reach"
                    .to_owned(),
        });
    }
    (dns, notes)
}

fn cluster_dns(pod: &Pod, facts: &Facts) -> Dns {
    let domain = &facts.cluster_domain;
    let mut searches = Vec::new();
    if !domain.is_empty() {
        searches.push(format!("{}.svc.{domain}", namespace(pod)));
        searches.push(format!("svc.{domain}"));
        searches.push(domain.clone());
    }
    append(&mut searches, &facts.host_dns.searches);
    Dns {
        servers: facts.cluster_dns.iter().map(ToString::to_string).collect(),
        searches,
        options: vec!["ndots:5".to_owned()],
        uses_node_dns: facts.node_dns,
    }
}

fn merge(mut dns: Dns, config: &PodDNSConfig) -> Dns {
    append(&mut dns.servers, config.nameservers.as_deref().unwrap_or_default());
    append(&mut dns.searches, config.searches.as_deref().unwrap_or_default());
    for option in config.options.iter().flatten() {
        let Some(name) = &option.name else { continue };
        let line = match option.value.as_deref() {
            Some(value) if !value.is_empty() => format!("{name}:{value}"),
            _ => name.clone(),
        };
        match dns.options.iter_mut().find(|o| o.split(':').next() == Some(name)) {
            Some(old) => *old = line,
            None => dns.options.push(line),
        }
    }
    dns
}

fn append(list: &mut Vec<String>, more: &[String]) {
    for item in more {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

fn limit(dns: &mut Dns) -> Vec<Note> {
    let mut notes = Vec::new();
    let max_servers = MAX_SERVERS - usize::from(dns.uses_node_dns);
    if dns.servers.len() > max_servers {
        dns.servers.truncate(max_servers);
        let of_node = dns.uses_node_dns.then(|| "the DNS server of the node".to_owned());
        notes.push(note("name servers", &of_node.into_iter().chain(dns.servers.clone()).collect::<Vec<_>>()));
    }
    let before = dns.searches.len();
    dns.searches.retain(|s| s.len() <= MAX_DOMAIN_CHARS);
    dns.searches.truncate(MAX_SEARCHES);
    let mut chars = 0;
    let fits = dns.searches.iter().take_while(|s| {
        chars += s.len() + 1;
        chars <= MAX_SEARCH_CHARS + 1
    });
    dns.searches.truncate(fits.count());
    if dns.searches.len() < before {
        notes.push(note("search domains", &dns.searches));
    }
    notes
}

fn note(what: &str, kept: &[String]) -> Note {
    Note {
        reason: "DNSConfigForming",
        message: format!("more {what} than a resolver supports, the pod gets only: {}", kept.join(" ")),
    }
}

#[cfg(test)]
mod tests;
