//! A pod takes from its RuntimeClass what it costs beyond its containers, and where it can run.

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, Attempt};
use async_trait::async_trait;
use serde_json::Value;

use super::lookup::Lookup;
use super::pods::{field, forbidden, is_new_pod, list_mut, spec, text};
use crate::quota::amounts;

/// The stock server's `RuntimeClass`.
#[derive(Clone, Debug)]
pub struct RuntimeClasses {
    lookup: Lookup,
}

impl RuntimeClasses {
    /// Finds classes there.
    pub fn new(lookup: Lookup) -> Self {
        Self { lookup }
    }
}

/// Puts on the pod what its class says.
///
/// # Errors
/// What of the two does not fit together, in the stock words.
fn apply(pod: &mut Json, class: Option<&Json>) -> Result<(), String> {
    let at =
        |names: [&str; 2]| class.and_then(|class| class.get(names[0])).and_then(|part| part.get(names[1]));
    let Some(spec) = field(pod, "spec") else { return Ok(()) };
    let overhead = at(["overhead", "podFixed"]).filter(|fixed| !amounts(Some(fixed)).is_empty());
    let own = amounts(spec.get("overhead"));
    match overhead {
        None if !own.is_empty() => {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned());
        }
        Some(overhead) if !own.is_empty() && own != amounts(Some(overhead)) => {
            return Err(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()
            );
        }
        Some(overhead) => drop(spec.insert("overhead".to_owned(), overhead.clone())),
        None => {}
    }
    if let Some(Value::Object(selector)) = at(["scheduling", "nodeSelector"]) {
        let Some(own) = field(spec, "nodeSelector") else { return Ok(()) };
        for (key, value) in selector {
            if let Some(other) = own.get(key).filter(|other| *other != value) {
                let (value, other) = (value.as_str().unwrap_or_default(), other.as_str().unwrap_or_default());
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {other}"
                ));
            }
            own.insert(key.clone(), value.clone());
        }
    }
    if let Some(Value::Array(tolerations)) = at(["scheduling", "tolerations"]) {
        let Some(own) = list_mut(spec, "tolerations") else { return Ok(()) };
        let missing: Vec<Value> = tolerations.iter().filter(|one| !own.contains(one)).cloned().collect();
        own.extend(missing);
    }
    Ok(())
}

#[async_trait]
impl Admission for RuntimeClasses {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if !is_new_pod(attempt) {
            return Ok(());
        }
        let name =
            spec(&attempt.object).map(|spec| text(spec, "runtimeClassName")).unwrap_or_default().to_owned();
        let class = match name.as_str() {
            "" => None,
            name => {
                let found = self.lookup.get("runtimeclasses.node.k8s.io", "", name);
                let why = format!("pod rejected: RuntimeClass \"{name}\" not found");
                Some(found.ok_or_else(|| forbidden(attempt, &why))?)
            }
        };
        apply(&mut attempt.object, class.as_ref()).map_err(|why| forbidden(attempt, &why))
    }
}

#[cfg(test)]
mod tests {
    //! What a class puts on a pod.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_class_says_is_put_on_unless_it_conflicts() {
        let class = json!({
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox"}]},
        });
        let class = class.as_object().unwrap();
        for (spec, expected) in [
            (
                json!({}),
                Ok(
                    json!({"overhead": {"cpu": "250m"}, "nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox"}]}),
                ),
            ),
            (
                json!({"overhead": {"cpu": "0.25"}, "nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "sandbox"}]}),
                Ok(json!({"overhead": {"cpu": "250m"}, "nodeSelector": {"disk": "fast", "sandbox": "yes"},
                    "tolerations": [{"key": "sandbox"}]})),
            ),
            (json!({"overhead": {"cpu": "1"}}), Err("doesn't match")),
            (json!({"nodeSelector": {"sandbox": "no"}}), Err("[sandbox] = yes; pod")),
        ] {
            let mut pod = json!({"spec": spec}).as_object().unwrap().clone();
            match (apply(&mut pod, Some(class)), expected) {
                (Ok(()), Ok(expected)) => assert_eq!(pod["spec"], expected),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
        let mut pod = json!({"spec": {"overhead": {"cpu": "1"}}}).as_object().unwrap().clone();
        assert!(apply(&mut pod, None).unwrap_err().contains("without corresponding"));
    }
}
