//! Where a Pod may run: affinity, tolerations, spreading, gates, claims.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Affinity, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::names::{dns_label, dns_subdomain, label_value, one_of, qualified_name, required, within};
use super::selectors;
use crate::fault::Faults;
use crate::path::Path;

pub(super) fn check(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    if let Some(affinity) = &spec.affinity {
        check_affinity(affinity, &path.field("affinity"), faults);
    }
    let tolerations = &path.field("tolerations");
    for (index, toleration) in spec.tolerations.iter().flatten().enumerate() {
        check_toleration(toleration, &tolerations.index(index), faults);
    }
    spread(spec, &path.field("topologySpreadConstraints"), faults);
    let gates = &path.field("schedulingGates");
    let mut names = BTreeSet::new();
    for (index, gate) in spec.scheduling_gates.iter().flatten().enumerate() {
        let item = gates.index(index);
        let path = &item.field("name");
        qualified_name(&gate.name, path, faults);
        if !names.insert(&gate.name) {
            faults.twice(path, format!("the gate `{}` stands here twice", gate.name), "keep one of them");
        }
    }
    let gated = !names.is_empty();
    if gated && spec.node_name.as_deref().is_some_and(|name| !name.is_empty()) {
        faults.add(
            &path.field("nodeName"),
            "the pod waits behind scheduling gates",
            "remove it, or remove the gates",
        );
    }
    claims(spec, &path.field("resourceClaims"), faults);
}

fn check_affinity(affinity: &Affinity, path: &Path<'_>, faults: &mut Faults) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(node) = &affinity.node_affinity {
        let path = &path.field("nodeAffinity");
        if let Some(selector) = &node.required_during_scheduling_ignored_during_execution {
            let path = path.field(REQUIRED);
            let terms = &path.field("nodeSelectorTerms");
            if selector.node_selector_terms.is_empty() {
                required(terms, "add at least one term", faults);
            }
            for (index, term) in selector.node_selector_terms.iter().enumerate() {
                selectors::node_term(term, true, &terms.index(index), faults);
            }
        }
        let preferred = &path.field(PREFERRED);
        let terms = node.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        for (index, term) in terms.enumerate() {
            let path = &preferred.index(index);
            within(i64::from(term.weight), 1, 100, &path.field("weight"), faults);
            selectors::node_term(&term.preference, false, &path.field("preference"), faults);
        }
    }
    if let Some(pods) = &affinity.pod_affinity {
        let path = &path.field("podAffinity");
        let required = pods.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = pods.preferred_during_scheduling_ignored_during_execution.as_deref();
        pod_terms(required, &path.field(REQUIRED), faults);
        weighted_terms(preferred, &path.field(PREFERRED), faults);
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        let path = &path.field("podAntiAffinity");
        let required = pods.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = pods.preferred_during_scheduling_ignored_during_execution.as_deref();
        pod_terms(required, &path.field(REQUIRED), faults);
        weighted_terms(preferred, &path.field(PREFERRED), faults);
    }
}

fn pod_terms(terms: Option<&[PodAffinityTerm]>, path: &Path<'_>, faults: &mut Faults) {
    for (index, term) in terms.unwrap_or_default().iter().enumerate() {
        pod_term(term, &path.index(index), faults);
    }
}

fn weighted_terms(terms: Option<&[WeightedPodAffinityTerm]>, path: &Path<'_>, faults: &mut Faults) {
    for (index, term) in terms.unwrap_or_default().iter().enumerate() {
        let path = &path.index(index);
        within(i64::from(term.weight), 1, 100, &path.field("weight"), faults);
        pod_term(&term.pod_affinity_term, &path.field("podAffinityTerm"), faults);
    }
}

fn pod_term(term: &PodAffinityTerm, path: &Path<'_>, faults: &mut Faults) {
    if let Some(selector) = &term.label_selector {
        selectors::labels(selector, &path.field("labelSelector"), faults);
    }
    if let Some(selector) = &term.namespace_selector {
        selectors::labels(selector, &path.field("namespaceSelector"), faults);
    }
    let namespaces = &path.field("namespaces");
    for (index, namespace) in term.namespaces.iter().flatten().enumerate() {
        dns_label(namespace, &namespaces.index(index), faults);
    }
    let selector = term.label_selector.as_ref();
    label_keys(term.match_label_keys.as_deref(), selector, &path.field("matchLabelKeys"), faults);
    label_keys(term.mismatch_label_keys.as_deref(), selector, &path.field("mismatchLabelKeys"), faults);
    match term.topology_key.as_str() {
        "" => required(&path.field("topologyKey"), "add it, such as kubernetes.io/hostname", faults),
        key => qualified_name(key, &path.field("topologyKey"), faults),
    }
}

/// Keys of labels that the Pod's own values are compared by; they make sense beside a selector only.
fn label_keys(
    keys: Option<&[String]>,
    selector: Option<&LabelSelector>,
    path: &Path<'_>,
    faults: &mut Faults,
) {
    let keys = keys.unwrap_or_default();
    if !keys.is_empty() && selector.is_none() {
        faults.add(path, "there is no `labelSelector`", "add one, or remove the keys");
    }
    for (index, key) in keys.iter().enumerate() {
        qualified_name(key, &path.index(index), faults);
    }
}

fn check_toleration(toleration: &Toleration, path: &Path<'_>, faults: &mut Faults) {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let operator = toleration.operator.as_deref().filter(|operator| !operator.is_empty()).unwrap_or("Equal");
    if !key.is_empty() {
        qualified_name(key, &path.field("key"), faults);
    } else if operator != "Exists" {
        faults.add(
            &path.field("operator"),
            "there is no key",
            "add a key, or write `operator: Exists` for every taint",
        );
    }
    match operator {
        "Equal" => label_value(value, &path.field("value"), faults),
        "Exists" if !value.is_empty() => {
            faults.add(
                &path.field("value"),
                "Exists compares with nothing",
                "remove it, or write `operator: Equal`",
            );
        }
        "Exists" => {}
        "Gt" | "Lt" if value.parse::<i64>().is_err() => {
            faults.add(&path.field("value"), format!("`{value}` is no number"), "write a whole number");
        }
        "Gt" | "Lt" => {}
        _ => one_of(operator, &["Equal", "Exists", "Gt", "Lt"], &path.field("operator"), faults),
    }
    if !effect.is_empty() {
        one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], &path.field("effect"), faults);
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        faults.add(
            &path.field("effect"),
            "`tolerationSeconds` counts for NoExecute",
            "write `effect: NoExecute`, or remove the seconds",
        );
    }
}

fn spread(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, constraint) in spec.topology_spread_constraints.iter().flatten().enumerate() {
        let path = &path.index(index);
        check_spread(constraint, path, faults);
        if !seen.insert((&constraint.topology_key, &constraint.when_unsatisfiable)) {
            let what = "another constraint has the same `topologyKey` and `whenUnsatisfiable`";
            faults.add(path, what, "keep one of them");
        }
    }
}

fn check_spread(constraint: &TopologySpreadConstraint, path: &Path<'_>, faults: &mut Faults) {
    within(i64::from(constraint.max_skew), 1, i64::from(i32::MAX), &path.field("maxSkew"), faults);
    match constraint.topology_key.as_str() {
        "" => required(&path.field("topologyKey"), "add it, such as kubernetes.io/hostname", faults),
        key => qualified_name(key, &path.field("topologyKey"), faults),
    }
    let action = constraint.when_unsatisfiable.as_str();
    one_of(action, &["DoNotSchedule", "ScheduleAnyway"], &path.field("whenUnsatisfiable"), faults);
    if let Some(least) = constraint.min_domains {
        within(i64::from(least), 1, i64::from(i32::MAX), &path.field("minDomains"), faults);
        if action != "DoNotSchedule" {
            let what = "it counts with `whenUnsatisfiable: DoNotSchedule` only";
            faults.add(&path.field("minDomains"), what, "remove one of them");
        }
    }
    for (policy, field) in [
        (&constraint.node_affinity_policy, "nodeAffinityPolicy"),
        (&constraint.node_taints_policy, "nodeTaintsPolicy"),
    ] {
        if let Some(policy) = policy {
            one_of(policy, &["Honor", "Ignore"], &path.field(field), faults);
        }
    }
    if let Some(selector) = &constraint.label_selector {
        selectors::labels(selector, &path.field("labelSelector"), faults);
    }
    let keys = constraint.match_label_keys.as_deref();
    label_keys(keys, constraint.label_selector.as_ref(), &path.field("matchLabelKeys"), faults);
}

fn claims(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for (index, claim) in spec.resource_claims.iter().flatten().enumerate() {
        let path = &path.index(index);
        dns_label(&claim.name, &path.field("name"), faults);
        if !names.insert(&claim.name) {
            faults.twice(
                &path.field("name"),
                format!("two claims are called `{}`", claim.name),
                "give each its own name",
            );
        }
        match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(name), None) => dns_subdomain(name, &path.field("resourceClaimName"), faults),
            (None, Some(name)) => dns_subdomain(name, &path.field("resourceClaimTemplateName"), faults),
            (Some(_), Some(_)) => faults.add(path, "there are a claim and a template", "keep one of them"),
            (None, None) => required(path, "add resourceClaimName or resourceClaimTemplateName", faults),
        }
    }
}
