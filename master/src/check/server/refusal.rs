//! The reasons why a connection to the API server fails, and the remedy for each. Pure.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use rustls::{AlertDescription, CertificateError};

use super::super::finding::Finding;

/// The reason why the connection failed.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The kubeconfig has unusable contents.
    Unusable(String),
    /// The host name does not resolve.
    NoSuchHost(String),
    /// The connection was refused.
    Closed,
    /// There is no route, or another network error occurred.
    Unreachable(String),
    /// The server did not respond within this time.
    Silent(Duration),
    /// The server certificate is not trusted.
    Certificate(CertificateError),
    /// The server sent a TLS alert.
    Alert(AlertDescription),
    /// The server does not speak TLS.
    NoTls(String),
    /// The connection was closed.
    HungUp(String),
}

/// How the server was reached, and what is known about it.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// The kubeconfig file.
    pub file: String,
    /// The URL of the server, `https://HOST:PORT`.
    pub server: String,
    /// The data directory, if it was read.
    pub data_dir: Option<String>,
    /// Whether a master is running on the data directory.
    pub runs: bool,
    /// Advertised address of the running master.
    pub advertised: Option<SocketAddr>,
}

impl Way {
    /// Returns a remedy: how to get another kubeconfig.
    fn another(&self) -> String {
        let of =
            self.data_dir.as_deref().map_or_else(String::new, |directory| format!(" --data-dir {directory}"));
        format!(
            "copy admin.kubeconfig from the data directory of the master, or create a kubeconfig there: \
             `master{of} kubeconfig --user NAME`"
        )
    }
}

/// The finding for a failed connection.
pub fn finding(refusal: &Refusal, way: &Way) -> Finding {
    let (file, server) = (&way.file, &way.server);
    let at = |what: &str, remedy: String| Finding::problem("master", format!("{server} {what}"), remedy);
    match refusal {
        Refusal::Unusable(why) => {
            let what = format!("{file} cannot be used");
            Finding::problem("kubeconfig", what, way.another()).because(why)
        }
        Refusal::NoSuchHost(why) => {
            let remedy =
                format!("correct the name in {file} (`server:`), or make it resolvable (DNS, /etc/hosts)");
            at("is not found", remedy).because(why)
        }
        Refusal::Closed => closed(way),
        Refusal::Unreachable(why) => {
            let remedy =
                format!("check the address in {file} (`server:`), and routes and firewalls on the way");
            at("cannot be reached", remedy).because(why)
        }
        Refusal::Silent(waited) => {
            let remedy = "check whether a firewall drops the packets, and whether the master hangs: its log, the load \
                          and the disk of its host";
            at("does not answer", remedy.to_owned())
                .because(format!("there was no response for {} s", waited.as_secs()))
        }
        Refusal::Certificate(why) => untrusted(why, way),
        Refusal::Alert(alert) => unwelcome(*alert, way),
        Refusal::NoTls(why) => {
            let remedy = format!(
                "another server listens there: correct the port in {file} (`server:`), or stop it and start the master"
            );
            at("does not speak TLS", remedy).because(why)
        }
        Refusal::HungUp(why) => {
            at("closed the connection", "try again; if it persists, see the master's log".to_owned())
                .because(why)
        }
    }
}

fn closed(way: &Way) -> Finding {
    let Way { file, server, data_dir, runs, advertised } = way;
    let finding = |remedy: String| Finding::problem("master", format!("nothing listens at {server}"), remedy);
    match data_dir {
        Some(directory) if *runs => {
            let advertised_text = advertised.map_or_else(String::new, |at| format!("; it advertises {at}"));
            finding(way.another()).because(format!(
                "a master is running on {directory}, but not at the address in {file}{advertised_text}"
            ))
        }
        Some(directory) => finding(format!(
            "start it: `master run --data-dir {directory}`; if it stops, its last log line says why"
        ))
        .because(format!("no master is running on {directory}")),
        None => finding(format!("start the master there, or correct the address in {file} (`server:`)")),
    }
}

/// Finding for an untrusted server certificate.
fn untrusted(why: &CertificateError, way: &Way) -> Finding {
    let Way { file, server, .. } = way;
    let of = |what: String, remedy: String| Finding::problem("master", what, remedy);
    let day = |time: &rustls::pki_types::UnixTime| {
        let second = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(second).map_or_else(|_| "?".to_owned(), |at| at.to_string())
    };
    let restart = "restart the master, which creates a new one; if its log says that a CA has expired, renew that one first";
    match why {
        CertificateError::Expired => {
            of(format!("the certificate of {server} has expired"), restart.to_owned())
        }
        CertificateError::ExpiredContext { time, not_after } => {
            of(format!("the certificate of {server} has expired"), restart.to_owned()).because(format!(
                "it was valid until {}, and the local time is {}",
                day(not_after),
                day(time)
            ))
        }
        CertificateError::NotValidYet => of(
            format!("the certificate of {server} is not valid yet"),
            "set the clocks of both machines".to_owned(),
        ),
        CertificateError::NotValidYetContext { time, not_before } => of(
            format!("the certificate of {server} is not valid yet"),
            "set the clocks of both machines".to_owned(),
        )
        .because(format!(
            "it is valid from {}, and the local time is {}",
            day(not_before),
            day(time)
        )),
        CertificateError::NotValidForName => wrong_name(way, None),
        CertificateError::NotValidForNameContext { presented, .. } => wrong_name(way, Some(presented)),
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            of(format!("{server} has a certificate of a CA that is not in {file}"), way.another()).because(
                "it is the master of another cluster, or it was set up again with an empty --data-dir",
            )
        }
        other => of(format!("the certificate of {server} is not trusted"), restart.to_owned())
            .because(other.to_string()),
    }
}

fn wrong_name(way: &Way, presented: Option<&Vec<String>>) -> Finding {
    let Way { file, server, .. } = way;
    let what = format!("the certificate of {server} is not valid for that name");
    let remedy = format!(
        "start the master with that name in `--tls-san`, or use a name of the certificate in {file} (`server:`)"
    );
    let finding = Finding::problem("master", what, remedy);
    match presented {
        Some(names) => finding.because(format!("it is valid for {}", names.join(", "))),
        None => finding,
    }
}

/// Finding for a TLS alert, which usually rejects the client certificate.
fn unwelcome(alert: AlertDescription, way: &Way) -> Finding {
    let Way { file, server, .. } = way;
    let of = |what: String, remedy: String| Finding::problem("kubeconfig", what, remedy);
    match alert {
        AlertDescription::CertificateExpired => of(
            format!("{server} rejects the certificate in {file}"),
            format!("{}; a restart of the master renews admin.kubeconfig", way.another()),
        )
        .because("it has expired"),
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::DecryptError
        | AlertDescription::AccessDenied => {
            of(format!("{server} does not trust the CA of the certificate in {file}"), way.another()).because(
                "it belongs to another cluster, or the master was set up again with an empty --data-dir",
            )
        }
        other => Finding::problem(
            "master",
            format!("{server} aborted the TLS handshake"),
            "see its log; a proxy on the way may have changed the data",
        )
        .because(format!("it sent the alert {other:?}")),
    }
}

/// Finding for a server that rejects the credentials.
pub fn unauthorized(way: &Way) -> Finding {
    let what = format!("{} rejects the user in {}", way.server, way.file);
    Finding::problem("kubeconfig", what, way.another())
        .because("the certificate belongs to another cluster, or the server accepts no client certificates")
}
