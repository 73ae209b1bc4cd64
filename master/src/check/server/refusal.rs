//! Why a server was not heard, and what to do about it, reason by reason. Pure.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use rustls::{AlertDescription, CertificateError};

use super::super::finding::Finding;

/// Why there was nothing to be heard.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The kubeconfig holds something that cannot be used.
    Unusable(String),
    /// Nobody knows the name of the server.
    NoSuchHost(String),
    /// Nobody listens there.
    Closed,
    /// There is no way there.
    Unreachable(String),
    /// Nothing came for so long.
    Silent(Duration),
    /// The server's certificate is not believed.
    Certificate(CertificateError),
    /// The server broke off with that word.
    Alert(AlertDescription),
    /// What came was no TLS.
    NoTls(String),
    /// The connection was cut.
    HungUp(String),
}

/// What is known of the way to the server.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// The kubeconfig.
    pub file: String,
    /// `https://HOST:PORT`.
    pub server: String,
    /// The directory of the master, where it was looked into.
    pub data_dir: Option<String>,
    /// A master runs on that directory.
    pub runs: bool,
    /// What nodes were told of where that master is.
    pub advertised: Option<SocketAddr>,
}

impl Way {
    /// Where another kubeconfig comes from.
    fn another(&self) -> String {
        let of =
            self.data_dir.as_deref().map_or_else(String::new, |directory| format!(" --data-dir {directory}"));
        format!(
            "take admin.kubeconfig from the directory of the master, or make one there: `master{of} kubeconfig --user NAME`"
        )
    }
}

/// The one thing there is to say.
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
                format!("correct the name in {file} (`server:`), or have it resolved here (DNS, /etc/hosts)");
            at("is not found", remedy).because(why)
        }
        Refusal::Closed => closed(way),
        Refusal::Unreachable(why) => {
            let remedy = format!(
                "look whether that is the right address in {file} (`server:`), and at routes and firewalls between here and there"
            );
            at("cannot be reached", remedy).because(why)
        }
        Refusal::Silent(waited) => {
            let remedy = "look whether a firewall drops what is sent there, and whether the master hangs: its log, the load \
                          and the disk of its machine";
            at("does not answer", remedy.to_owned())
                .because(format!("nothing came for {} s", waited.as_secs()))
        }
        Refusal::Certificate(why) => untrusted(why, way),
        Refusal::Alert(alert) => unwelcome(*alert, way),
        Refusal::NoTls(why) => {
            let remedy = format!(
                "something else listens there: correct the port in {file} (`server:`), or stop it and start the master"
            );
            at("does not speak TLS as a master does", remedy).because(why)
        }
        Refusal::HungUp(why) => {
            at("hung up", "ask again; if it stays so, its log says why".to_owned()).because(why)
        }
    }
}

fn closed(way: &Way) -> Finding {
    let Way { file, server, data_dir, runs, advertised } = way;
    let finding = |remedy: String| Finding::problem("master", format!("nobody listens at {server}"), remedy);
    match data_dir {
        Some(directory) if *runs => {
            let told = advertised.map_or_else(String::new, |at| format!(", it told nodes {at}"));
            finding(way.another()).because(format!(
                "a master runs on {directory}, but at another address than {file} says{told}"
            ))
        }
        Some(directory) => finding(format!(
            "start it: `master run --data-dir {directory}`; if it ends, its last line says why"
        ))
        .because(format!("no master runs on {directory}")),
        None => finding(format!("start the master there, or correct the address in {file} (`server:`)")),
    }
}

/// The server's certificate is not believed.
fn untrusted(why: &CertificateError, way: &Way) -> Finding {
    let Way { file, server, .. } = way;
    let of = |what: String, remedy: String| Finding::problem("master", what, remedy);
    let day = |time: &rustls::pki_types::UnixTime| {
        let second = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(second).map_or_else(|_| "?".to_owned(), |at| at.to_string())
    };
    let restart = "restart the master: it makes itself a new one; if its log says that an authority has expired, that one is due first";
    match why {
        CertificateError::Expired => {
            of(format!("the certificate of {server} has expired"), restart.to_owned())
        }
        CertificateError::ExpiredContext { time, not_after } => of(
            format!("the certificate of {server} has expired"),
            restart.to_owned(),
        )
        .because(format!("it was good until {}, and here it is {}", day(not_after), day(time))),
        CertificateError::NotValidYet => of(
            format!("the certificate of {server} is not valid yet"),
            "set the clocks, here and there".to_owned(),
        ),
        CertificateError::NotValidYetContext { time, not_before } => of(
            format!("the certificate of {server} is not valid yet"),
            "set the clocks, here and there".to_owned(),
        )
        .because(format!("it is good from {} on, and here it is {}", day(not_before), day(time))),
        CertificateError::NotValidForName => wrong_name(way, None),
        CertificateError::NotValidForNameContext { presented, .. } => wrong_name(way, Some(presented)),
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            of(format!("{server} has a certificate of an authority that {file} does not name"), way.another())
                .because("it is another cluster's master, or the master began anew with an empty --data-dir")
        }
        other => of(format!("the certificate of {server} is not believed"), restart.to_owned())
            .because(other.to_string()),
    }
}

fn wrong_name(way: &Way, presented: Option<&Vec<String>>) -> Finding {
    let Way { file, server, .. } = way;
    let what = format!("the certificate of {server} is not for that name");
    let remedy = format!(
        "start the master with that name in `--tls-san`, or give {file} (`server:`) one that the certificate holds"
    );
    let finding = Finding::problem("master", what, remedy);
    match presented {
        Some(names) => finding.because(format!("it is for {}", names.join(", "))),
        None => finding,
    }
}

/// The server did not take our certificate, or broke off for another reason.
fn unwelcome(alert: AlertDescription, way: &Way) -> Finding {
    let Way { file, server, .. } = way;
    let of = |what: String, remedy: String| Finding::problem("kubeconfig", what, remedy);
    match alert {
        AlertDescription::CertificateExpired => of(
            format!("{server} does not take the certificate in {file}"),
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
            of(format!("{server} does not know whoever signed the certificate in {file}"), way.another())
                .because("it is of another cluster, or the master began anew with an empty --data-dir")
        }
        other => Finding::problem(
            "master",
            format!("{server} broke off the handshake"),
            "look into its log; something between here and there may have changed what was sent",
        )
        .because(format!("it said {other:?}")),
    }
}

/// A server that answers, and lets in nobody with these credentials.
pub fn unauthorized(way: &Way) -> Finding {
    let what = format!("{} does not know the user in {}", way.server, way.file);
    Finding::problem("kubeconfig", what, way.another())
        .because("the certificate is of another cluster, or the server takes none")
}
