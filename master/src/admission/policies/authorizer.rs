//! The CEL authorizer library: `authorizer.group('').resource('pods').check('create').allowed()`.

use std::any::Any;
use std::sync::Arc;

use apiserver::Identity;
use apiserver::auth::{Attributes, Auth, Decision, On, ResourceAttributes};
use cel::arguments::{own, text};
use cel::{Budget, Error, Function, Kind, Opaque, Returns, Type, Value, method};

/// The CEL type of an authorizer for a user or service account.
pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const PATH: &str = "kubernetes.authorization.PathCheck";
const GROUP: &str = "kubernetes.authorization.GroupCheck";
const RESOURCE: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

/// The CEL cost of an access check, which reads all RBAC grants of a user. The stock cost is higher.
const DECISION_STEPS: usize = 50_000;

const ON_RESOURCE: &[Kind] = &[Kind::Opaque(RESOURCE), Kind::Text];
const OF_DECISION: &[Kind] = &[Kind::Opaque(DECISION)];
const MORE: Returns = Returns::Is(Type::Opaque(RESOURCE));
const DECIDED: Returns = Returns::Is(Type::Opaque(DECISION));

pub static FUNCTIONS: &[Function] = &[
    method("path", &[Kind::Opaque(AUTHORIZER), Kind::Text], Returns::Is(Type::Opaque(PATH)), |of, _| {
        let path = On::Path(text(of, 1)?.to_owned());
        narrow(of, |authorizer| authorizer.on = Target::About(path))
    }),
    method("group", &[Kind::Opaque(AUTHORIZER), Kind::Text], Returns::Is(Type::Opaque(GROUP)), |of, _| {
        let group = text(of, 1)?.to_owned();
        narrow(of, |authorizer| authorizer.on = Target::Group(group))
    }),
    method(
        "serviceAccount",
        &[Kind::Opaque(AUTHORIZER), Kind::Text, Kind::Text],
        Returns::Is(Type::Opaque(AUTHORIZER)),
        |of, _| {
            let (namespace, name) = (text(of, 1)?, text(of, 2)?);
            let user = format!("system:serviceaccount:{namespace}:{name}");
            let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
            narrow(of, |authorizer| authorizer.who = Identity::authenticated(user, groups))
        },
    ),
    method("resource", &[Kind::Opaque(GROUP), Kind::Text], MORE, |of, _| {
        let resource = text(of, 1)?.to_owned();
        narrow(of, |authorizer| {
            let group = if let Target::Group(group) = &authorizer.on { group.clone() } else { String::new() };
            let on = ResourceAttributes {
                group,
                version: "*".to_owned(),
                resource,
                ..ResourceAttributes::default()
            };
            authorizer.on = Target::About(On::Resource(on));
        })
    }),
    method("subresource", ON_RESOURCE, MORE, |of, _| with(of, |on, text| on.subresource = text)),
    method("namespace", ON_RESOURCE, MORE, |of, _| with(of, |on, text| on.namespace = text)),
    method("name", ON_RESOURCE, MORE, |of, _| with(of, |on, text| on.name = text)),
    method("check", ON_RESOURCE, DECIDED, check),
    method("check", &[Kind::Opaque(PATH), Kind::Text], DECIDED, check),
    method("allowed", OF_DECISION, Returns::Is(Type::Bool), |of, _| {
        Ok(Value::Bool(decision(of)?.is_allowed()))
    }),
    method("reason", OF_DECISION, Returns::Is(Type::String), |of, _| {
        let (Decision::Allowed(why) | Decision::Denied(why)) = decision(of)?;
        Ok(Value::from(why.as_str()))
    }),
    method("errored", OF_DECISION, Returns::Is(Type::Bool), |of, _| decision(of).map(|_| Value::Bool(false))),
    method("error", OF_DECISION, Returns::Is(Type::String), |of, _| decision(of).map(|_| Value::from(""))),
];

/// An access check under construction.
#[derive(Clone, Debug)]
pub struct Authorizer {
    auth: Arc<Auth>,
    who: Identity,
    on: Target,
    /// The resource of the admission request.
    request: ResourceAttributes,
}

#[derive(Clone, Debug)]
enum Target {
    Nothing,
    Group(String),
    About(On),
}

impl Authorizer {
    /// Creates an authorizer for the user of the request.
    pub fn new(auth: Arc<Auth>, who: Identity, request: ResourceAttributes) -> Self {
        Self { auth, who, on: Target::Nothing, request }
    }
}

impl Opaque for Authorizer {
    fn type_name(&self) -> &'static str {
        match &self.on {
            Target::Nothing => AUTHORIZER,
            Target::Group(_) => GROUP,
            Target::About(On::Path(_)) => PATH,
            Target::About(On::Resource(_)) => RESOURCE,
        }
    }

    fn equals(&self, _other: &dyn Opaque) -> bool {
        false
    }

    fn field(&self, name: &str) -> Option<Result<Value, Error>> {
        let is_known = name == "requestResource" && matches!(self.on, Target::Nothing);
        let on = || Target::About(On::Resource(self.request.clone()));
        is_known.then(|| Ok(Value::opaque(Self { on: on(), ..self.clone() })))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The result of an access check.
#[derive(Debug)]
struct AccessDecision(Decision);

impl Opaque for AccessDecision {
    fn type_name(&self) -> &'static str {
        DECISION
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref().is_some_and(|other: &Self| other.0 == self.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn decision(of: &[Value]) -> Result<&Decision, Error> {
    own(of, 0).map(|answer: &AccessDecision| &answer.0)
}

fn narrow(of: &[Value], narrow: impl FnOnce(&mut Authorizer)) -> Result<Value, Error> {
    let mut authorizer: Authorizer = own::<Authorizer>(of, 0)?.clone();
    narrow(&mut authorizer);
    Ok(Value::opaque(authorizer))
}

fn with(of: &[Value], set: fn(&mut ResourceAttributes, String)) -> Result<Value, Error> {
    let text = text(of, 1)?.to_owned();
    narrow(of, |authorizer| {
        if let Target::About(On::Resource(on)) = &mut authorizer.on {
            set(on, text);
        }
    })
}

fn check(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    budget.charge(DECISION_STEPS)?;
    let (authorizer, verb): (&Authorizer, &str) = (own(of, 0)?, text(of, 1)?);
    let attributes = match &authorizer.on {
        Target::About(On::Resource(on)) => Attributes::on(verb, on.clone()),
        Target::About(On::Path(path)) => Attributes::on_path(verb, path),
        Target::Nothing | Target::Group(_) => return Err(Error::NoSuchOverload("check".to_owned())),
    };
    let decision = authorizer.auth.decide(&authorizer.who, &attributes);
    Ok(Value::opaque(AccessDecision(decision)))
}
