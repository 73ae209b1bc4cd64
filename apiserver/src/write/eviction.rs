//! Evictions, limited by PodDisruptionBudgets.

use api::strategy::Json;
use api::time::seconds;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::delete::DeleteOptions;
use super::scale::{at, put};
use super::{MAX_ATTEMPTS, Write, body, object_meta, response};
use crate::admission::Operation;
use crate::registry;
use crate::resource::Resource;
use crate::selector::matches_selector;
use crate::status::Status;
use crate::watch_cache::{Object, Scope};

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// Condition of a budget that says whether disruptions are allowed.
const ALLOWED: &str = "DisruptionAllowed";
const API_VERSIONS: [&str; 2] = ["policy/v1", "policy/v1beta1"];
/// Maximum number of disrupted pods in a budget, as in kube-apiserver.
const MAX_DISRUPTED_PODS: usize = 2000;
/// Retry delay while a budget's status is outdated.
const RETRY_SECONDS: u64 = 10;

impl Write<'_> {
    pub(super) async fn evict(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        let sent = body::of_kind(body::document(media_type, bytes)?, &API_VERSIONS, "Eviction")?;
        let given = object_meta::text(&sent, "name");
        if !given.is_empty() && given != name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let options = sent.get("deleteOptions").cloned().unwrap_or_default();
        let mut wanted = DeleteOptions::read(&options, &self.options)?;
        let pod = self.get(name)?.decode();
        self.admit(Operation::Create, name, sent, &pod).await?;
        // The UID excludes another pod that is created under the same name.
        wanted.uid.get_or_insert_with(|| object_meta::text(&pod, "uid").to_owned());
        let is_pinned = wanted.revision.is_some();
        wanted.condition = Some(disruption_target(&seconds(self.now)));
        for _ in 0..MAX_ATTEMPTS {
            let pod = self.get(name)?.decode();
            let charge =
                if is_idle(&pod) { Charge::Nothing } else { self.charge(name, &pod, wanted.dry_run).await? };
            if !is_pinned {
                // If no budget was charged, the pod is deleted only at this revision, because it may have become ready
                // since.
                let revision = object_meta::text(&pod, "resourceVersion").to_owned();
                wanted.revision = (charge != Charge::One && !has_ended(&pod)).then_some(revision);
            }
            match self.remove(name, &wanted).await {
                Err(status) if status.code == StatusCode::CONFLICT.as_u16() && !is_pinned => match charge {
                    Charge::Nothing => {}
                    Charge::Spared(budget) => return Err(not_observed(&budget)),
                    Charge::One => return Err(status),
                },
                removed => {
                    removed?;
                    let made = json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
                    });
                    return Ok(response(StatusCode::CREATED, made.to_string(), &[]));
                }
            }
        }
        Err(Status::changed(self.resource, name))
    }

    /// Counts a disruption against the budget of the pod, if it has one.
    async fn charge(&self, name: &str, pod: &Json, dry_run: bool) -> Result<Charge, Status> {
        for _ in 0..MAX_ATTEMPTS {
            let rows = self.context.registry.rows();
            let Some(row) = rows.all().iter().find(|row| row.stored() == BUDGETS) else {
                return Ok(Charge::One);
            };
            let Some((object, mut budget)) = self.budget(pod)? else { return Ok(Charge::One) };
            if !is_ready(pod) && allows_unready(&budget) {
                return Ok(Charge::Spared(object.name().to_owned()));
            }
            charge_disruption(&mut budget, name, &seconds(self.now))?;
            if dry_run || self.replaced(row, &object, &budget).await? {
                return Ok(Charge::One);
            }
        }
        Err(too_many(&format!("many changes to the disruption budget of {name} at once"), 0, None))
    }

    /// Writes a budget. Returns false on a conflict.
    async fn replaced(&self, row: &Resource, before: &Object, budget: &Json) -> Result<bool, Status> {
        match self.context.registry.replace(row, before, budget).await {
            Ok(_) => Ok(true),
            Err(registry::Error::Changed) => Ok(false),
            Err(error) => Err(self.failed(before.name(), &error)),
        }
    }

    /// The budget that selects the pod. It fails if several do.
    fn budget(&self, pod: &Json) -> Result<Option<(Object, Json)>, Status> {
        let scope = Scope::Namespace(object_meta::text(pod, "namespace").to_owned());
        let none = Map::new();
        let labels = at(pod, "metadata.labels").and_then(Value::as_object).unwrap_or(&none);
        let all = self.context.registry.cache().list(BUDGETS, &scope).objects.into_iter();
        let mut of = all.filter_map(|object| {
            let budget = object.decode();
            let is_its =
                at(&budget, "spec.selector").is_some_and(|selector| matches_selector(selector, labels));
            is_its.then_some((object, budget))
        });
        match (of.next(), of.next()) {
            (Some(_), Some(_)) => Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            )),
            (budget, _) => Ok(budget),
        }
    }
}

/// How an eviction counts against a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Charge {
    /// The eviction does not count: the pod is pending or finished.
    Nothing,
    /// The eviction does not count: the pod is not ready, and the named budget allows the eviction of unready pods.
    Spared(String),
    /// The eviction counts as one disruption, or no budget selects the pod.
    One,
}

/// True for a pod that is pending or finished.
fn is_idle(pod: &Json) -> bool {
    has_ended(pod) || at(pod, "status.phase").and_then(Value::as_str).unwrap_or("Pending") == "Pending"
}

/// True for a pod that has finished or is terminating.
fn has_ended(pod: &Json) -> bool {
    let phase = at(pod, "status.phase").and_then(Value::as_str).unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed") || object_meta::is_terminating(pod)
}

/// The `DisruptionTarget` condition of an evicted pod.
fn disruption_target(now: &str) -> Value {
    json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastTransitionTime": now,
    })
}

fn is_ready(pod: &Json) -> bool {
    let conditions = at(pod, "status.conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("Ready")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    })
}

/// Whether the budget allows the eviction of unready pods: always, or while enough pods are healthy.
fn allows_unready(budget: &Json) -> bool {
    let number = |path: &str| at(budget, path).and_then(Value::as_i64).unwrap_or(0);
    let policy = at(budget, "spec.unhealthyPodEvictionPolicy").and_then(Value::as_str);
    let wanted = number("status.desiredHealthy");
    policy == Some("AlwaysAllow") || (wanted > 0 && number("status.currentHealthy") >= wanted)
}

/// Counts a disruption against a budget, or fails if the budget allows none.
fn charge_disruption(budget: &mut Json, pod: &str, now: &str) -> Result<(), Status> {
    let number = |path: &str| at(budget, path).and_then(Value::as_i64).unwrap_or(0);
    let name = object_meta::text(budget, "name").to_owned();
    let (observed, allowed) = (number("status.observedGeneration"), number("status.disruptionsAllowed"));
    if observed < number("metadata.generation") {
        return Err(not_observed(&name));
    }
    let mut pods = at(budget, "status.disruptedPods").and_then(Value::as_object).cloned().unwrap_or_default();
    if pods.len() > MAX_DISRUPTED_PODS {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(BUDGETS, &name, why));
    }
    if allowed <= 0 {
        return Err(violated(0, &denial_message(budget, &name)));
    }
    pods.insert(pod.to_owned(), now.into());
    put(budget, "status.disruptedPods", pods.into());
    put(budget, "status.disruptionsAllowed", (allowed - 1).into());
    if allowed == 1 {
        let none = json!({
            "type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": now, "observedGeneration": observed,
        });
        object_meta::put_condition(budget, &none);
    }
    Ok(())
}

/// The reason why a budget allows no disruption.
fn denial_message(budget: &Json, name: &str) -> String {
    let number = |path: &str| at(budget, path).and_then(Value::as_i64).unwrap_or(0);
    let (healthy, wanted) = (number("status.currentHealthy"), number("status.desiredHealthy"));
    let conditions = at(budget, "status.conditions").and_then(Value::as_array);
    let text_of =
        |one: &Value, field: &str| one.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let denies = |one: &&Value| text_of(one, "type") == ALLOWED && text_of(one, "status") == "False";
    let denial = conditions.into_iter().flatten().find(denies);
    let denial = denial.map(|one| (text_of(one, "reason"), text_of(one, "message")));
    match denial.filter(|(_, message)| !message.is_empty()) {
        // After a failed sync its counts are outdated.
        Some((reason, message)) if reason == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if healthy <= wanted => {
            format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
            )
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

/// The error for a budget whose status is outdated.
fn not_observed(budget: &str) -> Status {
    violated(
        RETRY_SECONDS,
        &format!("The disruption budget {budget} is still being processed by the server."),
    )
}

fn violated(retry_seconds: u64, cause: &str) -> Status {
    too_many("Cannot evict pod as it would violate the pod's disruption budget.", retry_seconds, Some(cause))
}

fn too_many(message: &str, retry_seconds: u64, cause: Option<&str>) -> Status {
    let mut details = json!({});
    if let Some(cause) = cause {
        details["causes"] = json!([{"reason": "DisruptionBudget", "message": cause}]);
    }
    if retry_seconds > 0 {
        details["retryAfterSeconds"] = retry_seconds.into();
    }
    let status = Status::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
    Status { details: Some(details), ..status }
}
