//! The object of a write, which knows whether anybody has had it to change.

use std::ops::{Deref, DerefMut};

use api::strategy::Json;

/// The object as it would be written: whoever completes it changes it as the map it is.
#[derive(Debug, Default)]
pub struct Subject {
    object: Json,
    is_touched: bool,
}

impl Subject {
    /// True once somebody has had it to change, whether or not it is another now.
    pub fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// The object itself.
    pub fn into_object(self) -> Json {
        self.object
    }
}

impl From<Json> for Subject {
    fn from(object: Json) -> Self {
        Self { object, is_touched: false }
    }
}

impl Deref for Subject {
    type Target = Json;

    fn deref(&self) -> &Json {
        &self.object
    }
}

impl DerefMut for Subject {
    fn deref_mut(&mut self) -> &mut Json {
        self.is_touched = true;
        &mut self.object
    }
}
