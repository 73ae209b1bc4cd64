//! One thing that is wrong with an object, as a `Status` tells it.

/// Why a value is refused: the reasons of `metav1.StatusCause` for fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is missing.
    Required,
    /// It is there twice.
    Duplicate,
    /// It is not what it has to be.
    Invalid,
    /// It is none of the few that are known.
    NotSupported,
    /// It may not be set or changed.
    Forbidden,
    /// It is too long.
    TooLong,
    /// There are too many.
    TooMany,
    /// It names something that is not there.
    NotFound,
    /// It is of another type.
    TypeInvalid,
}

impl Reason {
    /// The word clients read.
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

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Where: `spec.template.spec.containers[0].name`.
    pub field: String,
    /// Why.
    pub reason: Reason,
    /// What is wrong, as people read it: `Invalid value: "x": must be ...`.
    pub message: String,
}

impl Cause {
    /// A field that is missing; `why` says what for and may be empty.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message =
            if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self { field: field.into(), reason: Reason::Required, message }
    }

    /// A value that is not what it has to be.
    pub fn invalid(field: impl Into<String>, value: impl std::fmt::Display, why: &str) -> Self {
        Self {
            field: field.into(),
            reason: Reason::Invalid,
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    /// A value that may not be set or changed.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { field: field.into(), reason: Reason::Forbidden, message: format!("Forbidden: {why}") }
    }

    /// A value that is none of the few that are known.
    pub fn not_supported(field: impl Into<String>, value: &str, known: &[&str]) -> Self {
        let known = known.iter().map(|known| format!("\"{known}\"")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: \"{value}\": supported values: {known}");
        Self { field: field.into(), reason: Reason::NotSupported, message }
    }

    /// A value that is there already.
    pub fn duplicate(field: impl Into<String>, value: impl std::fmt::Display) -> Self {
        Self { field: field.into(), reason: Reason::Duplicate, message: format!("Duplicate value: {value}") }
    }
}
