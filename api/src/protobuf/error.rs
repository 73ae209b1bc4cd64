//! What can be wrong with a body in protobuf: what, where, and what to do.

use crate::path::PathBuf;

/// Why a body is not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is something else.
    #[error(
        "the body is no Kubernetes protobuf, which begins with `k8s` and a zero byte; send JSON, or its own content type"
    )]
    Magic,
    /// It is compressed within.
    #[error("the object in the body is encoded as `{encoding}`; send it without a contentEncoding")]
    Encoding {
        /// What the envelope says.
        encoding: String,
    },
    /// The envelope holds neither protobuf nor JSON.
    #[error("the object in the body is `{content_type}`; send {} or application/json", super::CONTENT_TYPE)]
    ContentType {
        /// What the envelope says.
        content_type: String,
    },
    /// The kind is not in the table: one of a CustomResourceDefinition, or misspelt, or not said.
    #[error("`{api_version}` has no `{kind}` that can be sent in protobuf; send it as application/json")]
    UnknownKind {
        /// The API version of the envelope.
        api_version: String,
        /// The kind of the envelope.
        kind: String,
    },
    /// The body ends in the middle of something.
    #[error("{}the message ends too early; send all of it", at(path))]
    Truncated {
        /// Where in the object.
        path: PathBuf,
    },
    /// What should be a field number or a whole number is none.
    #[error("{}the bytes are no protobuf; encode the object anew", at(path))]
    Malformed {
        /// Where in the object.
        path: PathBuf,
    },
    /// The field is written as a value of another type.
    #[error("{}expected {expected}, found {found}; use the types of Kubernetes' own .proto files", at(path))]
    WireType {
        /// Where in the object.
        path: PathBuf,
        /// What the field is.
        expected: &'static str,
        /// What stands there.
        found: &'static str,
    },
    /// Text that is no text.
    #[error("{}the text is not UTF-8; encode it, or put it in a field for bytes", at(path))]
    Text {
        /// Where in the object.
        path: PathBuf,
    },
    /// A number that JSON has no way to write.
    #[error("{}the number is not finite; leave it out", at(path))]
    Number {
        /// Where in the object.
        path: PathBuf,
    },
    /// A moment outside of the years 0 to 9999.
    #[error("{}the time is out of range; give one of the years 0 to 9999", at(path))]
    Time {
        /// Where in the object.
        path: PathBuf,
    },
    /// A value that is carried as JSON is none.
    #[error("{}the value should be JSON and is not ({source}); correct it", at(path))]
    Json {
        /// Where in the object.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Messages in messages in messages.
    #[error("{}the object is nested more than {} deep; make it flatter", at(path), super::walk::MAX_DEPTH)]
    TooDeep {
        /// Where in the object.
        path: PathBuf,
    },
    /// More values than any real object has.
    #[error("{}the object holds more than {} values; split it", at(path), super::walk::MAX_VALUES)]
    TooMany {
        /// Where in the object.
        path: PathBuf,
    },
}

/// The path with what parts it from the rest; nothing for the object itself.
fn at(path: &PathBuf) -> String {
    if path.steps().is_empty() { String::new() } else { format!("{path}: ") }
}
