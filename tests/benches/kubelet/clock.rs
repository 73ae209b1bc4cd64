//! Records container start and removal times from Docker's event stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::StreamExt;
use tests::Engine;
use tokio::sync::watch;

/// Timeout of each wait; a hundred pods on a loaded machine take a minute.
const DEADLINE: Duration = Duration::from_secs(600);

/// A timestamp in nanoseconds on the clock that Docker's events use.
pub type Nanos = i64;

/// The current time on the clock that Docker's events use.
pub fn now() -> Nanos {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// A container event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happening {
    /// The container started.
    Started,
    /// The container was removed.
    Gone,
}

type Seen = HashMap<(String, String, Happening), Nanos>;

/// Keeps the time of the latest event of each type, by the pod and container names in the labels.
pub struct Clock {
    seen: Arc<Mutex<Seen>>,
    changed: watch::Receiver<u64>,
}

impl Clock {
    /// Starts to follow Docker's event stream.
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

    /// Waits until both containers of a pod have started or are removed. Returns the later time.
    pub async fn pod(&self, pod: &str, happening: Happening) -> Nanos {
        self.pods(&[pod.to_owned()], happening).await
    }

    /// Waits until all containers of the given pods have started or are removed. Returns the latest time.
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
