//! The strategy of ResourceQuotas.

use super::causes::Causes;
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use crate::quantity::Quantity;
use crate::validate::names;

/// The strategy of ResourceQuotas.
pub(super) static QUOTA: KindStrategy = KindStrategy {
    check,
    immutable: &["spec.scopes"],
    status: |new, _, causes| {
        for list in ["hard", "used"] {
            new.at("status")
                .at(list)
                .entries()
                .for_each(|(name, amount)| check_amount(name, &amount, causes));
        }
    },
    ..NO_OP
};

/// Scopes for which a selector can only use the operator `Exists`.
const POD_SCOPES: [&str; 5] =
    ["BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "Terminating"];
/// Scopes for which a selector can match values.
const VALUED_SCOPES: [&str; 2] = ["PriorityClass", "VolumeAttributesClass"];
/// Pairs of scopes that exclude each other.
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// Resources that are counted in whole numbers.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// Compute resources of pods, to which the pod scopes apply.
const COMPUTE: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
/// All other standard resources without a domain.
const OTHERS: [&str; 4] =
    ["ephemeral-storage", "limits.ephemeral-storage", "requests.ephemeral-storage", "requests.storage"];
/// Standard resources that a quota cannot limit.
const NOT_OF_QUOTAS: [&str; 1] = ["storage"];
const HUGE_PAGES: [&str; 2] = ["hugepages-", "requests.hugepages-"];

/// True for a standard quota resource. All others have a domain or begin with `count/`.
fn is_standard(resource: &str) -> bool {
    [&COUNTED[..], &COMPUTE, &OTHERS].iter().any(|known| known.contains(&resource))
        || HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix))
}

/// True if the scope applies to the standard resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        scope if is_scope(scope) => resource == "pods" || COMPUTE.contains(&resource),
        _ => true,
    }
}

fn is_scope(scope: &str) -> bool {
    POD_SCOPES.contains(&scope) || VALUED_SCOPES.contains(&scope)
}

/// True for resources that are counted in whole numbers: objects and extended resources.
fn is_counted(resource: &str) -> bool {
    let is_extended = || {
        let (domain, _) = resource.split_once('/')?;
        let is_native = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
        Some(!is_native && !resource.starts_with("requests."))
    };
    COUNTED.contains(&resource) || is_extended().unwrap_or(false)
}

fn check_amount(name: &str, amount: &FieldValue<'_, '_>, causes: &mut Causes) {
    if !names::is_qualified_name(name) {
        let why = "the name of a resource must consist of letters, digits, '-', '_' and '.', and begin and end with a letter \
                   or digit; it may have a domain and '/' as prefix";
        causes.invalid(amount, why);
    } else if !name.contains('/') && !is_standard(name) {
        if !NOT_OF_QUOTAS.contains(&name) {
            causes.invalid(amount, "must be a standard resource type or fully qualified");
        }
        causes.invalid(amount, "must be a standard resource for quota");
    }
    causes.amount(amount);
    if is_counted(name) && amount.text().parse::<Quantity>().is_ok_and(|amount| !amount.is_whole()) {
        causes.invalid(amount, "must be an integer");
    }
}

fn check(quota: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = quota.at("spec");
    let hard = spec.at("hard");
    for (name, amount) in hard.entries() {
        check_amount(name, &amount, causes);
    }
    let resources: Vec<&str> =
        hard.entries().map(|(name, _)| name).filter(|name| is_standard(name)).collect();

    let scopes = spec.at("scopes");
    let named: Vec<&str> = scopes.items().map(|scope| scope.text()).collect();
    if named.iter().any(|scope| !is_scope(scope)) {
        causes.invalid(&scopes, "unsupported scope");
    }
    check_scopes(&named, &resources, &scopes, causes);

    let selector = spec.at("scopeSelector");
    let expressions = selector.at("matchExpressions");
    for expression in expressions.items() {
        check_expression(&expression, causes);
    }
    let named: Vec<&str> = expressions.items().map(|expression| expression.at("scopeName").text()).collect();
    check_scopes(&named, &resources, &expressions, causes);
}

/// Rejects scopes that do not apply to a limited resource, and scopes that exclude each other.
fn check_scopes(scopes: &[&str], resources: &[&str], place: &FieldValue<'_, '_>, causes: &mut Causes) {
    for scope in scopes {
        if let Some(resource) = resources.iter().find(|resource| !fits(scope, resource)) {
            causes.invalid(place, &format!("unsupported scope applied to resource: {scope} to {resource}"));
        }
    }
    for conflict in CONFLICTS {
        if conflict.iter().all(|scope| scopes.contains(scope)) {
            causes.invalid(place, "conflicting scopes");
        }
    }
}

fn check_expression(expression: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (scope, operator, values) =
        (expression.at("scopeName"), expression.at("operator"), expression.at("values"));
    if !is_scope(scope.text()) {
        causes.invalid(&scope, "unsupported scope");
    }
    if POD_SCOPES.contains(&scope.text()) && operator.text() != "Exists" {
        causes.invalid(
            &operator,
            "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
             ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
             ResourceQuotaScopeCrossNamespacePodAffinity",
        );
    }
    match operator.text() {
        "In" | "NotIn" => {
            let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            causes.required(&values, why);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            causes.invalid(&values, why);
        }
        "Exists" | "DoesNotExist" => {}
        _ => causes.invalid(&operator, "not a valid selector operator"),
    }
}
