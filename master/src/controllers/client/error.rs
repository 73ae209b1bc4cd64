//! Why a request came to nothing, and what its sender may do.

use tower::BoxError;

/// A request that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server said no.
    #[error("{code} {reason}: {message}")]
    Refused {
        /// HTTP code.
        code: u16,
        /// The word clients branch on.
        reason: String,
        /// What the server said.
        message: String,
        /// It is about an object, not about the path.
        names_object: bool,
    },
    /// No answer came; the write may have been made all the same.
    #[error("the API server does not answer")]
    Lost(#[source] BoxError),
    /// Somebody outside the cluster who decides on requests did not answer.
    #[error("the webhook at {server} (--csr-approval-webhook) does not answer")]
    Webhook {
        /// Where it was asked.
        server: String,
        /// What came in its place.
        #[source]
        source: BoxError,
    },
    /// The answer is no JSON.
    #[error("the API server's answer cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// The server serves no such kind, or not yet.
    #[error("the API server does not serve {kind} of {api_version}")]
    NoKind {
        /// Group and version.
        api_version: String,
        /// Kind.
        kind: String,
    },
}

impl Error {
    /// The object is not there, for certain: its kind is served.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { reason, names_object: true, .. } if reason == "NotFound")
    }

    /// Nothing of that kind is served: whether there are objects, nobody knows.
    pub fn is_no_such_path(&self) -> bool {
        matches!(self, Self::Refused { reason, names_object: false, .. } if reason == "NotFound")
    }

    /// Somebody else came before, or it is another object of that name.
    pub fn is_conflict(&self) -> bool {
        self.is_reason("Conflict")
    }

    /// There is one of that name.
    pub fn exists(&self) -> bool {
        self.is_reason("AlreadyExists")
    }

    /// The server has too much to do, or does not answer: whatever else is asked comes to nothing, too.
    pub fn is_of_the_server(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Refused { code: 429 | 503 | 504, .. })
    }

    /// What was asked for is forgotten.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Refused { code: 410, .. })
    }

    /// This user may not, or, of a write, the namespace is on its way out.
    pub fn is_forbidden(&self) -> bool {
        self.is_reason("Forbidden")
    }

    /// What it says, and what it comes from.
    pub fn whole(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(source) = next {
            text = format!("{text}: {source}");
            next = source.source();
        }
        text
    }

    fn is_reason(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason == wanted)
    }
}
