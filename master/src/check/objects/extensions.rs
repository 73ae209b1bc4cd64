//! Checks extensions of the API: webhook configurations whose service does not exist, and CustomResourceDefinitions that are not
//! served. Pure.

use std::collections::HashSet;

use super::kinds::{Webhook, WebhookConfiguration, condition, why};
use super::{PATIENCE, World};
use crate::check::finding::{Finding, Severity, Subject, counted};
use crate::objects::Conditioned;

/// Findings for all webhook configurations.
pub fn webhook_findings(world: &World) -> Vec<Finding> {
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

/// Findings for all CustomResourceDefinitions.
pub fn definition_findings(world: &World) -> Vec<Finding> {
    let definitions = world.lists.custom_resource_definitions.iter();
    definitions.filter_map(|definition| of_definition(world, definition)).collect()
}

fn of_definition(world: &World, definition: &Conditioned) -> Option<Finding> {
    let Conditioned { metadata, status } = definition;
    let subject = Subject::of("CustomResourceDefinition", metadata);
    let condition = |kind: &str| condition(&status.conditions, kind);
    let (names, established) = (condition("NamesAccepted"), condition("Established"));
    let structural = condition("NonStructuralSchema");
    if metadata.is_terminating() {
        let is_late = world.since(metadata.deletion_timestamp) > PATIENCE;
        let remedy =
            "finalizers block its objects: start the controllers that remove them, or remove them manually";
        return is_late.then(|| {
            Finding::problem(subject, "is stuck in deletion", remedy).because(why(condition("Terminating")))
        });
    }
    if &*names.status == "False" {
        let remedy = "rename it, or delete the definition that uses the name";
        return Some(Finding::problem(subject, "has names that are in use", remedy).because(why(names)));
    }
    if !established.is_true() && world.since(metadata.creation_timestamp) > PATIENCE {
        let remedy = "the master's log says why; update the definition to retry";
        return Some(Finding::problem(subject, "is not served", remedy).because(why(established)));
    }
    structural.is_true().then(|| {
        let remedy = "correct its schema according to the message";
        Finding::warning(subject, "has a non-structural schema", remedy).because(why(structural))
    })
}
