//! `kubelet wait`: waits until objects have a condition, or are deleted.

use std::process::ExitCode;
use std::time::Duration;

use ::client::percent_encoded;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::args::Wait;
use super::client::{Client, Error};
use super::flags;
use super::get::{ResourceType, full_name, split};
use super::print::out;

const JSON: &str = "application/json";
/// Time limit of `--timeout` below 0, which stands for no limit: a week, as in kubectl.
const UNLIMITED: Duration = Duration::from_secs(7 * 24 * 3600);

/// What the command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Goal {
    /// The condition of this type has this status.
    Condition { kind: String, status: String },
    /// The object is gone.
    Deletion,
}

impl Goal {
    /// Parses `condition=Ready`, `condition=Ready=false` or `delete`.
    fn parse(text: &str) -> anyhow::Result<Self> {
        if text.eq_ignore_ascii_case("delete") {
            return Ok(Self::Deletion);
        }
        let condition = text.strip_prefix("condition=").filter(|condition| !condition.is_empty());
        let condition = condition.ok_or_else(|| {
            anyhow::anyhow!("unrecognized condition: \"{text}\": use condition=NAME[=STATUS] or delete")
        })?;
        let (kind, status) = condition.split_once('=').unwrap_or((condition, "true"));
        Ok(Self::Condition { kind: kind.to_owned(), status: status.to_owned() })
    }

    /// Whether an existing object has reached the goal.
    fn is_met(&self, object: &Value) -> bool {
        let Self::Condition { kind, status } = self else { return false };
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let mut conditions =
            conditions.filter(|condition| text(condition, "type").eq_ignore_ascii_case(kind));
        conditions.next().is_some_and(|condition| text(condition, "status").eq_ignore_ascii_case(status))
    }
}

/// Runs the subcommand.
pub async fn run(client: &Client, wait: &Wait) -> anyhow::Result<ExitCode> {
    let goal = Goal::parse(&wait.goal)?;
    let timeout = match wait.timeout.strip_prefix('-') {
        Some(_) => UNLIMITED,
        None => flags::duration(&wait.timeout)
            .map_err(|wanted| anyhow::anyhow!("--timeout: \"{}\" {wanted}", wait.timeout))?,
    };
    let deadline = Instant::now() + timeout;
    for (resource, name) in objects(wait)? {
        let namespace = &wait.place.namespace;
        let name = match full_name(client, resource, namespace, &name).await {
            Ok(name) => name,
            Err(error) if error.is_not_found() && goal == Goal::Deletion => continue,
            Err(error) => return Err(error.into()),
        };
        match timeout_at(deadline, reach(client, resource, namespace, &name, &goal)).await {
            Ok(reached) => reached?,
            Err(_) => anyhow::bail!("timed out waiting for the condition on {}/{name}", resource.plural),
        }
        out(format!("{}/{name} condition met\n", resource.singular).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The objects of the arguments: `TYPE NAME...` or `TYPE/NAME...`.
fn objects(wait: &Wait) -> anyhow::Result<Vec<(ResourceType, String)>> {
    let find = |text: &str| {
        ResourceType::find(text).ok_or_else(|| {
            anyhow::anyhow!("unknown resource \"{text}\": use pods, nodes, configmaps or secrets")
        })
    };
    let [first, rest @ ..] = &wait.objects[..] else { return Ok(Vec::new()) };
    if let (resource, None) = split(first) {
        anyhow::ensure!(
            !rest.is_empty(),
            "name the objects: kubelet wait --for={} {resource}/NAME",
            wait.goal
        );
        let resource = find(resource)?;
        return Ok(rest.iter().map(|name| (resource, name.clone())).collect());
    }
    let pair = |text: &String| match split(text) {
        (resource, Some(name)) => Ok((find(resource)?, name.to_owned())),
        (_, None) => {
            anyhow::bail!("\"{text}\" lacks a resource type: write every argument as TYPE/NAME, like {first}")
        }
    };
    wait.objects.iter().map(pair).collect()
}

/// Watches one object until it has reached the goal.
async fn reach(
    client: &Client,
    resource: ResourceType,
    namespace: &str,
    name: &str,
    goal: &Goal,
) -> anyhow::Result<()> {
    let list = resource.path(Some(namespace));
    let selector = percent_encoded(&format!("metadata.name={name}")).to_string();
    loop {
        let found = client.json(&format!("{list}?fieldSelector={selector}"), JSON).await?;
        match found.pointer("/items/0") {
            Some(object) if goal.is_met(object) => return Ok(()),
            Some(_) => {}
            None if *goal == Goal::Deletion => return Ok(()),
            None => {
                let message = format!("{} \"{name}\" not found", resource.plural);
                return Err(Error::Refused { code: 404, reason: "NotFound".to_owned(), message }.into());
            }
        }
        let revision = found.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("0");
        let path = format!("{list}?fieldSelector={selector}&watch=true&resourceVersion={revision}");
        if changes_until(client, &path, goal).await? {
            return Ok(());
        }
        // The watch ended, for example at its time limit. The next list shows what it has missed.
    }
}

/// Reads a watch. Returns true when the goal is reached, and false when the watch ends.
async fn changes_until(client: &Client, path: &str, goal: &Goal) -> anyhow::Result<bool> {
    let mut watch = client.watch(path, JSON).await?;
    while let Some((kind, object)) = watch.next().await? {
        match kind.as_str() {
            "ERROR" => return Ok(false),
            "DELETED" if *goal == Goal::Deletion => return Ok(true),
            _ if goal.is_met(&object) => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    //! Tests of goals.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::Goal;

    #[test]
    fn goals_follow_kubectl() {
        let object = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False"},
        ]}});
        for (text, is_met) in [
            ("condition=Ready", true),
            ("condition=ready=true", true),
            ("condition=Ready=False", false),
            ("condition=PodScheduled=false", true),
            ("condition=Absent", false),
            ("delete", false),
        ] {
            assert_eq!(Goal::parse(text).unwrap().is_met(&object), is_met, "{text}");
        }
        for text in ["", "ready", "condition=", "jsonpath={.a}"] {
            assert!(
                Goal::parse(text).unwrap_err().to_string().starts_with("unrecognized condition"),
                "{text}"
            );
        }
    }
}
