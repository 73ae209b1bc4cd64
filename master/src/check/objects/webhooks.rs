//! Checks webhook configurations whose service does not exist. Pure.

use std::collections::HashSet;

use super::World;
use super::kinds::{Webhook, WebhookConfiguration};
use crate::check::finding::{Finding, Severity, Subject, counted};

/// Findings for all webhook configurations.
pub fn findings(world: &World) -> Vec<Finding> {
    let lists = &world.lists;
    let services = lists.services.iter().map(|service| &service.metadata);
    let services: HashSet<(&str, &str)> =
        services.map(|service| (&*service.namespace, &*service.name)).collect();
    let validating = || lists.validating_webhooks.iter().map(|of| ("ValidatingWebhookConfiguration", of));
    let mutating = || lists.mutating_webhooks.iter().map(|of| ("MutatingWebhookConfiguration", of));
    let all = || validating().chain(mutating());
    // This project's master stores the configurations but does not call webhooks.
    let are_called = !world.version.is_own();
    let mut found: Vec<Finding> =
        all().flat_map(|(kind, of)| nowhere(kind, of, &services, are_called)).collect();
    let count = all().filter(|(_, of)| !of.webhooks.is_empty()).count();
    if count > 0 && !are_called {
        let remedy = "do not rely on them: objects are written without being checked or changed";
        let what = format!("{} stored, but none is called", counted(count, "configuration"));
        found.push(
            Finding::warning("webhooks", what, remedy).because("this master does not call webhooks yet"),
        );
    }
    found
}

fn nowhere(
    kind: &'static str,
    of: &WebhookConfiguration,
    services: &HashSet<(&str, &str)>,
    are_called: bool,
) -> Vec<Finding> {
    let lost = of.webhooks.iter().filter_map(|webhook| {
        let service = webhook.client_config.service.as_ref()?;
        let place = (&*service.namespace, &*service.name);
        (!services.contains(&place)).then_some((webhook, place))
    });
    let finding = |(webhook, (namespace, name)): (&Webhook, (&str, &str))| {
        let refuses = &*webhook.failure_policy != "Ignore";
        let what = format!("the webhook {} has no service", webhook.name);
        let cause = format!("the service {namespace}/{name} does not exist");
        let remedy = if refuses {
            "create the service, or delete the configuration: until then the requests it applies to are rejected where webhooks are called"
        } else {
            "create the service, or delete the configuration"
        };
        let severity = if refuses && are_called { Severity::Problem } else { Severity::Warning };
        Finding::problem(Subject::of(kind, &of.metadata), what, remedy).because(cause).graded(severity)
    };
    lost.map(finding).collect()
}
