//! Evictions: deletions of pods that the disruption budgets of a namespace allow.

use api::strategy::Json;
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
        if !needs_no_budget(&pod) {
            self.take_from_budget(name, &pod, wanted.dry_run).await?;
        }
        self.remove(name, &wanted).await?;
        let made =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(response(StatusCode::CREATED, made.to_string(), &[]))
    }

    /// Takes one disruption from the budget of the pod, if there is a budget and it has one.
    async fn take_from_budget(&self, name: &str, pod: &Json, dry_run: bool) -> Result<(), Status> {
        for _ in 0..TRIES {
            let rows = self.desk.registry.rows();
            let Some(row) = rows.all().iter().find(|row| row.stored() == BUDGETS) else { return Ok(()) };
            let Some((object, mut budget)) = self.budget(pod)? else { return Ok(()) };
            if !is_ready(pod) && spares_unready(&budget) {
                return Ok(());
            }
            disrupt(&mut budget, name, &meta::rfc3339(self.now))?;
            if dry_run || self.replaced(row, &object, &budget).await? {
                return Ok(());
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

/// True for a pod that does no work, so that nothing is disrupted.
fn needs_no_budget(pod: &Json) -> bool {
    let phase = at(pod, "status.phase").and_then(Value::as_str).unwrap_or("Pending");
    matches!(phase, "Succeeded" | "Failed" | "Pending") || meta::is_doomed(pod)
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
    if number("status.observedGeneration") < number("metadata.generation") {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(violated(SOON_SECONDS, &why));
    }
    let mut pods = at(budget, "status.disruptedPods").and_then(Value::as_object).cloned().unwrap_or_default();
    if pods.len() > DISRUPTED_PODS {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(BUDGETS, &name, why));
    }
    let allowed = number("status.disruptionsAllowed");
    if allowed <= 0 {
        let why = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("status.desiredHealthy"),
            number("status.currentHealthy")
        );
        return Err(violated(0, &why));
    }
    pods.insert(pod.to_owned(), now.into());
    put(budget, "status.disruptedPods", pods.into());
    put(budget, "status.disruptionsAllowed", (allowed - 1).into());
    Ok(())
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
