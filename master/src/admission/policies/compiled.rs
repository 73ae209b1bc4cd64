//! Compiles admission policies and collects the errors of their expressions. Pure.

use api::strategy::Cause;
use cel::{Environment, Program, Type};
use serde_json::Value;

use super::environment;
use super::objects::{AdmissionPolicy, MatchResources, MutationRule, ParamKind, ValidationRule};

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
    /// Requests that the policy applies to; `None` for all.
    pub match_constraints: Option<MatchResources>,
    /// True for `failurePolicy: Fail`: evaluation errors reject the request.
    pub fails_closed: bool,
    /// The kind of the parameters.
    pub param_kind: Option<ParamKind>,
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
    pub fn compile(policy: &AdmissionPolicy) -> (Self, Vec<Cause>) {
        let spec = &policy.spec;
        let plain = environment::of(spec.param_kind.is_some());
        let full = environment::with_authorizer(plain.clone());
        let mut reader = Reader { causes: Vec::new() };
        let mut conditions = Vec::new();
        for (at, condition) in spec.match_conditions.iter().enumerate() {
            let path = format!("spec.matchConditions[{at}].expression");
            let program = reader.compile(&path, &condition.expression, &full, ResultType::Bool);
            conditions.push((condition.name.to_string(), program));
        }
        let mut known: Vec<(String, Type)> = Vec::new();
        let with_known = |known: &[(String, Type)], environment: &Environment| {
            environment.clone().with("variables", Type::object("variables", known.iter().cloned()))
        };
        let mut variables = Vec::new();
        if spec.variables.len() > MAX_VARIABLES {
            let why = format!("must have at most {MAX_VARIABLES} items");
            reader.wrong("spec.variables", "", &why);
        }
        for (at, variable) in spec.variables.iter().take(MAX_VARIABLES).enumerate() {
            let (name, path) = (&*variable.name, format!("spec.variables[{at}]"));
            if !is_name(name) {
                reader.wrong(&format!("{path}.name"), name, "name is not a valid CEL identifier");
            }
            let (path, environment) = (format!("{path}.expression"), with_known(&known, &full));
            let program = reader.compile(&path, &variable.expression, &environment, ResultType::Anything);
            let gives =
                program.as_ref().ok().map(Program::returns).filter(|gives| gives.has_at_most(MAX_PARTS));
            known.push((name.to_owned(), gives.cloned().unwrap_or(Type::Dyn)));
            variables.push((name.to_owned(), program));
        }
        let (plain, full) = (with_known(&known, &plain), with_known(&known, &full));
        let validations = reader.validations(&spec.validations, &plain, &full);
        for (at, annotation) in spec.audit_annotations.iter().enumerate() {
            let path = format!("spec.auditAnnotations[{at}].valueExpression");
            let _ = reader.compile(&path, &annotation.value_expression, &full, ResultType::StringOrNull);
        }
        let mutations = reader.mutations(&spec.mutations, &full);
        let compiled = Self {
            name: policy.metadata.name.to_string(),
            fails_closed: &*spec.failure_policy != "Ignore",
            param_kind: spec.param_kind.clone(),
            match_constraints: spec.match_constraints.clone(),
            conditions,
            variables,
            validations,
            mutations,
        };
        (compiled, reader.causes)
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

    fn validations(
        &mut self,
        rules: &[ValidationRule],
        plain: &Environment,
        full: &Environment,
    ) -> Vec<Validation> {
        let mut validations = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let path = |field: &str| format!("spec.validations[{at}].{field}");
            let message = &rule.message_expression;
            if rule.message.trim().contains('\n') {
                let why = "message must not contain line breaks";
                self.wrong(&path("message"), &rule.message, why);
            }
            validations.push(Validation {
                text: rule.expression.trim().to_owned(),
                program: self.compile(&path("expression"), &rule.expression, full, ResultType::Bool),
                message: rule.message.trim().to_owned(),
                message_program: (!message.trim().is_empty())
                    .then(|| self.compile(&path("messageExpression"), message, plain, ResultType::String)),
                reason: rule.reason.to_string(),
            });
        }
        validations
    }

    fn mutations(&mut self, rules: &[MutationRule], environment: &Environment) -> Vec<Mutation> {
        let mut mutations = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let path = |field: &str| format!("spec.mutations[{at}].{field}.expression");
            mutations.push(if &*rule.patch_type == "JSONPatch" {
                let (path, source) = (path("jsonPatch"), &rule.json_patch.expression);
                Mutation::Patch(self.compile(&path, source, environment, ResultType::Operations))
            } else {
                let (path, source) = (path("applyConfiguration"), &rule.apply_configuration.expression);
                Mutation::Configuration(self.compile(&path, source, environment, ResultType::Object))
            });
        }
        mutations
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

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c == '_' || c.is_ascii_alphabetic();
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}
