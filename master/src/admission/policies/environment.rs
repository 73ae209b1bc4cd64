//! The CEL environment of admission policies.

use cel::{Environment, Error, Function, Kind, Returns, Type, Value, function};

use super::authorizer;

/// First parts of the names of types that expressions may construct: parts of the object, and patch operations.
const CONSTRUCTS: &[&str] = &["Object", "JSONPatch"];

/// The type of the variable `request`.
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

/// The environment with the variables of all expressions of a policy.
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

/// Adds the authorizer library.
pub fn with_authorizer(mut environment: Environment) -> Environment {
    environment.libraries.push(authorizer::FUNCTIONS);
    environment.with("authorizer", Type::Opaque(authorizer::AUTHORIZER))
}

static FUNCTIONS: &[Function] =
    &[function("jsonpatch.escapeKey", &[Kind::Text], Returns::Is(Type::String), |of, budget| match &of[0] {
        Value::String(text) => {
            budget.charge_bytes(text.len())?;
            Ok(Value::from(text.replace('~', "~0").replace('/', "~1")))
        }
        _ => Err(Error::NoSuchOverload(String::new())),
    })];
