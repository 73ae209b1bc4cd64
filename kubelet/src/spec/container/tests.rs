//! Conversion of container fields.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use api::references::References;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{ContainerInput, container};
use crate::observed::{Sandbox, State};
use crate::runtime::Image;
use crate::runtime::spec::{ContainerSpec, Network};
use crate::spec::env::Sources;
use crate::spec::{ConfigError, Environment, Facts};

/// Builds the spec of a pod's first container.
pub(crate) fn make(spec: Value, facts: &Facts, image: &Image) -> Result<ContainerSpec, ConfigError> {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let references = References::default();
    let sources = Sources { pod: &pod, facts, pod_ips: &[], references: &references };
    let first = &pod.spec.as_ref().unwrap().containers[0];
    container(ContainerInput {
        pod: &pod,
        container: first,
        facts,
        sandbox: &Sandbox {
            id: "s".into(),
            attempt: 0,
            hash: String::new(),
            state: State::Created,
            ips: Vec::new(),
            is_bare: false,
            created_at: Timestamp::UNIX_EPOCH,
        },
        image,
        environment: &Environment::of(&sources, first)?,
        mounts: Vec::new(),
        seccomp: None,
        target: None,
        attempt: 3,
        back_off: Duration::from_secs(10),
        termination_file: Path::new("/t/3"),
    })
}

#[test]
fn a_simple_container() {
    let spec = json!({"containers": [{
        "name": "c", "image": "web", "command": ["$(A)", "$(B)"], "args": ["$$(A)"], "workingDir": "/w", "tty": true,
        "env": [{"name": "A", "value": "1"}], "terminationMessagePath": "/last"
    }]});
    let image = Image { id: "sha256:1".into(), ..Image::default() };
    let made = make(spec, &Facts::default(), &image).unwrap();
    assert_eq!(made.identity.engine_name(), "k8s_c_p_n_u_3");
    assert_eq!((made.image.as_str(), made.image_id.as_str()), ("web", "sha256:1"));
    assert_eq!(made.command.as_deref(), Some(&["1".to_owned(), "$(B)".to_owned()][..]));
    assert_eq!(made.args.as_deref(), Some(&["$(A)".to_owned()][..]));
    assert_eq!(made.env, ["A=1"]);
    assert_eq!((made.working_dir.as_deref(), made.tty, made.stdin), (Some("/w"), true, false));
    assert_eq!(made.network, Network::Pod);
    assert_eq!((made.mounts[0].source.as_str(), made.mounts[0].target.as_str()), ("/t/3", "/last"));
    assert_eq!((made.termination.path.as_str(), made.termination.policy.as_str()), ("/last", "File"));
}
