//! What keeps a node from its certificate, each with its cause and its cure.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use apiserver::auth::nodes::UNREGISTERED;
use jiff::Timestamp;
use rustls::CertificateError;

use super::masters::NAME;

/// What is in the way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Nobody answers.
    #[error("{server} does not answer: {why}; the kubelet goes on trying")]
    Unreachable {
        /// Who was asked, or all that were.
        server: String,
        /// What the system said.
        why: String,
    },
    /// Another authority than that of the join string.
    #[error(
        "{server} has a different cluster CA than the join string, nothing was sent to it: its authority has the hash sha256:{found}, \
         the line says sha256:{wanted}. Another cluster or a middleman answers there, or the authority was made anew: get the \
         line again (`master join-string`)"
    )]
    Pin {
        /// Who answered.
        server: String,
        /// The hash of what it told.
        found: String,
        /// The hash that was wanted.
        wanted: String,
    },
    /// The server shows nothing that the authority vouches for.
    #[error(
        "{server} shows a certificate of a different cluster CA, nothing was sent to it: another cluster or a middleman answers \
         there, or the cluster was installed anew. If it was, join it with its new line (`master join-string`), after {forget}"
    )]
    OtherCluster {
        /// Who answered.
        server: String,
        /// What has to go first.
        forget: String,
    },
    /// Certificates do not hold at this time of this machine.
    #[error("the certificate of {server} {why} by the clock of this machine, which says {own}{}: set the clock", told(*.theirs))]
    Clock {
        /// Who answered.
        server: String,
        /// In which direction.
        why: &'static str,
        /// What the clock here says.
        own: Timestamp,
        /// What the server says of its own, where it does.
        theirs: Option<Timestamp>,
    },
    /// The server is not called that.
    #[error(
        "the certificate of {server} is not for that name: use an address that it is for, or start the master with --tls-san"
    )]
    Name {
        /// Who answered.
        server: String,
    },
    /// The server is of the cluster, and no master of it.
    #[error(
        "{server} shows a certificate of the cluster that is none of a master: it is that of a node, or is not for the name {NAME}"
    )]
    NoMaster {
        /// Who answered.
        server: String,
    },
    /// The server says no.
    #[error("{server} answered {code}: {message}{remedy}")]
    Refused {
        /// Who answered.
        server: String,
        /// The HTTP code.
        code: u16,
        /// What it said.
        message: String,
        /// What to do, with what goes before.
        remedy: String,
        /// Not before that.
        retry_after: Option<Duration>,
    },
    /// The bootstrap kubeconfig is still to come.
    #[error("{} is not there: see --bootstrap-kubeconfig", path.display())]
    Awaited {
        /// Where.
        path: PathBuf,
    },
    /// Something does not read or does not fit.
    #[error("{what} {why}")]
    Damaged {
        /// What.
        what: String,
        /// The end of a sentence that begins with it.
        why: String,
    },
}

fn told(theirs: Option<Timestamp>) -> String {
    theirs.map_or_else(String::new, |theirs| format!(", while the server's says {theirs}"))
}

impl Trouble {
    /// Something that does not read or does not fit.
    pub fn damaged(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Damaged { what: what.into(), why: why.into() }
    }

    /// What a file said when it was not to be used.
    pub fn file(path: &std::path::Path, error: &io::Error) -> Self {
        Self::damaged(path.display().to_string(), format!("cannot be used: {error}"))
    }

    /// What a failed exchange comes of.
    pub fn of(server: &str, error: reqwest::Error, now: Timestamp) -> Self {
        let server = server.to_owned();
        let error = error.without_url();
        let clock = |why| Self::Clock { server: server.clone(), why, own: seconds(now), theirs: None };
        match tls(&error) {
            Some(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
                Self::OtherCluster { server, forget: "the kubeconfig was removed".to_owned() }
            }
            Some(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => clock("has expired"),
            Some(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
                clock("does not hold yet")
            }
            Some(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
                Self::Name { server }
            }
            Some(CertificateError::ApplicationVerificationFailure) => Self::NoMaster { server },
            _ => Self::Unreachable { server, why: causes(&error) },
        }
    }

    /// The same, with what the server says of its clock.
    pub fn with_clock(self, of_server: Option<Timestamp>) -> Self {
        match self {
            Self::Clock { server, why, own, .. } => Self::Clock { server, why, own, theirs: of_server },
            other => other,
        }
    }

    /// The same, with what has to be removed before another cluster is joined.
    pub fn with_files(self, files: &str) -> Self {
        match self {
            Self::OtherCluster { server, .. } => {
                Self::OtherCluster { server, forget: format!("{files} were removed") }
            }
            other => other,
        }
    }

    /// The same, with another word on what to do about a refusal.
    pub fn with_remedy(mut self, text: String) -> Self {
        if let Self::Refused { remedy, .. } = &mut self {
            *remedy = text;
        }
        self
    }

    /// Whether it says what to do about a refusal.
    pub fn has_remedy(&self) -> bool {
        matches!(self, Self::Refused { remedy, .. } if !remedy.is_empty())
    }

    /// The same, and what was refused is not tried again before that.
    pub fn not_before(mut self, pause: Duration) -> Self {
        if let Self::Refused { retry_after, .. } = &mut self {
            *retry_after = Some(pause);
        }
        self
    }

    /// Whether the cluster does not know this node by its key any more.
    pub fn is_unregistered(&self) -> bool {
        matches!(self, Self::Refused { code: 403, message, .. } if message.contains(UNREGISTERED))
    }

    /// Whether the server has not come as far as the version that was asked for.
    pub fn is_of_version(&self) -> bool {
        matches!(self, Self::Refused { code: 504, message, .. } if message.contains("Too large resource version"))
    }

    /// Whether it goes on until a person does something: this node is not let in, or it is another cluster.
    pub fn shuts_out(&self) -> bool {
        match self {
            Self::Refused { code, .. } => matches!(code, 401 | 403),
            Self::Pin { .. } | Self::OtherCluster { .. } => true,
            Self::Unreachable { .. }
            | Self::Clock { .. }
            | Self::Name { .. }
            | Self::NoMaster { .. }
            | Self::Awaited { .. }
            | Self::Damaged { .. } => false,
        }
    }

    /// Whether the server answered so.
    pub fn is_code(&self, wanted: u16) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == wanted)
    }

    /// Not before that.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Refused { retry_after, .. } = self { *retry_after } else { None }
    }
}

/// Whole seconds are what people compare clocks by.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// What is wrong with a certificate, where that is among the causes.
fn tls<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a CertificateError> {
    if let Some(rustls::Error::InvalidCertificate(fault)) = error.downcast_ref::<rustls::Error>() {
        return Some(fault);
    }
    // What an error of the system wraps is not among its sources.
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.and_then(|wrapped| tls(wrapped)).or_else(|| tls(error.source()?))
}

/// The innermost cause, which is what the system said.
fn causes(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}
