//! The causes of an invalid object, as `metav1.StatusCause` in a `Status`.

/// The reason of a cause; the `metav1.CauseType` values for fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A required value is missing.
    Required,
    /// The value is a duplicate.
    Duplicate,
    /// The value is invalid.
    Invalid,
    /// The value is not one of the supported values.
    NotSupported,
    /// The value must not be set or changed.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// There are too many elements.
    TooMany,
    /// A referenced value does not exist.
    NotFound,
    /// The value has the wrong type.
    TypeInvalid,
}

impl Reason {
    /// The string in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// A reason why an object is invalid, for a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The field path, such as `spec.template.spec.containers[0].name`.
    pub field: String,
    /// The type of the error.
    pub reason: Reason,
    /// The message, such as `Invalid value: "x": must be ...`.
    pub message: String,
}

impl Cause {
    /// The error for a missing required field. `why` may be empty.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message =
            if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self { field: field.into(), reason: Reason::Required, message }
    }

    /// The error for an invalid value.
    pub fn invalid(field: impl Into<String>, value: impl std::fmt::Display, why: &str) -> Self {
        Self {
            field: field.into(),
            reason: Reason::Invalid,
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    /// The error for a value that must not be set or changed.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { field: field.into(), reason: Reason::Forbidden, message: format!("Forbidden: {why}") }
    }

    /// The error for a value that is not one of the supported values.
    pub fn not_supported(field: impl Into<String>, value: &str, known: &[&str]) -> Self {
        let known = known.iter().map(|known| format!("\"{known}\"")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: \"{value}\": supported values: {known}");
        Self { field: field.into(), reason: Reason::NotSupported, message }
    }

    /// The error for a duplicate.
    pub fn duplicate(field: impl Into<String>, value: impl std::fmt::Display) -> Self {
        Self { field: field.into(), reason: Reason::Duplicate, message: format!("Duplicate value: {value}") }
    }
}
