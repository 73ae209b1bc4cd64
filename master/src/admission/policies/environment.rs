//! What the expressions of a policy may name.

use cel::{Environment, Error, Function, Gives, Kind, Type, Value, function};

use super::access;

/// What constructed objects may be called: a part of the object, or an operation on it.
const CONSTRUCTS: &[&str] = &["Object", "JSONPatch"];

/// What is known of the request.
fn request() -> Type {
    let text = |name: &str| (name.to_owned(), Type::String);
    let kind = || Type::object("kind", ["group", "version", "kind"].map(text));
    let resource = || Type::object("resource", ["group", "version", "resource"].map(text));
    let user = Type::object(
        "userInfo",
        [
            text("username"),
            text("uid"),
            ("groups".to_owned(), Type::list(Type::String)),
            ("extra".to_owned(), Type::map(Type::list(Type::String))),
        ],
    );
    let mut fields = vec![
        ("kind".to_owned(), kind()),
        ("requestKind".to_owned(), kind()),
        ("resource".to_owned(), resource()),
        ("requestResource".to_owned(), resource()),
        ("userInfo".to_owned(), user),
        ("dryRun".to_owned(), Type::Bool),
        ("options".to_owned(), Type::Dyn),
    ];
    fields.extend(["uid", "subResource", "requestSubResource", "name", "namespace", "operation"].map(text));
    Type::object("request", fields)
}

/// The variables of every expression of a policy.
pub fn of(has_params: bool) -> Environment {
    let mut environment = api::expressions::environment();
    environment.constructs = CONSTRUCTS;
    environment.libraries.push(FUNCTIONS);
    let environment = environment
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("namespaceObject", Type::Dyn)
        .with("request", request());
    if has_params { environment.with("params", Type::Dyn) } else { environment }
}

/// The same, for expressions that may ask who may do what.
pub fn with_authorizer(mut environment: Environment) -> Environment {
    environment.libraries.push(access::FUNCTIONS);
    environment.with("authorizer", Type::Foreign(access::AUTHORIZER))
}

static FUNCTIONS: &[Function] =
    &[function("jsonpatch.escapeKey", &[Kind::Text], Gives::Is(Type::String), |of, budget| match &of[0] {
        Value::String(text) => {
            budget.read(text.len())?;
            Ok(Value::from(text.replace('~', "~0").replace('/', "~1")))
        }
        _ => Err(Error::NoSuchOverload(String::new())),
    })];
