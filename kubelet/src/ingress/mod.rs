//! The Ingress controller of the node (`--ingress`): a reverse proxy for HTTP and HTTPS that sends requests to the endpoints
//! of Services, by the Ingresses of the class `coracle`.
//!
//! [`routes`] decides where a request goes, and [`certificates`] which certificate a client gets. [`listener`] accepts
//! connections, and [`proxy`] forwards their requests. A change replaces the routes; requests in progress keep theirs.

mod body;
mod certificates;
mod headers;
mod listener;
mod proxy;
mod routes;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::tasks::Tasks;
use client::backoff::random_share;
use tokio::sync::{Semaphore, oneshot, watch};

use self::certificates::Certificates;
use self::listener::{MAX_CONNECTIONS, Server};
use self::proxy::Proxy;
use self::routes::Routes;
use crate::cluster::ingresses::IngressSnapshot;
use crate::cluster::services::ServiceSnapshot;
use crate::metrics::Metrics;
use crate::network::record_event;
use crate::report::{Outbox, Severity};

/// Delay before another attempt to bind a port.
const BIND_RETRY: Duration = Duration::from_secs(1);
/// Shortest time between two changes of the routes. The first change applies at once.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(50);

/// Settings of the Ingress controller.
pub struct Settings {
    /// The node's name.
    pub node: String,
    /// The address for HTTP; `None` to serve none.
    pub http: Option<SocketAddr>,
    /// The address for HTTPS; `None` to serve none.
    pub https: Option<SocketAddr>,
    /// The Ingresses of the cluster.
    pub ingresses: watch::Receiver<Arc<IngressSnapshot>>,
    /// The Services of the cluster.
    pub services: watch::Receiver<Arc<ServiceSnapshot>>,
    /// Counts requests.
    pub metrics: Arc<Metrics>,
    /// Receives events of the node.
    pub outbox: Arc<Outbox>,
}

/// The running Ingress controller.
#[derive(Debug)]
pub struct Running {
    stop: watch::Sender<bool>,
    /// Closed when a listener has ended.
    listeners: Vec<oneshot::Receiver<()>>,
}

impl Running {
    /// Closes the listeners, and waits for a bounded time until the requests in progress have ended.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for ended in self.listeners {
            let _ = ended.await;
        }
    }
}

/// Starts the Ingress controller.
///
/// # Errors
/// If the default certificate cannot be created.
pub fn start(settings: Settings, tasks: &mut Tasks) -> Result<Running, String> {
    let Settings { node, http, https, ingresses, services, metrics, outbox } = settings;
    let (stop, stopped) = watch::channel(false);
    let certificates = Arc::new(Certificates::new()?);
    let tls = certificates.config().map_err(|error| error.to_string())?;
    let proxy = Arc::new(Proxy::new(metrics.clone()));
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut listeners = Vec::new();
    for (address, tls) in [(http, None), (https, Some(tls))] {
        let Some(address) = address else { continue };
        let server = Server { proxy: proxy.clone(), tls, permits: permits.clone(), stopped: stopped.clone() };
        let (end, ended) = oneshot::channel();
        listeners.push(ended);
        let (node, outbox, stopped) = (node.clone(), outbox.clone(), stopped.clone());
        tasks.spawn("ingress listener", async move {
            serve(server, address, &node, &outbox, stopped).await;
            drop(end);
            std::future::pending().await
        });
    }
    metrics.count_ingress_connections(move || MAX_CONNECTIONS.saturating_sub(permits.available_permits()));
    tasks.spawn("ingress routes", follow(proxy, certificates, ingresses, services, node, outbox));
    Ok(Running { stop, listeners })
}

/// Binds the port, and retries while another program uses it.
async fn serve(
    server: Server,
    address: SocketAddr,
    node: &str,
    outbox: &Arc<Outbox>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut reported = None;
    let listener = loop {
        match listener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) if reported != Some(error.kind()) => {
                reported = Some(error.kind());
                let text = format!(
                    "the Ingress controller cannot listen at {address}: {error}. Stop the other program that uses the port, or \
                     choose another one with --ingress-http-port, --ingress-https-port or --ingress-address"
                );
                record_event(outbox, node, Severity::Warning, "IngressListenFailed", text);
            }
            Err(_) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(BIND_RETRY) => {}
            () = listener::stop(&mut stopped) => return,
        }
    };
    let text = format!("the Ingress controller listens at {address}");
    if reported.is_some() {
        record_event(outbox, node, Severity::Normal, "IngressListening", text);
    } else {
        tracing::info!("{text}");
    }
    server.run(listener).await;
}

/// Updates routes and certificates with each change of Ingresses, Services and endpoints.
async fn follow(
    proxy: Arc<Proxy>,
    certificates: Arc<Certificates>,
    mut ingresses: watch::Receiver<Arc<IngressSnapshot>>,
    mut services: watch::Receiver<Arc<ServiceSnapshot>>,
    node: String,
    outbox: Arc<Outbox>,
) {
    let mut reported = Vec::new();
    let mut known = None;
    loop {
        let (current, endpoints) =
            (ingresses.borrow_and_update().clone(), services.borrow_and_update().clone());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the share is from 0 up to 1"
        )]
        let seed = (random_share() * 1e6) as usize;
        proxy.set_routes(Routes::new(&current, &endpoints, seed));
        if known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &current)) {
            let invalid = certificates.set(&current);
            for one in invalid.iter().filter(|one| !reported.contains(*one)) {
                let text = format!(
                    "the certificate in the Secret {} of an Ingress cannot be used, so its hosts get the default certificate: {}",
                    one.secret, one.reason
                );
                record_event(&outbox, &node, Severity::Warning, "IngressCertificateInvalid", text);
            }
            reported = invalid;
            known = Some(current);
        }
        tokio::time::sleep(MIN_UPDATE_INTERVAL).await;
        let changed = tokio::select! {
            changed = ingresses.changed() => changed,
            changed = services.changed() => changed,
        };
        if changed.is_err() {
            return std::future::pending().await;
        }
    }
}
