//! The strategies of webhook configurations.

use serde_json::{Value, json};

use super::Json;
use super::causes::Causes;
use super::dotted::{at, each, fill, fill_all};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::selectors;
use crate::validate::names;

/// The strategy of ValidatingWebhookConfigurations.
pub(super) static VALIDATING: KindStrategy =
    KindStrategy { default: |config| default(config, false), check, ..NO_OP };

/// The strategy of MutatingWebhookConfigurations.
pub(super) static MUTATING: KindStrategy =
    KindStrategy { default: |config| default(config, true), check, ..NO_OP };

/// Maximum timeout of a webhook in seconds, as in Kubernetes.
const TIMEOUT_MAX_SECONDS: i64 = 30;
/// The supported AdmissionReview versions.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

fn default(config: &mut Json, is_mutating: bool) {
    for webhook in each(config, "webhooks") {
        fill_all(
            webhook,
            &[
                ("failurePolicy", Value::from("Fail")),
                ("matchPolicy", "Equivalent".into()),
                ("namespaceSelector", json!({})),
                ("objectSelector", json!({})),
                ("timeoutSeconds", 10.into()),
            ],
        );
        if is_mutating {
            fill(webhook, "reinvocationPolicy", "Never");
        }
        if at(webhook, "clientConfig.service").is_some() {
            fill(webhook, "clientConfig.service.port", 443);
        }
        each(webhook, "rules").for_each(|rule| fill(rule, "scope", "*"));
    }
}

fn check(config: &FieldValue<'_, '_>, causes: &mut Causes) {
    let webhooks = config.at("webhooks");
    causes.unique(&webhooks, "name");
    for webhook in webhooks.items() {
        check_webhook(&webhook, causes);
    }
}

fn check_webhook(webhook: &FieldValue<'_, '_>, causes: &mut Causes) {
    if causes.required(&webhook.at("name"), "") {
        let is_full = |name: &str| names::is_dns_subdomain(name) && name.split('.').count() >= 3;
        causes.text(
            &webhook.at("name"),
            is_full,
            "should be a domain with at least three segments separated by dots",
        );
    }
    let versions = webhook.at("admissionReviewVersions");
    if causes.required(&versions, "must specify one of v1, v1beta1")
        && !versions.items().any(|version| REVIEWS.contains(&version.text()))
    {
        causes.invalid(&versions, "must include at least one of v1, v1beta1");
    }
    causes.unique(&versions, "");
    causes.one_of(&webhook.at("sideEffects"), &["None", "NoneOnDryRun"]);
    causes.any_of(&webhook.at("failurePolicy"), &["Fail", "Ignore"]);
    causes.any_of(&webhook.at("matchPolicy"), &["Equivalent", "Exact"]);
    causes.any_of(&webhook.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
    causes.within(&webhook.at("timeoutSeconds"), 1, TIMEOUT_MAX_SECONDS);
    selectors::check(&webhook.at("namespaceSelector"), causes);
    selectors::check(&webhook.at("objectSelector"), causes);
    webhook.at("rules").items().for_each(|rule| check_rule(&rule, causes));
    client(&webhook.at("clientConfig"), causes);
}

pub(super) fn check_rule(rule: &FieldValue<'_, '_>, causes: &mut Causes) {
    let operations = rule.at("operations");
    causes.required(&operations, "");
    for operation in operations.items() {
        causes.one_of(&operation, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
    }
    for list in ["apiGroups", "apiVersions", "resources"] {
        let list = rule.at(list);
        causes.required(&list, "");
        if list.len() > 1
            && list.items().any(|item| item.text() == "*")
            && !list.path().ends_with("resources")
        {
            causes.invalid(&list, "if '*' is present, must not specify other values");
        }
    }
    causes.any_of(&rule.at("scope"), &["*", "Cluster", "Namespaced"]);
}

fn client(config: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (url, service) = (config.at("url"), config.at("service"));
    match (url.is_absent(), service.is_absent()) {
        (true, true) | (false, false) => causes.missing(config, "exactly one of url or service is required"),
        (false, true) => {
            let is_https = |url: &str| {
                url.strip_prefix("https://")
                    .is_some_and(|rest| !rest.is_empty() && !rest.contains(['#', '?', '@']))
            };
            if url.is_empty() || !is_https(url.text()) {
                causes.invalid(
                    &url,
                    "must be a URL that begins with https:// and has no user, query or fragment",
                );
            }
        }
        (true, false) => {
            causes.required(&service.at("name"), "service name is required");
            causes.required(&service.at("namespace"), "service namespace is required");
            causes.within(&service.at("port"), 1, 65535);
            causes.text(&service.at("path"), |path| path.starts_with('/'), "must start with a '/'");
        }
    }
}
