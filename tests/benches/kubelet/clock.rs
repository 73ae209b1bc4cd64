//! When containers started and went, by the engine's own event stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::StreamExt;
use tests::Engine;
use tokio::sync::watch;

/// How long any one thing may take; a hundred pods on a busy machine take a minute.
const DEADLINE: Duration = Duration::from_secs(600);

/// A moment, in nanoseconds of the clock that the engine's events bear too.
pub type Nanos = i64;

/// Now, on that clock.
pub fn now() -> Nanos {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// What can happen to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happening {
    /// It runs.
    Started,
    /// It has been removed.
    Gone,
}

type Seen = HashMap<(String, String, Happening), Nanos>;

/// Keeps the last moment of each happening, by pod name and container name of the labels.
pub struct Clock {
    seen: Arc<Mutex<Seen>>,
    changed: watch::Receiver<u64>,
}

impl Clock {
    /// Follows the engine from now on.
    pub async fn start(engine: &Engine) -> Self {
        let filters = HashMap::from([("type", vec!["container"]), ("event", vec!["start", "destroy"])]);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().to_string();
        let options = EventsOptionsBuilder::new().since(&since).filters(&filters).build();
        let mut events = engine.docker().events(Some(options));
        let seen = Arc::new(Mutex::new(Seen::new()));
        let (count, changed) = watch::channel(0);
        let store = seen.clone();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let event = event.unwrap();
                let mut labels = event.actor.and_then(|actor| actor.attributes).unwrap_or_default();
                let mut label = |name: &str| labels.remove(&format!("io.kubernetes.{name}"));
                let (Some(pod), Some(container)) = (label("pod.name"), label("container.name")) else {
                    continue;
                };
                let happening = match event.action.as_deref() {
                    Some("start") => Happening::Started,
                    _ => Happening::Gone,
                };
                store.lock().unwrap().insert((pod, container, happening), event.time_nano.unwrap());
                count.send_modify(|count| *count += 1);
            }
        });
        Self { seen, changed }
    }

    /// The moment at which the later of a pod's two containers started or went.
    pub async fn pod(&self, pod: &str, happening: Happening) -> Nanos {
        self.pods(&[pod.to_owned()], happening).await
    }

    /// The moment at which the last container of all these pods started or went.
    pub async fn pods(&self, pods: &[String], happening: Happening) -> Nanos {
        let keys: Vec<_> = pods
            .iter()
            .flat_map(|pod| ["POD", "app"].map(|container| (pod.clone(), container.to_owned(), happening)))
            .collect();
        let all = || {
            let seen = self.seen.lock().unwrap();
            keys.iter().map(|key| seen.get(key).copied()).collect::<Option<Vec<_>>>()?.into_iter().max()
        };
        let mut changed = self.changed.clone();
        let wait = changed.wait_for(|_| all().is_some());
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        assert!(waited.is_ok(), "after {DEADLINE:?} not all of {} pods have {happening:?}", pods.len());
        all().unwrap()
    }
}
