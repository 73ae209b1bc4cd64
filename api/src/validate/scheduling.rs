//! Validates affinity, tolerations, topology spread constraints, scheduling gates and resource claims.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Affinity, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::names::{dns_label, dns_subdomain, label_value, one_of, qualified_name, required, within};
use super::selectors;
use crate::field_error::FieldErrors;
use crate::path::Path;

pub(super) fn check(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(affinity) = &spec.affinity {
        check_affinity(affinity, &path.field("affinity"), errors);
    }
    let tolerations = &path.field("tolerations");
    for (index, toleration) in spec.tolerations.iter().flatten().enumerate() {
        check_toleration(toleration, &tolerations.index(index), errors);
    }
    spread(spec, &path.field("topologySpreadConstraints"), errors);
    let gates = &path.field("schedulingGates");
    let mut names = BTreeSet::new();
    for (index, gate) in spec.scheduling_gates.iter().flatten().enumerate() {
        let item = gates.index(index);
        let path = &item.field("name");
        qualified_name(&gate.name, path, errors);
        if !names.insert(&gate.name) {
            errors.duplicate(path, format!("the gate `{}` is defined twice", gate.name), "keep one of them");
        }
    }
    let gated = !names.is_empty();
    if gated && spec.node_name.as_deref().is_some_and(|name| !name.is_empty()) {
        errors.add(&path.field("nodeName"), "the pod has scheduling gates", "remove it, or remove the gates");
    }
    claims(spec, &path.field("resourceClaims"), errors);
}

fn check_affinity(affinity: &Affinity, path: &Path<'_>, errors: &mut FieldErrors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(node) = &affinity.node_affinity {
        let path = &path.field("nodeAffinity");
        if let Some(selector) = &node.required_during_scheduling_ignored_during_execution {
            let path = path.field(REQUIRED);
            let terms = &path.field("nodeSelectorTerms");
            if selector.node_selector_terms.is_empty() {
                required(terms, "add at least one term", errors);
            }
            for (index, term) in selector.node_selector_terms.iter().enumerate() {
                selectors::node_term(term, true, &terms.index(index), errors);
            }
        }
        let preferred = &path.field(PREFERRED);
        let terms = node.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        for (index, term) in terms.enumerate() {
            let path = &preferred.index(index);
            within(i64::from(term.weight), 1, 100, &path.field("weight"), errors);
            selectors::node_term(&term.preference, false, &path.field("preference"), errors);
        }
    }
    if let Some(pods) = &affinity.pod_affinity {
        let path = &path.field("podAffinity");
        let required = pods.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = pods.preferred_during_scheduling_ignored_during_execution.as_deref();
        pod_terms(required, &path.field(REQUIRED), errors);
        weighted_terms(preferred, &path.field(PREFERRED), errors);
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        let path = &path.field("podAntiAffinity");
        let required = pods.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = pods.preferred_during_scheduling_ignored_during_execution.as_deref();
        pod_terms(required, &path.field(REQUIRED), errors);
        weighted_terms(preferred, &path.field(PREFERRED), errors);
    }
}

fn pod_terms(terms: Option<&[PodAffinityTerm]>, path: &Path<'_>, errors: &mut FieldErrors) {
    for (index, term) in terms.unwrap_or_default().iter().enumerate() {
        pod_term(term, &path.index(index), errors);
    }
}

fn weighted_terms(terms: Option<&[WeightedPodAffinityTerm]>, path: &Path<'_>, errors: &mut FieldErrors) {
    for (index, term) in terms.unwrap_or_default().iter().enumerate() {
        let path = &path.index(index);
        within(i64::from(term.weight), 1, 100, &path.field("weight"), errors);
        pod_term(&term.pod_affinity_term, &path.field("podAffinityTerm"), errors);
    }
}

fn pod_term(term: &PodAffinityTerm, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(selector) = &term.label_selector {
        selectors::labels(selector, &path.field("labelSelector"), errors);
    }
    if let Some(selector) = &term.namespace_selector {
        selectors::labels(selector, &path.field("namespaceSelector"), errors);
    }
    let namespaces = &path.field("namespaces");
    for (index, namespace) in term.namespaces.iter().flatten().enumerate() {
        dns_label(namespace, &namespaces.index(index), errors);
    }
    let selector = term.label_selector.as_ref();
    label_keys(term.match_label_keys.as_deref(), selector, &path.field("matchLabelKeys"), errors);
    label_keys(term.mismatch_label_keys.as_deref(), selector, &path.field("mismatchLabelKeys"), errors);
    match term.topology_key.as_str() {
        "" => required(&path.field("topologyKey"), "add it, such as kubernetes.io/hostname", errors),
        key => qualified_name(key, &path.field("topologyKey"), errors),
    }
}

/// Validates `matchLabelKeys`, which require a label selector.
fn label_keys(
    keys: Option<&[String]>,
    selector: Option<&LabelSelector>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let keys = keys.unwrap_or_default();
    if !keys.is_empty() && selector.is_none() {
        errors.add(path, "there is no `labelSelector`", "add one, or remove the keys");
    }
    for (index, key) in keys.iter().enumerate() {
        qualified_name(key, &path.index(index), errors);
    }
}

fn check_toleration(toleration: &Toleration, path: &Path<'_>, errors: &mut FieldErrors) {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let operator = toleration.operator.as_deref().filter(|operator| !operator.is_empty()).unwrap_or("Equal");
    if !key.is_empty() {
        qualified_name(key, &path.field("key"), errors);
    } else if operator != "Exists" {
        errors.add(
            &path.field("operator"),
            "there is no key",
            "add a key, or write `operator: Exists` for every taint",
        );
    }
    match operator {
        "Equal" => label_value(value, &path.field("value"), errors),
        "Exists" if !value.is_empty() => {
            errors.add(
                &path.field("value"),
                "Exists takes no value",
                "remove it, or write `operator: Equal`",
            );
        }
        "Exists" => {}
        "Gt" | "Lt" if value.parse::<i64>().is_err() => {
            errors.add(&path.field("value"), format!("`{value}` is not a number"), "write a whole number");
        }
        "Gt" | "Lt" => {}
        _ => one_of(operator, &["Equal", "Exists", "Gt", "Lt"], &path.field("operator"), errors),
    }
    if !effect.is_empty() {
        one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], &path.field("effect"), errors);
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        errors.add(
            &path.field("effect"),
            "`tolerationSeconds` requires the effect NoExecute",
            "write `effect: NoExecute`, or remove the seconds",
        );
    }
}

fn spread(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, constraint) in spec.topology_spread_constraints.iter().flatten().enumerate() {
        let path = &path.index(index);
        check_spread(constraint, path, errors);
        if !seen.insert((&constraint.topology_key, &constraint.when_unsatisfiable)) {
            let what = "another constraint has the same `topologyKey` and `whenUnsatisfiable`";
            errors.add(path, what, "keep one of them");
        }
    }
}

fn check_spread(constraint: &TopologySpreadConstraint, path: &Path<'_>, errors: &mut FieldErrors) {
    within(i64::from(constraint.max_skew), 1, i64::from(i32::MAX), &path.field("maxSkew"), errors);
    match constraint.topology_key.as_str() {
        "" => required(&path.field("topologyKey"), "add it, such as kubernetes.io/hostname", errors),
        key => qualified_name(key, &path.field("topologyKey"), errors),
    }
    let action = constraint.when_unsatisfiable.as_str();
    one_of(action, &["DoNotSchedule", "ScheduleAnyway"], &path.field("whenUnsatisfiable"), errors);
    if let Some(least) = constraint.min_domains {
        within(i64::from(least), 1, i64::from(i32::MAX), &path.field("minDomains"), errors);
        if action != "DoNotSchedule" {
            let what = "it requires `whenUnsatisfiable: DoNotSchedule`";
            errors.add(&path.field("minDomains"), what, "remove one of them");
        }
    }
    for (policy, field) in [
        (&constraint.node_affinity_policy, "nodeAffinityPolicy"),
        (&constraint.node_taints_policy, "nodeTaintsPolicy"),
    ] {
        if let Some(policy) = policy {
            one_of(policy, &["Honor", "Ignore"], &path.field(field), errors);
        }
    }
    if let Some(selector) = &constraint.label_selector {
        selectors::labels(selector, &path.field("labelSelector"), errors);
    }
    let keys = constraint.match_label_keys.as_deref();
    label_keys(keys, constraint.label_selector.as_ref(), &path.field("matchLabelKeys"), errors);
}

fn claims(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for (index, claim) in spec.resource_claims.iter().flatten().enumerate() {
        let path = &path.index(index);
        dns_label(&claim.name, &path.field("name"), errors);
        if !names.insert(&claim.name) {
            errors.duplicate(
                &path.field("name"),
                format!("two claims are called `{}`", claim.name),
                "use unique names",
            );
        }
        match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(name), None) => dns_subdomain(name, &path.field("resourceClaimName"), errors),
            (None, Some(name)) => dns_subdomain(name, &path.field("resourceClaimTemplateName"), errors),
            (Some(_), Some(_)) => errors.add(path, "a claim and a template are both set", "keep one of them"),
            (None, None) => required(path, "add resourceClaimName or resourceClaimTemplateName", errors),
        }
    }
}
