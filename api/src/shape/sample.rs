//! Sample types for tests: parts of Pod, Deployment and Service.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{Field, Form, List, Node, Patch, Shape};

/// A sample type.
pub(crate) enum Sample {
    Scalar,
    Struct { atomic: bool, fields: Vec<(&'static str, Member)> },
    Map { values: Box<Sample>, atomic: bool },
    List { elements: Box<Sample>, list: Kind },
}

pub(crate) enum Kind {
    Atomic,
    Set,
    Map(Vec<String>),
}

pub(crate) struct Member {
    of: Sample,
    patch: Patch<'static>,
    default: Option<Value>,
}

impl Node for Sample {
    fn form(&self) -> Form<'_> {
        match self {
            Self::Scalar => Form::Scalar,
            Self::Struct { atomic, .. } => Form::Struct { atomic: *atomic },
            Self::Map { values, atomic } => Form::Map { values: Shape::of(&**values), atomic: *atomic },
            Self::List { elements, list } => Form::List {
                elements: Shape::of(&**elements),
                list: match list {
                    Kind::Atomic => List::Atomic,
                    Kind::Set => List::Set,
                    Kind::Map(keys) => List::Map(keys),
                },
            },
        }
    }

    fn field(&self, name: &str) -> Option<Field<'_>> {
        let Self::Struct { fields, .. } = self else { return None };
        let (_, member) = fields.iter().find(|(field, _)| *field == name)?;
        Some(Field { shape: Shape::of(&member.of), patch: member.patch, default: member.default.as_ref() })
    }
}

fn member(of: Sample) -> Member {
    Member { of, patch: Patch::Plain, default: None }
}

fn scalar() -> Member {
    member(Sample::Scalar)
}

fn scalars<const N: usize>(names: [&'static str; N]) -> Vec<(&'static str, Member)> {
    names.into_iter().map(|name| (name, scalar())).collect()
}

fn object(fields: Vec<(&'static str, Member)>) -> Sample {
    Sample::Struct { atomic: false, fields }
}

fn map(atomic: bool) -> Member {
    member(Sample::Map { values: Box::new(Sample::Scalar), atomic })
}

fn list(elements: Sample, list: Kind, patch: Patch<'static>) -> Member {
    Member { of: Sample::List { elements: Box::new(elements), list }, patch, default: None }
}

fn keys<const N: usize>(names: [&str; N]) -> Kind {
    Kind::Map(names.map(str::to_owned).to_vec())
}

fn protocol() -> (&'static str, Member) {
    ("protocol", Member { default: Some(json!("TCP")), ..scalar() })
}

fn metadata() -> Member {
    let mut fields =
        scalars(["name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation"]);
    let owner = Sample::Struct { atomic: true, fields: scalars(["uid", "name", "kind", "controller"]) };
    fields.extend([
        ("labels", map(false)),
        ("annotations", map(false)),
        ("finalizers", list(Sample::Scalar, Kind::Set, Patch::Merge)),
        ("ownerReferences", list(owner, keys(["uid"]), Patch::MergeBy("uid"))),
    ]);
    member(object(fields))
}

fn top(spec: Sample, status: Sample) -> Sample {
    let mut fields = scalars(["apiVersion", "kind"]);
    fields.extend([("metadata", metadata()), ("spec", member(spec)), ("status", member(status))]);
    object(fields)
}

fn conditions() -> Sample {
    let condition = object(scalars(["type", "status", "reason"]));
    let mut fields = scalars(["phase", "replicas"]);
    fields.push(("conditions", list(condition, keys(["type"]), Patch::MergeBy("type"))));
    object(fields)
}

fn container() -> Sample {
    let mut port = scalars(["name", "containerPort", "hostPort"]);
    port.push(protocol());
    let mut fields = scalars(["name", "image", "workingDir"]);
    fields.extend([
        ("command", list(Sample::Scalar, Kind::Atomic, Patch::Plain)),
        ("env", list(object(scalars(["name", "value"])), keys(["name"]), Patch::MergeBy("name"))),
        ("ports", list(object(port), keys(["containerPort", "protocol"]), Patch::MergeBy("containerPort"))),
        ("resources", member(object(vec![("limits", map(false)), ("requests", map(false))]))),
        ("securityContext", member(object(scalars(["runAsUser", "privileged"])))),
    ]);
    object(fields)
}

fn pod_spec() -> Sample {
    let mut volume = scalars(["name"]);
    volume.extend([
        ("emptyDir", member(object(scalars(["medium"])))),
        ("hostPath", member(object(scalars(["path"])))),
    ]);
    let toleration = object(scalars(["key", "value"]));
    let reference = Sample::Struct { atomic: true, fields: scalars(["name"]) };
    let mut fields = scalars(["nodeName", "hostNetwork"]);
    fields.extend([
        ("containers", list(container(), keys(["name"]), Patch::MergeBy("name"))),
        ("volumes", list(object(volume), keys(["name"]), Patch::MergeBy("name"))),
        ("tolerations", list(toleration, Kind::Atomic, Patch::Plain)),
        ("imagePullSecrets", list(reference, keys(["name"]), Patch::MergeBy("name"))),
        ("nodeSelector", map(true)),
    ]);
    object(fields)
}

fn deployment_spec() -> Sample {
    let selector = Sample::Struct { atomic: true, fields: vec![("matchLabels", map(false))] };
    let template = object(vec![("metadata", metadata()), ("spec", member(pod_spec()))]);
    let mut strategy = scalars(["type"]);
    strategy.push(("rollingUpdate", member(object(scalars(["maxSurge"])))));
    let mut fields = scalars(["replicas", "paused"]);
    fields.extend([
        ("selector", member(selector)),
        ("template", member(template)),
        ("strategy", Member { patch: Patch::Plain, ..member(object(strategy)) }),
        ("wholly", Member { patch: Patch::Replace, ..map(false) }),
    ]);
    object(fields)
}

fn service_spec() -> Sample {
    let mut port = scalars(["name", "port", "targetPort"]);
    port.push(protocol());
    object(vec![
        ("type", scalar()),
        ("selector", map(true)),
        ("ports", list(object(port), keys(["port", "protocol"]), Patch::MergeBy("port"))),
    ])
}

static POD: LazyLock<Sample> = LazyLock::new(|| top(pod_spec(), conditions()));
static DEPLOYMENT: LazyLock<Sample> = LazyLock::new(|| top(deployment_spec(), conditions()));
static SERVICE: LazyLock<Sample> = LazyLock::new(|| top(service_spec(), conditions()));

/// Returns a type with some fields of a Pod.
pub(crate) fn pod() -> Shape<'static> {
    Shape::of(&*POD)
}

/// Returns a type with some fields of a Deployment, and a field `wholly` that patches replace.
pub(crate) fn deployment() -> Shape<'static> {
    Shape::of(&*DEPLOYMENT)
}

/// Returns a type with some fields of a Service.
pub(crate) fn service() -> Shape<'static> {
    Shape::of(&*SERVICE)
}
