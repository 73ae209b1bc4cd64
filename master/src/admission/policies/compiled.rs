//! Compiles admission policies and collects the errors of their expressions. Pure.

use api::strategy::{Cause, Json};
use cel::{Environment, Program, Type};
use serde_json::Value;

use super::environment;

/// Maximum number of variables. Each can use all earlier ones, which is slow for thousands.
const MAX_VARIABLES: usize = 500;
/// Maximum size of the type of a variable. Types may nest all earlier ones several times.
const MAX_PARTS: usize = 500;

/// A compiled expression, or its error.
pub type Compiled = Result<Program, String>;

/// A compiled validating or mutating policy.
#[derive(Debug)]
pub struct Policy {
    pub name: String,
    pub spec: Json,
    /// True for `failurePolicy: Fail`: evaluation errors reject the request.
    pub fails_closed: bool,
    /// API version and kind of the parameters.
    pub param_kind: Option<(String, String)>,
    pub conditions: Vec<(String, Compiled)>,
    pub variables: Vec<(String, Compiled)>,
    pub validations: Vec<Validation>,
    pub mutations: Vec<Mutation>,
}

#[derive(Debug)]
pub struct Validation {
    pub text: String,
    pub program: Compiled,
    pub message: String,
    pub message_program: Option<Compiled>,
    pub reason: String,
}

#[derive(Debug)]
pub enum Mutation {
    /// `applyConfiguration`: an object that is merged into the request's object.
    Configuration(Compiled),
    /// `jsonPatch`: a list of patch operations.
    Patch(Compiled),
}

/// The type that an expression must return.
#[derive(Clone, Copy)]
enum ResultType {
    Anything,
    Bool,
    String,
    StringOrNull,
    Object,
    Operations,
}

/// Compiles one field after another, and collects the errors.
struct Reader {
    causes: Vec<Cause>,
}

impl Policy {
    /// Compiles a policy, and returns the errors of its expressions.
    pub fn read(policy: &Json) -> (Self, Vec<Cause>) {
        let none = Value::Null;
        let spec = policy.get("spec").unwrap_or(&none);
        let param_kind = spec.get("paramKind").filter(|kind| kind.is_object());
        let plain = environment::of(param_kind.is_some());
        let full = environment::with_authorizer(plain.clone());
        let mut reader = Reader { causes: Vec::new() };
        let conditions = reader.named(spec, "matchConditions", |reader, path, text| {
            reader.compile(path, text, &full, ResultType::Bool)
        });
        let mut known: Vec<(String, Type)> = Vec::new();
        let with_known = |known: &[(String, Type)], environment: &Environment| {
            environment.clone().with("variables", Type::object("variables", known.iter().cloned()))
        };
        let mut variables = Vec::new();
        if list(spec, "variables").len() > MAX_VARIABLES {
            let why = format!("must have at most {MAX_VARIABLES} items");
            reader.wrong("spec.variables", "", &why);
        }
        for (at, variable) in list(spec, "variables").iter().take(MAX_VARIABLES).enumerate() {
            let (name, path) = (text(variable, "name"), format!("spec.variables[{at}]"));
            if !is_name(name) {
                reader.wrong(&format!("{path}.name"), name, "name is not a valid CEL identifier");
            }
            let environment = with_known(&known, &full);
            let program = reader.compile(
                &format!("{path}.expression"),
                text(variable, "expression"),
                &environment,
                ResultType::Anything,
            );
            let gives =
                program.as_ref().ok().map(Program::returns).filter(|gives| gives.has_at_most(MAX_PARTS));
            known.push((name.to_owned(), gives.cloned().unwrap_or(Type::Dyn)));
            variables.push((name.to_owned(), program));
        }
        let (plain, full) = (with_known(&known, &plain), with_known(&known, &full));
        let validations = reader.validations(spec, &plain, &full);
        for (at, annotation) in list(spec, "auditAnnotations").iter().enumerate() {
            let path = format!("spec.auditAnnotations[{at}].valueExpression");
            let _ =
                reader.compile(&path, text(annotation, "valueExpression"), &full, ResultType::StringOrNull);
        }
        let mutations = reader.mutations(spec, &full);
        let name =
            policy.get("metadata").map(|metadata| text(metadata, "name")).unwrap_or_default().to_owned();
        let read = Self {
            name,
            fails_closed: text(spec, "failurePolicy") != "Ignore",
            param_kind: param_kind
                .map(|kind| (text(kind, "apiVersion").to_owned(), text(kind, "kind").to_owned())),
            spec: spec.as_object().cloned().unwrap_or_default(),
            conditions,
            variables,
            validations,
            mutations,
        };
        (read, reader.causes)
    }
}

impl Reader {
    fn wrong(&mut self, path: &str, value: &str, why: &str) {
        self.causes.push(Cause::invalid(path, Value::from(value), why));
    }

    fn compile(&mut self, path: &str, text: &str, environment: &Environment, wanted: ResultType) -> Compiled {
        let compiled = Program::compile(text, environment)
            .map_err(|error| format!("compilation failed: {error}"))
            .and_then(|program| match wanted.refuses(program.returns()) {
                Some(why) => Err(why.to_owned()),
                None => Ok(program),
            });
        // Validation of the kind reports missing expressions.
        if let (Err(why), false) = (&compiled, text.trim().is_empty()) {
            self.wrong(path, text, why);
        }
        compiled
    }

    fn named(
        &mut self,
        spec: &Value,
        field: &str,
        compile: impl Fn(&mut Self, &str, &str) -> Compiled,
    ) -> Vec<(String, Compiled)> {
        let items = list(spec, field).iter().enumerate();
        items
            .map(|(at, item)| {
                let path = format!("spec.{field}[{at}].expression");
                (text(item, "name").to_owned(), compile(self, &path, text(item, "expression")))
            })
            .collect()
    }

    fn validations(&mut self, spec: &Value, plain: &Environment, full: &Environment) -> Vec<Validation> {
        let items = list(spec, "validations").iter().enumerate();
        items
            .map(|(at, item)| {
                let path = |field: &str| format!("spec.validations[{at}].{field}");
                let (source, message) = (text(item, "expression"), text(item, "messageExpression"));
                if text(item, "message").trim().contains('\n') {
                    self.wrong(
                        &path("message"),
                        text(item, "message"),
                        "message must not contain line breaks",
                    );
                }
                Validation {
                    text: source.trim().to_owned(),
                    program: self.compile(&path("expression"), source, full, ResultType::Bool),
                    message: text(item, "message").trim().to_owned(),
                    message_program: (!message.trim().is_empty()).then(|| {
                        self.compile(&path("messageExpression"), message, plain, ResultType::String)
                    }),
                    reason: text(item, "reason").to_owned(),
                }
            })
            .collect()
    }

    fn mutations(&mut self, spec: &Value, environment: &Environment) -> Vec<Mutation> {
        let items = list(spec, "mutations").iter().enumerate();
        items
            .map(|(at, item)| {
                let is_patch = text(item, "patchType") == "JSONPatch";
                let field = if is_patch { "jsonPatch" } else { "applyConfiguration" };
                let path = format!("spec.mutations[{at}].{field}.expression");
                let source = item.get(field).map(|of| text(of, "expression")).unwrap_or_default();
                if is_patch {
                    Mutation::Patch(self.compile(&path, source, environment, ResultType::Operations))
                } else {
                    Mutation::Configuration(self.compile(&path, source, environment, ResultType::Object))
                }
            })
            .collect()
    }
}

impl ResultType {
    /// The error if an expression returns another type.
    fn refuses(self, returns: &Type) -> Option<&'static str> {
        let (fits, why) = match self {
            Self::Anything => (true, ""),
            Self::Bool => (matches!(returns, Type::Bool), "must evaluate to bool"),
            Self::String => (matches!(returns, Type::String), "must evaluate to string"),
            Self::StringOrNull => {
                (matches!(returns, Type::String | Type::Null), "must evaluate to one of string or null_type")
            }
            Self::Object => (matches!(returns, Type::Map(..)), "must evaluate to Object"),
            Self::Operations => (matches!(returns, Type::List(_)), "must evaluate to list(JSONPatch)"),
        };
        (!fits && *returns != Type::Dyn).then_some(why)
    }
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c == '_' || c.is_ascii_alphabetic();
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}
