//! Webhook configurations that lead nowhere: what they guard is refused, or let through. Pure.

use std::collections::HashSet;

use serde_json::Value;

use super::field::{list, part};
use super::{MUTATING, VALIDATING, World};
use crate::check::finding::{Finding, Severity, Subject, counted};
use crate::controllers::Object;

/// What is wrong with webhooks.
pub fn findings(world: &World) -> Vec<Finding> {
    let services: HashSet<(&str, &str)> = world
        .of("services")
        .iter()
        .map(|service| (service.namespace.as_str(), service.name.as_str()))
        .collect();
    let kinds = [(VALIDATING, "ValidatingWebhookConfiguration"), (MUTATING, "MutatingWebhookConfiguration")];
    let all =
        || kinds.into_iter().flat_map(|(plural, kind)| world.of(plural).iter().map(move |of| (kind, of)));
    // A master of ours keeps them and calls none.
    let are_called = !world.version.is_own();
    let mut found: Vec<Finding> =
        all().flat_map(|(kind, of)| nowhere(kind, of, &services, are_called)).collect();
    let count = all().filter(|(_, of)| !list(of, "/webhooks").is_empty()).count();
    if count > 0 && !are_called {
        let remedy = "do not rely on them: what they would refuse or change is written as it comes";
        let what = format!("{} kept, none is called", counted(count, "configuration"));
        found.push(
            Finding::warning("webhooks", what, remedy).because("this master does not call webhooks yet"),
        );
    }
    found
}

fn nowhere(
    kind: &'static str,
    of: &Object,
    services: &HashSet<(&str, &str)>,
    are_called: bool,
) -> Vec<Finding> {
    let lost = list(of, "/webhooks").iter().filter_map(|webhook| {
        let service = webhook.pointer("/clientConfig/service")?;
        let place = (part(service, "namespace"), part(service, "name"));
        (!services.contains(&place)).then_some((webhook, place))
    });
    let finding = |(webhook, (namespace, name)): (&Value, (&str, &str))| {
        let refuses = part(webhook, "failurePolicy") != "Ignore";
        let what = format!("the webhook {} leads nowhere", part(webhook, "name"));
        let cause = format!("there is no service {namespace}/{name}");
        let remedy = if refuses {
            "bring the service back, or delete the configuration: until then what it guards is refused where webhooks are called"
        } else {
            "bring the service back, or delete the configuration"
        };
        let severity = if refuses && are_called { Severity::Problem } else { Severity::Warning };
        Finding::problem(Subject::of(kind, of), what, remedy).because(cause).graded(severity)
    };
    lost.map(finding).collect()
}
