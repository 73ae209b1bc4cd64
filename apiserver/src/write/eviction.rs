//! Evictions: deletions of pods that the disruption budgets of a namespace allow.

use api::strategy::Json;
use api::time::seconds;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::delete::Wanted;
use super::scale::{at, put};
use super::{TRIES, Write, body, meta, response};
use crate::admission::Operation;
use crate::registry;
use crate::resource::Resource;
use crate::selector::matches_selector;
use crate::status::Status;
use crate::store::{Object, Scope};

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// The condition by which a budget says whether it allows any.
const ALLOWED: &str = "DisruptionAllowed";
const API_VERSIONS: [&str; 2] = ["policy/v1", "policy/v1beta1"];
/// Pods whose end a budget waits for at most; the stock server's.
const DISRUPTED_PODS: usize = 2000;
/// When a client is to try again while a budget's numbers are not known yet.
const SOON_SECONDS: u64 = 10;

impl Write<'_> {
    pub(super) async fn evict(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<Response, Status> {
        let sent = body::of_kind(body::document(media_type, bytes)?, &API_VERSIONS, "Eviction")?;
        let given = meta::text(&sent, "name");
        if !given.is_empty() && given != name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let options = sent.get("deleteOptions").cloned().unwrap_or_default();
        let mut wanted = Wanted::read(&options, &self.options)?;
        let pod = self.get(name)?.decode();
        self.admit(Operation::Create, name, sent, &pod).await?;
        // Not the one that comes after it.
        wanted.uid.get_or_insert_with(|| meta::text(&pod, "uid").to_owned());
        let is_pinned = wanted.revision.is_some();
        wanted.condition = Some(target(&seconds(self.now)));
        for _ in 0..TRIES {
            let pod = self.get(name)?.decode();
            let spent =
                if is_idle(&pod) { Spent::Nothing } else { self.spend(name, &pod, wanted.dry_run).await? };
            if !is_pinned {
                // What was not paid for goes as it was looked at, or it may have begun to work.
                let revision = meta::text(&pod, "resourceVersion").to_owned();
                wanted.revision = (spent != Spent::One && !has_ended(&pod)).then_some(revision);
            }
            match self.remove(name, &wanted).await {
                Err(status) if status.code == StatusCode::CONFLICT.as_u16() && !is_pinned => match spent {
                    Spent::Nothing => {}
                    Spent::Spared(budget) => return Err(unsettled(&budget)),
                    Spent::One => return Err(status),
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

    /// Takes one disruption from the budget of the pod, if there is a budget and it has one.
    async fn spend(&self, name: &str, pod: &Json, dry_run: bool) -> Result<Spent, Status> {
        for _ in 0..TRIES {
            let rows = self.desk.registry.rows();
            let Some(row) = rows.all().iter().find(|row| row.stored() == BUDGETS) else {
                return Ok(Spent::One);
            };
            let Some((object, mut budget)) = self.budget(pod)? else { return Ok(Spent::One) };
            if !is_ready(pod) && spares_unready(&budget) {
                return Ok(Spent::Spared(object.name().to_owned()));
            }
            disrupt(&mut budget, name, &seconds(self.now))?;
            if dry_run || self.replaced(row, &object, &budget).await? {
                return Ok(Spent::One);
            }
        }
        Err(too_many(&format!("many changes to the disruption budget of {name} at once"), 0, None))
    }

    /// False when somebody else came before.
    async fn replaced(&self, row: &Resource, before: &Object, budget: &Json) -> Result<bool, Status> {
        match self.desk.registry.replace(row, before, budget).await {
            Ok(_) => Ok(true),
            Err(registry::Error::Changed) => Ok(false),
            Err(error) => Err(self.failed(before.name(), &error)),
        }
    }

    /// The one budget that selects the pod.
    fn budget(&self, pod: &Json) -> Result<Option<(Object, Json)>, Status> {
        let scope = Scope::Namespace(meta::text(pod, "namespace").to_owned());
        let none = Map::new();
        let labels = at(pod, "metadata.labels").and_then(Value::as_object).unwrap_or(&none);
        let all = self.desk.registry.cache().list(BUDGETS, &scope).objects.into_iter();
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

/// What an eviction was paid with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spent {
    /// The pod does no work.
    Nothing,
    /// The pod is not ready, and the budget of that name lets those go.
    Spared(String),
    /// One disruption, or there is no budget.
    One,
}

/// True for a pod that does no work, so that nothing is disrupted.
fn is_idle(pod: &Json) -> bool {
    has_ended(pod) || at(pod, "status.phase").and_then(Value::as_str).unwrap_or("Pending") == "Pending"
}

/// True for a pod that will never work again.
fn has_ended(pod: &Json) -> bool {
    let phase = at(pod, "status.phase").and_then(Value::as_str).unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed") || meta::is_doomed(pod)
}

/// What is said of a pod that is evicted.
fn target(now: &str) -> Value {
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

/// True when pods that are not ready may go: always, or while enough others are healthy.
fn spares_unready(budget: &Json) -> bool {
    let number = |path: &str| at(budget, path).and_then(Value::as_i64).unwrap_or(0);
    let policy = at(budget, "spec.unhealthyPodEvictionPolicy").and_then(Value::as_str);
    let wanted = number("status.desiredHealthy");
    policy == Some("AlwaysAllow") || (wanted > 0 && number("status.currentHealthy") >= wanted)
}

/// Takes one disruption from a budget, or says that there is none.
fn disrupt(budget: &mut Json, pod: &str, now: &str) -> Result<(), Status> {
    let number = |path: &str| at(budget, path).and_then(Value::as_i64).unwrap_or(0);
    let name = meta::text(budget, "name").to_owned();
    let (observed, allowed) = (number("status.observedGeneration"), number("status.disruptionsAllowed"));
    if observed < number("metadata.generation") {
        return Err(unsettled(&name));
    }
    let mut pods = at(budget, "status.disruptedPods").and_then(Value::as_object).cloned().unwrap_or_default();
    if pods.len() > DISRUPTED_PODS {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(BUDGETS, &name, why));
    }
    if allowed <= 0 {
        return Err(violated(0, &why_not(budget, &name)));
    }
    pods.insert(pod.to_owned(), now.into());
    put(budget, "status.disruptedPods", pods.into());
    put(budget, "status.disruptionsAllowed", (allowed - 1).into());
    if allowed == 1 {
        let none = json!({
            "type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": now, "observedGeneration": observed,
        });
        meta::put_condition(budget, &none);
    }
    Ok(())
}

/// Why a budget allows no disruption.
fn why_not(budget: &Json, name: &str) -> String {
    let number = |path: &str| at(budget, path).and_then(Value::as_i64).unwrap_or(0);
    let (healthy, wanted) = (number("status.currentHealthy"), number("status.desiredHealthy"));
    let conditions = at(budget, "status.conditions").and_then(Value::as_array);
    let says =
        |one: &Value, field: &str| one.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let denies = |one: &&Value| says(one, "type") == ALLOWED && says(one, "status") == "False";
    let denial = conditions.into_iter().flatten().find(denies);
    let denial = denial.map(|one| (says(one, "reason"), says(one, "message")));
    match denial.filter(|(_, message)| !message.is_empty()) {
        // What it counted is not to be trusted then.
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

/// A budget whose numbers are not those of what it asks for, or of a pod as it is.
fn unsettled(budget: &str) -> Status {
    violated(SOON_SECONDS, &format!("The disruption budget {budget} is still being processed by the server."))
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
