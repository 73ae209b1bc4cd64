//! Errors of requests to the API server, each with its cause and remedy.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use apiserver::status::RejectionCause;
use http::StatusCode;
use jiff::Timestamp;
use rustls::CertificateError;

use super::access::Credentials;
use super::master_verifier::NAME;

/// An error of a request to the API server, or of the files that it needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// No server answers.
    #[error("{server} does not answer: {why}; the kubelet retries")]
    Unreachable {
        /// URL of the server.
        server: String,
        /// The error of the operating system.
        why: String,
    },
    /// The CA does not match the pin of the join string.
    #[error(
        "{server} has a different cluster CA than the join string, nothing was sent to it: its CA has the hash \
         sha256:{found}, the join string pins sha256:{wanted}. Another cluster or an attacker answers there, or \
         the CA was created again: get a new join string (`master join-string`)"
    )]
    PinMismatch {
        /// URL of the server.
        server: String,
        /// The hash of the server's CA.
        found: String,
        /// The pinned hash.
        wanted: String,
    },
    /// No trusted CA has signed the server's certificate.
    #[error(
        "{server} presents a certificate of a different cluster CA, nothing was sent to it: another cluster or an \
         attacker answers there, or the cluster was installed again. In that case, join it with its new join \
         string (`master join-string`), after {forget}"
    )]
    OtherCluster {
        /// URL of the server.
        server: String,
        /// The files to remove before joining another cluster.
        forget: String,
    },
    /// By the clock of this machine, the server's certificate is not valid.
    #[error("the certificate of {server} {why} by the clock of this machine, which says {own}{}: set the clock", server_clock(*.theirs))]
    ClockSkew {
        /// URL of the server.
        server: String,
        /// Whether it has expired or is not valid yet.
        why: &'static str,
        /// The time of this machine.
        own: Timestamp,
        /// The time of the server, if it is known.
        theirs: Option<Timestamp>,
    },
    /// The server's certificate is not for the name in its URL.
    #[error(
        "the certificate of {server} is not valid for that name: use a name or address in the certificate, or start the \
         master with --tls-san"
    )]
    NameMismatch {
        /// URL of the server.
        server: String,
    },
    /// The server belongs to the cluster but is not a master.
    #[error(
        "{server} has a certificate of the cluster that is not a master's: it belongs to a node, or lacks the name {NAME}"
    )]
    NotMaster {
        /// URL of the server.
        server: String,
    },
    /// The server answered with an error status.
    #[error("{server} answered {code}: {message}{remedy}")]
    Rejected {
        /// URL of the server.
        server: String,
        /// The HTTP status code.
        code: u16,
        /// The message of the server.
        message: String,
        /// The machine-readable cause, if the kubelet knows it.
        cause: Option<RejectionCause>,
        /// The remedy, with its leading punctuation; may be empty.
        remedy: String,
        /// The `Retry-After` of the response.
        retry_after: Option<Duration>,
    },
    /// The bootstrap kubeconfig does not exist yet.
    #[error("{} does not exist: see --bootstrap-kubeconfig", path.display())]
    KubeconfigMissing {
        /// Path of the file.
        path: PathBuf,
    },
    /// The response exceeds the size limit.
    #[error("the response of {server} has more than {bytes} bytes; the kubelet retries")]
    TooLarge {
        /// URL of the server.
        server: String,
        /// The limit in bytes.
        bytes: usize,
    },
    /// A file, a response or a setting is invalid.
    #[error("{what} {why}")]
    Invalid {
        /// The subject of the message: the file, response or setting.
        what: String,
        /// The reason. The message shows it after `what`.
        why: String,
    },
}

fn server_clock(theirs: Option<Timestamp>) -> String {
    theirs.map_or_else(String::new, |theirs| format!(", while the server's says {theirs}"))
}

impl ApiError {
    /// Creates an [`ApiError::Invalid`].
    pub fn invalid(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), why: why.into() }
    }

    /// The error for a file that cannot be read or written.
    pub fn from_file(path: &std::path::Path, error: &io::Error) -> Self {
        Self::invalid(path.display().to_string(), format!("cannot be used: {error}"))
    }

    /// Explains an error of a request that was sent with these credentials.
    pub fn from_client(error: &client::Error, credentials: &Credentials, now: Timestamp) -> Self {
        use client::Error::{Lost, Refused, TooLarge, Unreadable};
        match error {
            Refused { server, code, message, causes, retry_after, .. } => {
                let reason = StatusCode::from_u16(*code).ok().and_then(|code| code.canonical_reason());
                let message =
                    if message.is_empty() { reason.unwrap_or("no reason is given") } else { message };
                let cause = RejectionCause::find(causes);
                Self::Rejected {
                    server: server.to_string(),
                    code: *code,
                    remedy: credentials.remedy(*code, cause),
                    cause,
                    message: message.to_owned(),
                    retry_after: *retry_after,
                }
            }
            Lost { server, .. } => match error.certificate_error() {
                Some(why) => Self::from_certificate(server, why, now),
                None => Self::Unreachable { server: server.to_string(), why: error.root_cause() },
            },
            TooLarge { server, bytes } => Self::TooLarge { server: server.to_string(), bytes: *bytes },
            Unreadable { server, source } => {
                Self::invalid(format!("the response of {server}"), format!("is not valid JSON: {source}"))
            }
            other => Self::invalid("the request", format!("failed: {other}")),
        }
    }

    fn from_certificate(server: &str, error: &CertificateError, now: Timestamp) -> Self {
        let server = server.to_owned();
        let clock =
            |why| Self::ClockSkew { server: server.clone(), why, own: whole_seconds(now), theirs: None };
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::OtherCluster { server, forget: "the kubeconfig was removed".to_owned() }
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => clock("has expired"),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                clock("is not valid yet")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::NameMismatch { server }
            }
            CertificateError::ApplicationVerificationFailure => Self::NotMaster { server },
            other => Self::Unreachable { server, why: format!("invalid peer certificate: {other}") },
        }
    }

    /// Adds the time of the server's clock.
    pub fn with_clock(self, of_server: Option<Timestamp>) -> Self {
        match self {
            Self::ClockSkew { server, why, own, .. } => {
                Self::ClockSkew { server, why, own, theirs: of_server }
            }
            other => other,
        }
    }

    /// Adds the files to remove before joining another cluster.
    pub fn with_files(self, files: &str) -> Self {
        match self {
            Self::OtherCluster { server, .. } => {
                Self::OtherCluster { server, forget: format!("{files} were removed") }
            }
            other => other,
        }
    }

    /// Replaces the remedy of a rejection.
    pub fn with_remedy(mut self, text: String) -> Self {
        if let Self::Rejected { remedy, .. } = &mut self {
            *remedy = text;
        }
        self
    }

    /// Whether a rejection has a remedy.
    pub fn has_remedy(&self) -> bool {
        matches!(self, Self::Rejected { remedy, .. } if !remedy.is_empty())
    }

    /// Sets the time before the next retry of a rejected request.
    pub fn with_retry_after(mut self, pause: Duration) -> Self {
        if let Self::Rejected { retry_after, .. } = &mut self {
            *retry_after = Some(pause);
        }
        self
    }

    /// Whether the cluster no longer accepts this node's key.
    pub fn is_unregistered(&self) -> bool {
        matches!(self, Self::Rejected { cause: Some(RejectionCause::NodeKeyNotRegistered), .. })
    }

    /// Whether the error persists until an operator acts: the cluster rejects the node, or it is another cluster.
    pub fn needs_operator(&self) -> bool {
        match self {
            Self::Rejected { code, .. } => matches!(code, 401 | 403),
            Self::PinMismatch { .. } | Self::OtherCluster { .. } => true,
            Self::Unreachable { .. }
            | Self::ClockSkew { .. }
            | Self::NameMismatch { .. }
            | Self::NotMaster { .. }
            | Self::KubeconfigMissing { .. }
            | Self::TooLarge { .. }
            | Self::Invalid { .. } => false,
        }
    }

    /// Whether the server answered with this HTTP status code.
    pub fn has_code(&self, wanted: u16) -> bool {
        matches!(self, Self::Rejected { code, .. } if *code == wanted)
    }

    /// The `Retry-After` of a rejection.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Rejected { retry_after, .. } = self { *retry_after } else { None }
    }
}

/// Truncates a time to whole seconds, for messages.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
