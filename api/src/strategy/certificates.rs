//! The strategy of CertificateSigningRequests: the request is immutable, and approval and certificate are final.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::causes::Causes;
use super::dotted::{at, set};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::{Json, Part};
use crate::validate::names;

pub(super) static STRATEGY: KindStrategy = KindStrategy {
    prepare,
    check,
    update: |new, old, causes| {
        causes.unchanged(&new.at("spec"), &old.at("spec"));
        conditions(new, old, Write::Other, causes);
    },
    status: |new, old, causes| conditions(new, old, Write::Status, causes),
    subresource: |part, new, old, causes| {
        if part == "approval" {
            conditions(new, old, Write::Approval, causes);
        }
    },
    ..NO_OP
};

/// Minimum value of `expirationSeconds`, as in Kubernetes.
const LIFE_MIN_SECONDS: i64 = 600;
/// Valid key usages.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Which part of the request is written. It determines which conditions may be added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Approval,
    Status,
    Other,
}

fn prepare(request: &mut Json, before: Option<&Json>, part: &Part<'_>) {
    match (part, before) {
        (Part::Main, None) => drop(request.remove("status")),
        (Part::Main, Some(before)) => {
            for part in ["spec", "status"] {
                // An update cannot change spec or status.
                set(request, part, before.get(part).cloned());
            }
        }
        (Part::Status, Some(before)) => set(request, "spec", before.get("spec").cloned()),
        (Part::Sub("approval"), Some(before)) => {
            let conditions = at(request, "status.conditions").cloned();
            for part in ["spec", "status"] {
                set(request, part, before.get(part).cloned());
            }
            set(request, "status.conditions", conditions);
        }
        (Part::Status | Part::Sub(_), _) => {}
    }
}

fn check(request: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = request.at("spec");
    let body = spec.at("request");
    if causes.required(&body, "") {
        causes.text(&body, is_request, "PEM block type must be CERTIFICATE REQUEST");
    }
    let usages = spec.at("usages");
    causes.required(&usages, "usages must be specified");
    usages.items().for_each(|usage| causes.one_of(&usage, &USAGES));
    causes.unique(&usages, "");
    let signer = spec.at("signerName");
    if causes.required(&signer, "") {
        let is_signer = |name: &str| {
            name.split_once('/').is_some_and(|(domain, path)| {
                domain.contains('.')
                    && names::is_dns_subdomain(domain)
                    && !path.is_empty()
                    && path.split('.').all(names::is_dns_label)
            })
        };
        causes.text(
            &signer,
            is_signer,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
        if signer.text() == "kubernetes.io/legacy-unknown" {
            causes.invalid(&signer, "the legacy signerName is not allowed via this API version");
        }
    }
    let life = spec.at("expirationSeconds");
    if life.number().is_some_and(|seconds| seconds < LIFE_MIN_SECONDS) {
        causes.invalid(&life, "may not specify a duration less than 600 seconds (10 minutes)");
    }
}

/// True for a PEM block of the type `CERTIFICATE REQUEST`. The signer checks its content.
fn is_request(text: &str) -> bool {
    let Ok(bytes) = STANDARD.decode(text) else { return false };
    let Ok(text) = String::from_utf8(bytes) else { return false };
    let inside = text.split_once("-----BEGIN CERTIFICATE REQUEST-----");
    let inside = inside.and_then(|(_, rest)| rest.split_once("-----END CERTIFICATE REQUEST-----"));
    inside.is_some_and(|(body, _)| {
        STANDARD.decode(body.split_whitespace().collect::<String>()).is_ok_and(|der| !der.is_empty())
    })
}

fn conditions(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, write: Write, causes: &mut Causes) {
    let (list, was) = (new.at("status.conditions"), old.at("status.conditions"));
    let has = |list: &FieldValue<'_, '_>, kind: &str| {
        list.items().any(|condition| condition.at("type").text() == kind)
    };
    causes.unique(&list, "type");
    for condition in list.items() {
        causes.required(&condition.at("type"), "");
        causes.one_of(&condition.at("status"), &["False", "True", "Unknown"]);
        if matches!(condition.at("type").text(), "Approved" | "Denied" | "Failed")
            && condition.at("status").text() != "True"
        {
            causes.push(super::Cause::not_supported(
                condition.at("status").path(),
                condition.at("status").text(),
                &["True"],
            ));
        }
    }
    if has(&list, "Approved") && has(&list, "Denied") {
        causes.invalid(&list, "Approved and Denied conditions are mutually exclusive");
    }
    for kind in ["Approved", "Denied", "Failed"] {
        if has(&was, kind) && !has(&list, kind) {
            causes.forbidden(&list, &format!("updates may not remove a condition of type \"{kind}\""));
        }
        let may_add = write == Write::Approval || (write == Write::Status && kind == "Failed");
        if !may_add && has(&list, kind) && !has(&was, kind) {
            causes.forbidden(&list, &format!("updates may not add a condition of type \"{kind}\""));
        }
    }
    let (issued, before) = (new.at("status.certificate"), old.at("status.certificate"));
    if issued.value() == before.value() {
        return;
    }
    if write != Write::Status {
        causes.forbidden(&issued, "updates may not set certificate content");
    } else if !before.is_empty() {
        causes.forbidden(&issued, "updates may not modify existing certificate content");
    } else if !is_chain(issued.value()) {
        causes.invalid(&issued, "must contain at least one CERTIFICATE PEM block");
    }
}

fn is_chain(value: &Value) -> bool {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).contains("-----BEGIN CERTIFICATE-----")
}
