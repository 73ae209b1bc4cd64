//! Every namespace has the cluster's root certificate in a ConfigMap `kube-root-ca.crt`, for pods to know the API server by.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::accounts::made;
use super::agenda::Next;
use super::client::{Client, Error, Json, Kind};
use super::object::at;
use super::queue::{Controller, Queue};
use super::world::{Change, World};

/// Its name in `--controllers`.
pub const NAME: &str = "root-ca-certificate-publisher-controller";
/// The ConfigMap, and the file in it.
const CONFIG_MAP: &str = "kube-root-ca.crt";
const FILE: &str = "ca.crt";
/// What people are told who find it.
const ABOUT: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                           such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                           distributions of Kubernetes clusters.";

/// The controller.
#[derive(Debug)]
pub struct Publisher {
    client: Client,
    /// Its own role lets it write, not read; the stock one's does not either.
    reader: Client,
    world: World,
    certificate: String,
}

/// What is to be done about a namespace.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create(Value),
    Update(Json),
}

impl Publisher {
    /// Publishes that certificate (PEM).
    pub fn new(client: Client, reader: Client, world: World, certificate: String) -> Self {
        Self { client, reader, world, certificate }
    }
}

fn plan(found: Option<&Json>, namespace: &str, certificate: &str) -> Plan {
    let data = json!({FILE: certificate});
    let annotations = json!({ABOUT: DESCRIPTION});
    let Some(found) = found else {
        return Plan::Create(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": namespace, "annotations": annotations},
            "data": data,
        }));
    };
    let is_told = at(found, "/metadata/annotations/kubernetes.io~1description").and_then(Value::as_str)
        == Some(DESCRIPTION);
    if found.get("data") == Some(&data) && is_told {
        return Plan::Nothing;
    }
    // Whatever else somebody put there goes.
    let mut wanted = found.clone();
    wanted.insert("data".to_owned(), data);
    if let Some(Value::Object(metadata)) = wanted.get_mut("metadata") {
        let told = metadata.entry("annotations").or_insert_with(|| json!({}));
        match told {
            Value::Object(told) => drop(told.insert(ABOUT.to_owned(), DESCRIPTION.into())),
            other => *other = annotations,
        }
    }
    Plan::Update(wanted)
}

#[async_trait]
impl Controller for Publisher {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::NAMESPACE) && change.now.is_some() {
            queue.add(&object.name);
        } else if change.kind.is(&Kind::CONFIG_MAP) && object.name == CONFIG_MAP {
            queue.add(&object.namespace);
        }
    }

    async fn look(&self, namespace: &str, _: &Queue) -> Result<Next, Error> {
        if self.world.get(&Kind::NAMESPACE, "", namespace).is_none_or(|found| found.is_ending) {
            return Ok(Next::Change);
        }
        let found = self.reader.find(&Kind::CONFIG_MAP, namespace, CONFIG_MAP).await?;
        match plan(found.as_ref(), namespace, &self.certificate) {
            Plan::Nothing => Ok(Next::Change),
            Plan::Create(object) => made(self.client.create(&Kind::CONFIG_MAP, namespace, object).await),
            Plan::Update(object) => made(self.client.update(&Kind::CONFIG_MAP, "", object).await),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What is made, healed, and left alone.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn check(found: Option<Value>, expected: impl Fn(&Plan) -> bool) {
        let plan = plan(found.as_ref().map(|found| found.as_object().unwrap()), "n", "PEM");
        assert!(expected(&plan), "{found:?}: {plan:?}");
    }

    #[test]
    fn it_is_made_and_healed() {
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
