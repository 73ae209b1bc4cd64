//! What every write has to pass before it is made: first those that complete it, then those that refuse it.
//!
//! An ordered list of them is given to [`crate::Api::writable`]. All of them mutate, in order; then the kind's own
//! strategy decides; then all of them validate what would be written, in the same order.

mod depth;
mod namespaces;
mod subject;

use std::sync::{Mutex, PoisonError};

use api::strategy::Json;
use async_trait::async_trait;

pub use self::depth::Depth;
pub(crate) use self::namespaces::ending;
pub use self::namespaces::{Namespaces, StillThere};
pub use self::subject::Subject;
use crate::identity::Identity;
use crate::resource::Resource;
use crate::status::Status;

/// What is attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Making an object.
    Create,
    /// Changing one.
    Update,
    /// Removing one.
    Delete,
    /// Reaching through one: exec, attach, port-forward, proxy.
    Connect,
}

impl Operation {
    /// As webhooks and policies spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write that somebody attempts.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// What is attempted.
    pub operation: Operation,
    /// The resource.
    pub resource: &'a Resource,
    /// The part of the object, where one is written.
    pub subresource: Option<&'a str>,
    /// The namespace, where the resource has them.
    pub namespace: Option<&'a str>,
    /// The object's name; empty when all of a scope are removed.
    pub name: &'a str,
    /// The object as it would be written, or what is sent to the part; empty for a removal.
    pub object: Subject,
    /// The object that is there.
    pub old: Option<&'a Json>,
    /// Who owns what of the object and of the one that is there (`metadata.managedFields` as JSON), which stands beside them;
    /// empty when it stands in them, or nobody owns anything.
    pub records: (&'a [u8], &'a [u8]),
    /// Who attempts it.
    pub user: &'a Identity,
    /// Nothing is written in the end.
    pub dry_run: bool,
    /// What the client is told in `Warning` headers.
    pub warnings: Warnings,
}

/// What the client is told beside the answer, by those that complete a write and those that only look at it.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Tells one thing more.
    pub fn push(&self, warning: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// Everything that was told.
    pub fn into_vec(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt<'_> {
    /// True for that resource (`pods`, `deployments.apps`), whatever the version.
    pub fn is_of(&self, qualified: &str) -> bool {
        self.resource.stored() == qualified
    }
}

/// Something that every write has to pass. The default passes everything.
#[async_trait]
pub trait Admission: Send + Sync {
    /// Completes the object, or refuses what makes no sense to complete.
    ///
    /// # Errors
    /// Why the write is refused.
    async fn mutate(&self, _attempt: &mut Attempt<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Refuses what may not be written.
    ///
    /// # Errors
    /// Why the write is refused.
    async fn validate(&self, _attempt: &Attempt<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Whether an object that is there only keeps the place of the one of its name that this user makes: then that one is
    /// written over it, and made nonetheless.
    fn keeps_place(&self, _resource: &Resource, _there: &Json, _user: &Identity) -> bool {
        false
    }
}
