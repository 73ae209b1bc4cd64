//! The object of an admission request, with a flag that records whether a plugin may have changed it.

use std::ops::{Deref, DerefMut};

use api::strategy::Json;

/// The object to be written. Plugins change it as a JSON map.
#[derive(Debug, Default)]
pub struct AdmissionObject {
    object: Json,
    is_touched: bool,
}

impl AdmissionObject {
    /// True after a plugin has taken mutable access, even if it changed nothing.
    pub fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// Returns the object.
    pub fn into_object(self) -> Json {
        self.object
    }
}

impl From<Json> for AdmissionObject {
    fn from(object: Json) -> Self {
        Self { object, is_touched: false }
    }
}

impl Deref for AdmissionObject {
    type Target = Json;

    fn deref(&self) -> &Json {
        &self.object
    }
}

impl DerefMut for AdmissionObject {
    fn deref_mut(&mut self) -> &mut Json {
        self.is_touched = true;
        &mut self.object
    }
}
