//! An OpenAPI operation, in either OpenAPI version.

use serde_json::{Map, Value, json};

use super::parameters::Parameter;
use super::schema::Dialect;

const JSON: &str = "application/json";
/// Media types of an object in a request body.
const OBJECT_FORMS: [&str; 3] = [JSON, "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The body of a request.
#[derive(Debug)]
pub(super) enum Body {
    /// An object, which may be optional.
    Object { schema: Value, optional: bool },
    /// A patch: its media types and their schemas.
    Patch(Vec<(&'static str, Value)>),
}

/// An operation on a path.
#[derive(Debug)]
pub(super) struct Operation {
    /// Lower-case HTTP method.
    pub method: &'static str,
    /// Operation ID.
    pub id: String,
    /// Description of the operation.
    pub description: String,
    /// Group and version, joined by an underscore.
    pub tag: String,
    /// The extension `x-kubernetes-action`.
    pub action: &'static str,
    /// The extension `x-kubernetes-group-version-kind`.
    pub kind: Value,
    /// Query parameters.
    pub parameters: &'static [Parameter],
    /// Request body, if there is one.
    pub body: Option<Body>,
    /// Status codes of a success.
    pub codes: &'static [u16],
    /// Schema of a success response, or `None` for plain text.
    pub answer: Option<Value>,
    /// Schema of an error response.
    pub failure: Value,
}

impl Operation {
    /// The JSON of the operation.
    pub(super) fn document(&self, dialect: Dialect) -> Value {
        let mut document =
            json!({"description": self.description, "operationId": self.id, "tags": [self.tag]});
        let mut parameters: Vec<Value> =
            self.parameters.iter().map(|parameter| parameter.document(dialect)).collect();
        match (dialect, &self.body) {
            (_, None) => {}
            (Dialect::V2, Some(body)) => {
                document["consumes"] = body.forms().into();
                parameters.insert(0, body.parameter());
            }
            (Dialect::V3, Some(body)) => document["requestBody"] = body.document(),
        }
        if dialect == Dialect::V2 {
            document["produces"] = json!([self.form()]);
        }
        if !parameters.is_empty() {
            document["parameters"] = parameters.into();
        }
        document["responses"] = self.responses(dialect);
        document["x-kubernetes-action"] = self.action.into();
        document["x-kubernetes-group-version-kind"] = self.kind.clone();
        document
    }

    fn form(&self) -> &'static str {
        if self.answer.is_some() { JSON } else { "text/plain" }
    }

    fn responses(&self, dialect: Dialect) -> Value {
        let text = json!({"type": "string"});
        let response = |description: &str, form: &str, schema: &Value| match dialect {
            Dialect::V2 => json!({"description": description, "schema": schema}),
            Dialect::V3 => {
                let content: Map<String, Value> =
                    [(form.to_owned(), json!({"schema": schema}))].into_iter().collect();
                json!({"description": description, "content": content})
            }
        };
        let success = |code: &u16| {
            let description = match code {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            (code.to_string(), response(description, self.form(), self.answer.as_ref().unwrap_or(&text)))
        };
        let mut responses: Map<String, Value> = self.codes.iter().map(success).collect();
        responses.insert("401".to_owned(), response("Unauthorized", JSON, &self.failure));
        responses.insert("default".to_owned(), response("An error and its cause", JSON, &self.failure));
        responses.into()
    }
}

impl Body {
    fn forms(&self) -> Vec<&'static str> {
        match self {
            Self::Object { .. } => OBJECT_FORMS.to_vec(),
            Self::Patch(forms) => forms.iter().map(|(form, _)| *form).collect(),
        }
    }

    /// The JSON of a body in OpenAPI 3.0.
    fn document(&self) -> Value {
        let content: Map<String, Value> = match self {
            Self::Object { schema, .. } => {
                OBJECT_FORMS.into_iter().map(|form| (form.to_owned(), json!({"schema": schema}))).collect()
            }
            Self::Patch(forms) => {
                forms.iter().map(|(form, schema)| ((*form).to_owned(), json!({"schema": schema}))).collect()
            }
        };
        match self {
            Self::Object { optional: true, .. } => json!({"content": content}),
            Self::Object { .. } | Self::Patch(_) => json!({"content": content, "required": true}),
        }
    }

    /// The JSON of a body in Swagger 2.0, where all media types have the same schema.
    fn parameter(&self) -> Value {
        let (schema, required) = match self {
            Self::Object { schema, optional } => (schema.clone(), !optional),
            Self::Patch(_) => (json!({"type": "object"}), true),
        };
        let mut parameter = json!({"in": "body", "name": "body", "schema": schema});
        if required {
            parameter["required"] = true.into();
        }
        parameter
    }
}

/// Converts a group to CamelCase for operation IDs: `apps` to `Apps`, `rbac.authorization.k8s.io` to
/// `RbacAuthorization`.
pub(super) fn camel(text: &str) -> String {
    let text = text.strip_suffix(".k8s.io").unwrap_or(text);
    let mut capital = true;
    let mut camel = String::with_capacity(text.len());
    for char in text.chars() {
        if !char.is_ascii_alphanumeric() {
            capital = true;
        } else if capital {
            camel.push(char.to_ascii_uppercase());
            capital = false;
        } else {
            camel.push(char);
        }
    }
    camel
}
