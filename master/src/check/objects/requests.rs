//! Checks CertificateSigningRequests that wait for approval or signing. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;

use super::kinds::{Node, condition, why};
use super::{PATIENCE, World};
use crate::check::finding::{Finding, Subject};
use crate::controllers::NAME_IN_USE;
use crate::objects::CertificateSigningRequest;
use crate::pki::{Request, Signer, node};

/// How long an approval policy needs at most to decide on a node CSR. One that is pending longer waits for an
/// administrator.
const UNDECIDED: SignedDuration = SignedDuration::from_secs(30);

/// Findings for all CertificateSigningRequests.
pub fn findings(world: &World) -> Vec<Finding> {
    let nodes = &world.lists.nodes;
    let age = |request: &CertificateSigningRequest| world.since(request.metadata.creation_timestamp);
    let of = |request| of_request(request, age(request), nodes);
    world.lists.certificate_signing_requests.iter().filter_map(of).collect()
}

fn of_request(request: &CertificateSigningRequest, age: SignedDuration, nodes: &[Node]) -> Option<Finding> {
    let CertificateSigningRequest { metadata, spec, status } = request;
    let subject = Subject::of("CertificateSigningRequest", metadata);
    let condition = |kind: &str| condition(&status.conditions, kind);
    let failed = condition("Failed");
    let (name, signer) = (&metadata.name, &spec.signer_name);
    let is_approved = condition("Approved").is_true();
    let signs_nodes = matches!(Signer::of(signer), Some(Signer::NodeClient | Signer::NodeServing));
    let in_use = condition(NAME_IN_USE);
    let waits_long = failed.is_true() || is_approved || !signs_nodes;
    let is_late = in_use.is_true() || age > if waits_long { PATIENCE } else { UNDECIDED };
    let is_settled = condition("Denied").is_true() || !status.certificate.is_empty();
    if is_settled || !is_late {
        return None;
    }
    if failed.is_true() {
        let remedy = "create a new CSR that the signer accepts";
        return Some(Finding::warning(subject, "could not be signed", remedy).because(why(failed)));
    }
    if in_use.is_true() {
        let remedy = format!(
            "stop the machine that uses the name, or rename the requesting one; `kubectl delete csr {name}` withdraws the request"
        );
        let what = "is approved but waits: its node name is in use";
        return Some(Finding::warning(subject, what, remedy).because(why(in_use)));
    }
    if is_approved {
        let remedy = format!("check that a signer for {signer} runs");
        return Some(Finding::warning(subject, "is approved but not signed", remedy));
    }
    let who = &spec.username;
    let parsed_csr = parsed_csr(&spec.request);
    let node = parsed_csr
        .as_ref()
        .filter(|_| signs_nodes)
        .and_then(|parsed_csr| node::of_user(&parsed_csr.common_name));
    let (cause, it) = match (node, &parsed_csr) {
        (Some(node), _) => {
            let cause = format!("{who} asks {signer} for node {node}{}", existing(node, nodes));
            (cause, format!("node {node} sent the request"))
        }
        (None, Some(parsed_csr)) => {
            let (name, groups) = (&parsed_csr.common_name, &parsed_csr.organizations);
            let of = if groups.is_empty() {
                "no groups (O)".to_owned()
            } else {
                format!("the groups (O) {groups:?}")
            };
            (
                format!("{who} asks {signer} to be {name:?} (CN) of {of}"),
                format!(
                    "{who} may have this name and \
                 these groups"
                ),
            )
        }
        (None, None) => (
            format!("{who} asks {signer} with a request that cannot be read"),
            format!("you know what {who} requests"),
        ),
    };
    let remedy =
        format!("`kubectl certificate approve {name}` if {it}, `kubectl certificate deny {name}` if not");
    Some(Finding::warning(subject, "is pending approval", remedy).because(cause))
}

/// Describes an existing node with the requested name, as the end of a message. Empty if there is none.
fn existing(node: &str, nodes: &[Node]) -> String {
    let Some(found) = nodes.iter().find(|found| &*found.metadata.name == node) else { return String::new() };
    let state = if condition(&found.status.conditions, "Ready").is_true() { "Ready" } else { "not Ready" };
    let address = found.status.addresses.first().map_or("unknown", |address| &*address.address);
    format!("; a node with that name exists and is {state} (address {address})")
}

/// Parses the CSR, which is PEM in base64. Only its contents become part of the certificate.
fn parsed_csr(request: &str) -> Option<Request> {
    let pem = STANDARD.decode(request).ok()?;
    Request::read(&pem).ok()
}
