//! The ConfigMaps that a stock API server publishes in `kube-system`.
//!
//! `extension-apiserver-authentication`: stock components and extension API servers authenticate their clients with
//! it. It contains the client CA bundle and the request headers of a front proxy. This master forwards requests to
//! no extension API server. It publishes a front-proxy CA because components refuse to start without one. The key
//! of that CA is discarded, so no front-proxy certificate exists.
//!
//! `kube-apiserver-legacy-service-account-token-tracking`: the day since which the server records the use of token
//! Secrets.

use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::registry::Registry;
use apiserver::watch_cache::{Scope, Watcher};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::controllers::{ActAs as _, Client, Error, Json, Kind};
use crate::pki::Pki;

const NAMESPACE: &str = "kube-system";
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";
const CLIENT_CA: &str = "client-ca-file";
const PROXY_CA: &str = "requestheader-client-ca-file";
/// Headers and names that kubeadm configures. Each value is a JSON list as text.
const HEADERS: [(&str, &str); 5] = [
    ("requestheader-allowed-names", "[\"front-proxy-client\"]"),
    ("requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"),
    ("requestheader-group-headers", "[\"X-Remote-Group\"]"),
    ("requestheader-uid-headers", "[\"X-Remote-Uid\"]"),
    ("requestheader-username-headers", "[\"X-Remote-User\"]"),
];
/// Pause between reconciliations, so that masters that switch the CA at different times do not overwrite each other
/// continuously.
const PAUSE: Duration = Duration::from_secs(1);

/// Maintains the ConfigMaps until the registry is gone or this master stops.
pub async fn keep(
    registry: Weak<Registry>,
    client: Client,
    mut authorities: watch::Receiver<Arc<Pki>>,
    mut stopped: watch::Receiver<bool>,
) {
    let client = client.as_master();
    loop {
        // The watch starts before the pass, so that no change is missed.
        let Some(watcher) = watcher(&registry) else { return };
        let pki = authorities.borrow_and_update().clone();
        let settled = reconcile(&client, &pki).await;
        let retry = settled.is_err();
        if let Err(error) = settled {
            tracing::warn!(error = %format!("{error:#}"), "the ConfigMaps of {NAMESPACE} cannot be written; retrying");
        }
        tokio::select! {
            () = changed(watcher), if !retry => {}
            // A closed channel means that the master stops.
            changed = authorities.changed(), if !retry => if changed.is_err() { return },
            () = sleep(PAUSE), if retry => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

fn watcher(registry: &Weak<Registry>) -> Option<Watcher> {
    let registry = registry.upgrade()?;
    let cache = registry.cache();
    cache.watch("configmaps", Scope::Namespace(NAMESPACE.to_owned()), cache.revision()).ok()
}

/// Waits until one of the ConfigMaps changes.
async fn changed(mut watcher: Watcher) {
    while let Ok(changes) = watcher.next().await {
        if changes.iter().any(|change| [AUTHENTICATION, TRACKING].contains(&change.object.name())) {
            return;
        }
    }
}

async fn reconcile(client: &Client, pki: &Pki) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let found = client.find(&Kind::CONFIG_MAP, NAMESPACE, AUTHENTICATION).await?;
    let proxy_ca = match found.as_ref().and_then(|found| usable_proxy_ca(found, pki, now)) {
        Some(proxy_ca) => proxy_ca,
        None => pki.front_proxy_ca(now)?,
    };
    write(client, plan(found.as_ref(), &pki.client_ca_pem(), &proxy_ca)).await?;
    let found = client.find(&Kind::CONFIG_MAP, NAMESPACE, TRACKING).await?;
    write(client, plan_tracking(found.as_ref(), now)).await?;
    Ok(())
}

async fn write(client: &Client, step: Step) -> Result<(), Error> {
    let written = match step {
        Step::Nothing => Ok(()),
        Step::Create(object) => client.create(&Kind::CONFIG_MAP, NAMESPACE, object).await.map(drop),
        Step::Update(object) => client.update(&Kind::CONFIG_MAP, "", object).await.map(drop),
    };
    match written {
        // Another master wrote first; its change triggers another pass.
        Err(error) if error.exists() || error.is_conflict() || error.is_not_found() => Ok(()),
        written => written,
    }
}

/// The write that a ConfigMap needs.
#[derive(Debug, PartialEq)]
enum Step {
    Nothing,
    Create(Value),
    Update(Json),
}

/// Plans the write of the authentication ConfigMap. Unknown keys are removed, because the ConfigMap determines what
/// components trust.
fn plan(found: Option<&Json>, client_ca: &str, proxy_ca: &str) -> Step {
    let mut data = json!({CLIENT_CA: client_ca, PROXY_CA: proxy_ca});
    for (key, value) in HEADERS {
        data[key] = value.into();
    }
    with_data(found, AUTHENTICATION, data)
}

/// Plans the write of the tracking ConfigMap. A valid day stays unchanged.
fn plan_tracking(found: Option<&Json>, now: Timestamp) -> Step {
    let since = found.and_then(|found| found.get("data")?.get(SINCE)?.as_str());
    let valid = since.filter(|since| since.parse::<Date>().is_ok());
    let today = now.to_zoned(TimeZone::UTC).date().to_string();
    with_data(found, TRACKING, json!({SINCE: valid.unwrap_or(&today)}))
}

fn with_data(found: Option<&Json>, name: &str, data: Value) -> Step {
    let Some(found) = found else {
        return Step::Create(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data,
        }));
    };
    if found.get("data") == Some(&data) {
        return Step::Nothing;
    }
    let mut wanted = found.clone();
    wanted.insert("data".to_owned(), data);
    Step::Update(wanted)
}

/// The published front-proxy CA, if this cluster signed it and it does not expire soon. All masters share it, also
/// across restarts.
fn usable_proxy_ca(found: &Json, pki: &Pki, now: Timestamp) -> Option<String> {
    let text = found.get("data")?.get(PROXY_CA)?.as_str()?;
    pki.is_front_proxy_ca(text, now).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn map(object: &Value) -> &Json {
        object.as_object().unwrap()
    }

    /// The keys are those that a stock server publishes, and that its components look up.
    #[test]
    fn config_map_has_the_keys_of_the_stock_server() {
        let Step::Create(made) = plan(None, "CLIENT", "PROXY") else { panic!("it is created") };
        let mut keys: Vec<&str> = map(&made["data"]).keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "client-ca-file",
                "requestheader-allowed-names",
                "requestheader-client-ca-file",
                "requestheader-extra-headers-prefix",
                "requestheader-group-headers",
                "requestheader-uid-headers",
                "requestheader-username-headers",
            ],
        );
        for (key, value) in HEADERS {
            let list: Vec<String> = serde_json::from_str(value).unwrap();
            assert_eq!(list.len(), 1, "{key} is a JSON list");
        }
        assert_eq!(plan(Some(map(&made)), "CLIENT", "PROXY"), Step::Nothing);
        for (key, value) in
            [("client-ca-file", "other"), ("requestheader-group-headers", "[]"), ("more", "x")]
        {
            let mut edited = made.clone();
            edited["data"][key] = value.into();
            let Step::Update(healed) = plan(Some(map(&edited)), "CLIENT", "PROXY") else { panic!("{key}") };
            assert_eq!(Value::from(healed), made, "{key}");
        }
        let rotated = plan(Some(map(&made)), "CLIENT OTHER", "PROXY");
        assert!(
            matches!(rotated, Step::Update(object) if object["data"]["client-ca-file"] == "CLIENT OTHER")
        );
    }

    #[test]
    fn config_map_keeps_the_start_date_of_token_tracking() {
        let now: Timestamp = "2026-03-04T23:59:59Z".parse().unwrap();
        let Step::Create(made) = plan_tracking(None, now) else { panic!("it is created") };
        assert_eq!(made["data"], json!({"since": "2026-03-04"}));
        let later = now + jiff::SignedDuration::from_hours(48);
        assert_eq!(plan_tracking(Some(map(&made)), later), Step::Nothing);
        let mut broken = made.clone();
        broken["data"]["since"] = "yesterday".into();
        let healed = plan_tracking(Some(map(&broken)), later);
        assert!(matches!(healed, Step::Update(object) if object["data"]["since"] == "2026-03-06"));
    }
}
