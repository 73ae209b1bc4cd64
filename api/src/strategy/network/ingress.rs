//! The strategies of Ingresses and IngressClasses.

use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::validate::names;

/// The strategy of Ingresses.
pub(in crate::strategy) static INGRESS: KindStrategy = KindStrategy { check, ..NO_OP };

/// The strategy of IngressClasses.
pub(in crate::strategy) static CLASS: KindStrategy = KindStrategy {
    default: |class| {
        if crate::dotted::at(class, "spec.parameters").is_some() {
            crate::dotted::fill(class, "spec.parameters.scope", "Cluster");
        }
    },
    check: check_class,
    immutable: &["spec.controller"],
    ..NO_OP
};

fn check(ingress: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = ingress.at("spec");
    let (rules, fallback) = (spec.at("rules"), spec.at("defaultBackend"));
    if rules.is_empty() && fallback.is_absent() {
        causes.invalid(&spec, "either `defaultBackend` or `rules` must be specified");
    }
    if !fallback.is_absent() {
        backend(&fallback, causes);
    }
    causes.subdomain(&spec.at("ingressClassName"));
    for tls in spec.at("tls").items() {
        tls.at("hosts").items().for_each(|name| host(&name, causes));
        causes.subdomain(&tls.at("secretName"));
    }
    for rule in rules.items() {
        host(&rule.at("host"), causes);
        if rule.at("http").is_absent() {
            continue;
        }
        causes.required(&rule.at("http.paths"), "");
        for path in rule.at("http.paths").items() {
            check_path(&path, causes);
            backend(&path.at("backend"), causes);
        }
    }
}

/// Requires a DNS name, which may begin with `*.`.
fn host(place: &FieldValue<'_, '_>, causes: &mut Causes) {
    if place.text().parse::<std::net::IpAddr>().is_ok() {
        return causes.invalid(place, "must be a DNS name, not an IP address");
    }
    let is_host = |name: &str| names::is_dns_subdomain(name.strip_prefix("*.").unwrap_or(name));
    causes.text(place, is_host, crate::strategy::causes::SUBDOMAIN);
}

fn check_path(path: &FieldValue<'_, '_>, causes: &mut Causes) {
    let kind = path.at("pathType");
    if kind.is_absent() {
        return causes.missing(&kind, "pathType must be specified");
    }
    causes.any_of(&kind, &["Exact", "ImplementationSpecific", "Prefix"]);
    let text = path.at("path");
    if matches!(kind.text(), "Exact" | "Prefix") {
        if !text.text().starts_with('/') {
            causes.invalid(&text, "must be an absolute path");
        }
        for wrong in ["//", "/./", "/../", "%2f", "%2F"] {
            if text.text().contains(wrong) {
                causes.invalid(&text, &format!("must not contain '{wrong}'"));
            }
        }
        if ["/..", "/."].iter().any(|end| text.text().ends_with(end)) {
            causes.invalid(&text, "cannot end with '/..' or '/.'");
        }
    } else {
        causes.text(&text, |path| path.starts_with('/'), "must be an absolute path");
    }
}

fn backend(backend: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (service, resource) = (backend.at("service"), backend.at("resource"));
    match (service.is_absent(), resource.is_absent()) {
        (true, true) => causes.missing(backend, "a backend needs a service or a resource"),
        (false, false) => causes.invalid(backend, "cannot set both resource and service backends"),
        (true, false) => {
            causes.required(&resource.at("kind"), "");
            causes.required(&resource.at("name"), "");
        }
        (false, true) => {
            if causes.required(&service.at("name"), "") {
                causes.label(&service.at("name"));
            }
            let (name, number) = (service.at("port.name"), service.at("port.number"));
            match (name.is_empty(), number.number().unwrap_or(0) == 0) {
                (true, true) => causes.missing(&service.at("port"), "port name or number is required"),
                (false, false) => {
                    causes.invalid(&service.at("port"), "cannot set both port name & port number")
                }
                (true, false) => causes.within(&number, 1, 65535),
                (false, true) => super::port_name(&name, causes),
            }
        }
    }
}

fn check_class(class: &FieldValue<'_, '_>, causes: &mut Causes) {
    let controller = class.at("spec.controller");
    if causes.required(&controller, "") {
        causes.no_longer(&controller, 250);
        let is_path = |name: &str| {
            name.split_once('/')
                .is_some_and(|(domain, rest)| names::is_dns_subdomain(domain) && !rest.is_empty())
        };
        causes.text(&controller, is_path, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    let parameters = class.at("spec.parameters");
    if parameters.is_absent() {
        return;
    }
    causes.required(&parameters.at("kind"), "kind is required");
    causes.required(&parameters.at("name"), "name is required");
    causes.one_of(&parameters.at("scope"), &["Cluster", "Namespace"]);
    match parameters.at("scope").text() {
        "Namespace" => {
            causes.required(&parameters.at("namespace"), "`parameters.scope` is set to 'Namespace'");
        }
        _ => causes.absent(&parameters.at("namespace"), "`parameters.scope` is set to 'Cluster'"),
    }
}
