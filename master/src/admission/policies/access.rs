//! Questions of who may do what, as expressions ask them: `authorizer.group('').resource('pods').check('create').allowed()`.

use std::any::Any;
use std::sync::Arc;

use apiserver::Identity;
use apiserver::auth::{Attributes, Auth, Decision, On, ResourceAttributes};
use cel::arguments::{own, text};
use cel::{Budget, Error, Foreign, Function, Gives, Kind, Type, Value, method};

/// Whoever sends the request, or a service account.
pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const PATH: &str = "kubernetes.authorization.PathCheck";
const GROUP: &str = "kubernetes.authorization.GroupCheck";
const RESOURCE: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

/// What a decision costs: it walks all that somebody was granted. The stock server's costs more.
const DECISION_STEPS: usize = 50_000;

const ON_RESOURCE: &[Kind] = &[Kind::Foreign(RESOURCE), Kind::Text];
const OF_DECISION: &[Kind] = &[Kind::Foreign(DECISION)];
const MORE: Gives = Gives::Is(Type::Foreign(RESOURCE));
const DECIDED: Gives = Gives::Is(Type::Foreign(DECISION));

pub static FUNCTIONS: &[Function] = &[
    method("path", &[Kind::Foreign(AUTHORIZER), Kind::Text], Gives::Is(Type::Foreign(PATH)), |of, _| {
        let path = On::Path(text(of, 1)?.to_owned());
        narrowed(of, |question| question.on = Asked::About(path))
    }),
    method("group", &[Kind::Foreign(AUTHORIZER), Kind::Text], Gives::Is(Type::Foreign(GROUP)), |of, _| {
        let group = text(of, 1)?.to_owned();
        narrowed(of, |question| question.on = Asked::Group(group))
    }),
    method(
        "serviceAccount",
        &[Kind::Foreign(AUTHORIZER), Kind::Text, Kind::Text],
        Gives::Is(Type::Foreign(AUTHORIZER)),
        |of, _| {
            let (namespace, name) = (text(of, 1)?, text(of, 2)?);
            let user = format!("system:serviceaccount:{namespace}:{name}");
            let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
            narrowed(of, |question| question.who = Identity::authenticated(user, groups))
        },
    ),
    method("resource", &[Kind::Foreign(GROUP), Kind::Text], MORE, |of, _| {
        let resource = text(of, 1)?.to_owned();
        narrowed(of, |question| {
            let group = if let Asked::Group(group) = &question.on { group.clone() } else { String::new() };
            let on = ResourceAttributes {
                group,
                version: "*".to_owned(),
                resource,
                ..ResourceAttributes::default()
            };
            question.on = Asked::About(On::Resource(on));
        })
    }),
    method("subresource", ON_RESOURCE, MORE, |of, _| with(of, |on, text| on.subresource = text)),
    method("namespace", ON_RESOURCE, MORE, |of, _| with(of, |on, text| on.namespace = text)),
    method("name", ON_RESOURCE, MORE, |of, _| with(of, |on, text| on.name = text)),
    method("check", ON_RESOURCE, DECIDED, check),
    method("check", &[Kind::Foreign(PATH), Kind::Text], DECIDED, check),
    method("allowed", OF_DECISION, Gives::Is(Type::Bool), |of, _| {
        Ok(Value::Bool(decision(of)?.is_allowed()))
    }),
    method("reason", OF_DECISION, Gives::Is(Type::String), |of, _| {
        let (Decision::Allowed(why) | Decision::Denied(why)) = decision(of)?;
        Ok(Value::from(why.as_str()))
    }),
    method("errored", OF_DECISION, Gives::Is(Type::Bool), |of, _| decision(of).map(|_| Value::Bool(false))),
    method("error", OF_DECISION, Gives::Is(Type::String), |of, _| decision(of).map(|_| Value::from(""))),
];

/// A question that is being put together.
#[derive(Clone, Debug)]
pub struct Question {
    auth: Arc<Auth>,
    who: Identity,
    on: Asked,
    /// What the request itself is for.
    request: ResourceAttributes,
}

#[derive(Clone, Debug)]
enum Asked {
    Nothing,
    Group(String),
    About(On),
}

impl Question {
    /// Whoever sends the request, which is for this.
    pub fn new(auth: Arc<Auth>, who: Identity, request: ResourceAttributes) -> Self {
        Self { auth, who, on: Asked::Nothing, request }
    }
}

impl Foreign for Question {
    fn type_name(&self) -> &'static str {
        match &self.on {
            Asked::Nothing => AUTHORIZER,
            Asked::Group(_) => GROUP,
            Asked::About(On::Path(_)) => PATH,
            Asked::About(On::Resource(_)) => RESOURCE,
        }
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }

    fn field(&self, name: &str) -> Option<Result<Value, Error>> {
        let is_known = name == "requestResource" && matches!(self.on, Asked::Nothing);
        let on = || Asked::About(On::Resource(self.request.clone()));
        is_known.then(|| Ok(Value::foreign(Self { on: on(), ..self.clone() })))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An answer.
#[derive(Debug)]
struct Answer(Decision);

impl Foreign for Answer {
    fn type_name(&self) -> &'static str {
        DECISION
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        other.as_any().downcast_ref().is_some_and(|other: &Self| other.0 == self.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn decision(of: &[Value]) -> Result<&Decision, Error> {
    own(of, 0).map(|answer: &Answer| &answer.0)
}

fn narrowed(of: &[Value], narrow: impl FnOnce(&mut Question)) -> Result<Value, Error> {
    let mut question: Question = own::<Question>(of, 0)?.clone();
    narrow(&mut question);
    Ok(Value::foreign(question))
}

fn with(of: &[Value], set: fn(&mut ResourceAttributes, String)) -> Result<Value, Error> {
    let text = text(of, 1)?.to_owned();
    narrowed(of, |question| {
        if let Asked::About(On::Resource(on)) = &mut question.on {
            set(on, text);
        }
    })
}

fn check(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    budget.spend(DECISION_STEPS)?;
    let (question, verb): (&Question, &str) = (own(of, 0)?, text(of, 1)?);
    let attributes = match &question.on {
        Asked::About(On::Resource(on)) => Attributes::on(verb, on.clone()),
        Asked::About(On::Path(path)) => Attributes::on_path(verb, path),
        Asked::Nothing | Asked::Group(_) => return Err(Error::NoSuchOverload("check".to_owned())),
    };
    let decision = question.auth.decide(&question.who, &attributes);
    Ok(Value::foreign(Answer(decision)))
}
