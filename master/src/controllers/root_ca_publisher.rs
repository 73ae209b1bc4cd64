//! The root CA publisher: writes the trust bundle of the API server to the ConfigMap `kube-root-ca.crt` of every
//! namespace.

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use serde_json::{Value, json};

use super::informers::{Change, SharedInformers};
use super::rate_limited_queue::Action;
use super::service_accounts::ignore_existing;
use super::work_queue::{Controller, WorkQueue};

/// The controller's name in `--controllers`.
pub const NAME: &str = "root-ca-certificate-publisher-controller";
/// The name of the ConfigMap.
const CONFIG_MAP: &str = "kube-root-ca.crt";
/// The key of the trust bundle in the ConfigMap.
const CA_KEY: &str = "ca.crt";
/// The annotation with the stock description.
const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                           such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                           distributions of Kubernetes clusters.";

#[derive(Debug)]
pub struct RootCaPublisher {
    client: Client,
    /// Reads with another user, because the stock role of this controller permits writes only.
    reader: Client,
    informers: SharedInformers,
    certificate: String,
}

/// The write for a namespace.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create(Value),
    Update(Json),
}

impl RootCaPublisher {
    /// Creates the controller. It publishes the given trust bundle (PEM).
    pub fn new(client: Client, reader: Client, informers: SharedInformers, certificate: String) -> Self {
        Self { client, reader, informers, certificate }
    }
}

fn plan(found: Option<&Json>, namespace: &str, certificate: &str) -> Plan {
    let data = json!({CA_KEY: certificate});
    let annotations = json!({DESCRIPTION_ANNOTATION: DESCRIPTION});
    let Some(found) = found else {
        return Plan::Create(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": namespace, "annotations": annotations},
            "data": data,
        }));
    };
    // Other keys are removed.
    let mut wanted = found.clone();
    wanted.insert("data".to_owned(), data);
    if let Some(Value::Object(metadata)) = wanted.get_mut("metadata") {
        match metadata.entry("annotations").or_insert_with(|| json!({})) {
            Value::Object(own) => drop(own.insert(DESCRIPTION_ANNOTATION.to_owned(), DESCRIPTION.into())),
            other => *other = annotations,
        }
    }
    if wanted == *found { Plan::Nothing } else { Plan::Update(wanted) }
}

#[async_trait]
impl Controller for RootCaPublisher {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::NAMESPACE) && change.now.is_some() {
            queue.add(&object.name);
        } else if change.kind.is(&Kind::CONFIG_MAP) && object.name == CONFIG_MAP {
            queue.add(&object.namespace);
        }
    }

    async fn reconcile(&self, namespace: &str, _: &WorkQueue) -> Result<Action, Error> {
        if self.informers.get(&Kind::NAMESPACE, "", namespace).is_none_or(|found| found.is_terminating) {
            return Ok(Action::AwaitChange);
        }
        let found = self.reader.find(&Kind::CONFIG_MAP, namespace, CONFIG_MAP).await?;
        match plan(found.as_ref(), namespace, &self.certificate) {
            Plan::Nothing => Ok(Action::AwaitChange),
            Plan::Create(object) => {
                ignore_existing(self.client.create(&Kind::CONFIG_MAP, namespace, object).await)
            }
            Plan::Update(object) => ignore_existing(self.client.update(&Kind::CONFIG_MAP, "", object).await),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of ConfigMaps that are created, repaired and kept.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn check(found: Option<Value>, expected: impl Fn(&Plan) -> bool) {
        let plan = plan(found.as_ref().map(|found| found.as_object().unwrap()), "n", "PEM");
        assert!(expected(&plan), "{found:?}: {plan:?}");
    }

    #[test]
    fn the_config_map_is_created_and_repaired() {
        let Plan::Create(good) = plan(None, "n", "PEM") else { panic!("it is missing") };
        assert_eq!(good["data"], json!({"ca.crt": "PEM"}));
        check(Some(good.clone()), |plan| *plan == Plan::Nothing);
        let mut edited = good.clone();
        edited["data"] = json!({"ca.crt": "mine", "more": "x"});
        check(
            Some(edited),
            |plan| matches!(plan, Plan::Update(object) if object["data"] == json!({"ca.crt": "PEM"})),
        );
        let mut bare = good.clone();
        bare["metadata"]["annotations"] = Value::Null;
        check(Some(bare), |plan| matches!(plan, Plan::Update(object) if Value::from(object.clone()) == good));
    }
}
