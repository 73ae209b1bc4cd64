//! Runs a reflector with the node's current API client.

use std::sync::Arc;

use client::backoff::random_share;
use client::reflector::WATCH_IDLE_TIMEOUT;
use client::{Delta, Kind, Reflector, Scope, Typed, Versioned};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::identity::{Api, ApiError, retry_delay};

/// Lists and watches all objects of a scope, deserialized into a type whose fields bound the memory.
///
/// After an error the reflector retries with backoff. It calls `on_error` from the second consecutive error on,
/// because a short outage need not be reported. It returns the error if the server does not allow this node to read
/// the objects, and `None` when the kubelet stops.
pub async fn reflect<T: DeserializeOwned + Versioned + Send + Sync>(
    mut apis: watch::Receiver<Option<Arc<Api>>>,
    kind: Kind,
    scope: &Scope,
    handle: &mut (impl FnMut(Delta<T>) + Send),
    mut on_error: impl FnMut(&ApiError) + Send,
) -> Option<ApiError> {
    let mut reflector = Reflector::new(kind, scope.clone());
    let mut failures = 0_u32;
    loop {
        let api = apis.borrow_and_update().clone();
        let Some(api) = api else {
            apis.changed().await.ok()?;
            continue;
        };
        let watching = async {
            let watch = reflector.connect(api.client(), Typed::<T>::default(), handle).await?;
            failures = 0;
            reflector.follow(watch, handle).await
        };
        let result = tokio::select! {
            // With a new certificate or other servers, the watch continues from the last version.
            changed = apis.changed() => {
                changed.ok()?;
                continue;
            }
            result = watching => result,
        };
        let Err(error) = result else { continue };
        let error = api.error(&error);
        if error.has_code(403) && !error.is_unregistered() {
            return Some(error);
        }
        if failures > 0 {
            on_error(&error);
        }
        let pause = retry_delay(&error, failures, WATCH_IDLE_TIMEOUT, random_share());
        failures = failures.saturating_add(1);
        tokio::select! {
            changed = apis.changed() => changed.ok()?,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
