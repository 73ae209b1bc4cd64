//! Disruption budgets say how many of their pods may be evicted now (`docs/node-lifecycle.md`).

mod plan;
mod scale;

use std::time::Duration;

use apiserver::selector::matches_selector;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value};

use self::plan::Wanted;
use super::agenda::Next;
use super::client::{Client, Error, Kind};
use super::object::{Object, at};
use super::queue::{Controller, Queue};
use super::world::{Change, World};

/// Its name in `--controllers`, that of the stock one.
pub const NAME: &str = "disruption-controller";
/// When a budget is counted again of which nothing could be told: whoever keeps its pods may come after them.
const AGAIN: Duration = Duration::from_secs(60);

/// The controller.
#[derive(Debug)]
pub struct Budgets {
    client: Client,
    world: World,
}

impl Budgets {
    /// Counts the pods of that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world }
    }
}

/// Whether a budget is over a pod.
fn is_over(selector: Option<&Value>, pod: &Object) -> bool {
    let none = Map::new();
    let labels = pod.kept("/metadata/labels").and_then(Value::as_object).unwrap_or(&none);
    selector.is_some_and(|selector| matches_selector(selector, labels))
}

/// Whether what counts of a pod has changed.
fn counts(before: &Object, now: &Object) -> bool {
    let labels = |pod: &Object| pod.kept("/metadata/labels").cloned();
    (before.is_ready, before.is_ending) != (now.is_ready, now.is_ending)
        || before.owners != now.owners
        || labels(before) != labels(now)
}

#[async_trait]
impl Controller for Budgets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if change.kind.is(&Kind::DISRUPTION_BUDGET) {
            if let Some(budget) = &change.now {
                queue.add(&budget.key());
            }
            return;
        }
        if !change.kind.is(&Kind::POD) {
            return;
        }
        if let (Some(before), Some(now)) = (&change.before, &change.now)
            && !counts(before, now)
        {
            return;
        }
        let Some(pod) = change.object() else { return };
        for budget in self.world.list(&Kind::DISRUPTION_BUDGET, &pod.namespace) {
            let selector = budget.kept("/spec/selector");
            let states = [&change.before, &change.now];
            if states.into_iter().flatten().any(|pod| is_over(selector, pod)) {
                queue.add(&budget.key());
            }
        }
    }

    async fn look(&self, key: &str, _: &Queue) -> Result<Next, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let found = self.client.find(&Kind::DISRUPTION_BUDGET, namespace, name).await?;
        let Some(mut budget) = found.filter(|budget| at(budget, "/metadata/deletionTimestamp").is_none())
        else {
            return Ok(Next::Change);
        };
        let selector = at(&budget, "/spec/selector");
        let pods = self.world.list(&Kind::POD, namespace);
        let pods: Vec<&Object> =
            pods.iter().map(AsRef::as_ref).filter(|pod| is_over(selector, pod)).collect();
        let expected = if Wanted::of(&budget).is_of_scale() {
            scale::of_all(&self.client, &self.world, &pods).await?
        } else {
            Ok(i64::try_from(pods.len()).unwrap_or(i64::MAX))
        };
        let now = Timestamp::now();
        let (status, again) = match expected {
            Ok(expected) => plan::status(&budget, &pods, expected, now),
            Err(why) => (plan::failed(&budget, &why, now), Some(AGAIN)),
        };
        if !plan::is_written(&budget, &status) {
            budget.insert("status".to_owned(), status);
            // Whoever evicted a pod meanwhile came before: then it is counted anew.
            self.client.update(&Kind::DISRUPTION_BUDGET, "status", budget).await?;
        }
        Ok(again.map_or(Next::Change, Next::In))
    }
}
