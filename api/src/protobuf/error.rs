//! Errors of protobuf bodies.

use crate::path::PathBuf;

/// The reasons to reject a body.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The body is not Kubernetes protobuf.
    #[error(
        "the body is not Kubernetes protobuf, which begins with `k8s` and a zero byte; send JSON, or set the right content type"
    )]
    Magic,
    /// The envelope has a contentEncoding.
    #[error("the object in the body has the contentEncoding `{encoding}`; send it without a contentEncoding")]
    Encoding {
        /// The contentEncoding.
        encoding: String,
    },
    /// The content is neither protobuf nor JSON.
    #[error("the object in the body is `{content_type}`; send {} or application/json", super::CONTENT_TYPE)]
    ContentType {
        /// The contentType.
        content_type: String,
    },
    /// The kind has no protobuf message: a custom resource, or an unknown or missing kind.
    #[error("`{api_version}` has no kind `{kind}` that can be sent as protobuf; send it as application/json")]
    UnknownKind {
        /// The API version in the envelope.
        api_version: String,
        /// The kind in the envelope.
        kind: String,
    },
    /// The body ends too early.
    #[error("{}the message ends too early; send all of it", at(path))]
    Truncated {
        /// The path in the object.
        path: PathBuf,
    },
    /// A field number or integer is invalid.
    #[error("{}the bytes are not valid protobuf; encode the object again", at(path))]
    Malformed {
        /// The path in the object.
        path: PathBuf,
    },
    /// A field has the wrong wire type.
    #[error("{}expected {expected}, found {found}; use the types of Kubernetes' own .proto files", at(path))]
    WireType {
        /// The path in the object.
        path: PathBuf,
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// A string is not UTF-8.
    #[error("{}the string is not UTF-8; encode it, or use a field of type bytes", at(path))]
    Text {
        /// The path in the object.
        path: PathBuf,
    },
    /// A number is NaN or infinite, which JSON cannot represent.
    #[error("{}the number is not finite; omit it", at(path))]
    Number {
        /// The path in the object.
        path: PathBuf,
    },
    /// A time is outside of the years 0 to 9999.
    #[error("{}the time is out of range; give one of the years 0 to 9999", at(path))]
    Time {
        /// The path in the object.
        path: PathBuf,
    },
    /// A value that must be JSON is invalid.
    #[error("{}the value is not valid JSON ({source}); correct it", at(path))]
    Json {
        /// The path in the object.
        path: PathBuf,
        /// The error of the JSON parser.
        source: serde_json::Error,
    },
    /// The messages nest too deep.
    #[error("{}the object nests deeper than {} levels; flatten it", at(path), super::decoder::MAX_DEPTH)]
    TooDeep {
        /// The path in the object.
        path: PathBuf,
    },
    /// The body has too many values.
    #[error("{}the object holds more than {} values; split it", at(path), super::decoder::MAX_VALUES)]
    TooMany {
        /// The path in the object.
        path: PathBuf,
    },
}

/// The path as a prefix of the message; empty for the object itself.
fn at(path: &PathBuf) -> String {
    if path.steps().is_empty() { String::new() } else { format!("{path}: ") }
}
