//! Everything of one kind, as the cluster has it: a list, then a watch from there on, for as long as anybody wants it.
//!
//! Of every object only what its type has is kept, while it is read. A watch that ends, or in which nothing is heard for so long that
//! nobody can be there, goes on from the last version that was told; where the server does not know that any more, it begins with a
//! list anew.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::sync::watch;

use crate::identity::{Api, Trouble, chance, pause_after};

/// Objects of a list that are asked for at once; the server keeps the rest for the next question.
const PIECE: usize = 100;
/// How long a watch is asked for at least, and how much more by chance, so that those of many nodes do not end together.
const WATCH: Duration = Duration::from_secs(5 * 60);
/// A watch that says nothing for so long is none: servers send a bookmark a minute.
const SILENCE: Duration = Duration::from_secs(3 * 60);
/// The least time between two watches: a server that ends them at once is not asked without a pause.
const BETWEEN: Duration = Duration::from_secs(1);

/// What is heard.
#[derive(Clone, Debug, PartialEq)]
pub enum Told<T> {
    /// These are all, as of that version.
    All(Vec<T>, String),
    /// It is new, or another.
    Put(T),
    /// It is gone.
    Gone(T),
}

/// Follows all objects of a path, as far as the selector (`?fieldSelector=...`, or nothing) lets them pass. After trouble it tries
/// again, each time after a longer pause; `troubled` hears of each that is not the first in a row, as a master that is away for a moment
/// is no news. It ends when the server does not let this node read them, or `None` when the kubelet does.
pub async fn follow<T: DeserializeOwned + Send>(
    mut apis: watch::Receiver<Option<Arc<Api>>>,
    path: &str,
    selector: &str,
    hear: &mut (impl FnMut(Told<T>) + Send),
    mut troubled: impl FnMut(&Trouble) + Send,
) -> Option<Trouble> {
    let mut since = String::new();
    let mut failures = 0_u32;
    loop {
        let api = apis.borrow_and_update().clone();
        let Some(api) = api else {
            apis.changed().await.ok()?;
            continue;
        };
        let turn = tokio::select! {
            // With a new certificate, or other servers, it goes on from where it was.
            changed = apis.changed() => {
                changed.ok()?;
                continue;
            }
            turn = turn(&api, path, selector, &mut since, &mut failures, hear) => turn,
        };
        let pause = match turn {
            Ok(()) => BETWEEN,
            Err(trouble) => {
                if trouble.is_code(403) && !trouble.is_unregistered() {
                    return Some(trouble);
                }
                if failures > 0 {
                    troubled(&trouble);
                }
                let pause = pause_after(&trouble, failures, SILENCE, chance());
                failures = failures.saturating_add(1);
                pause
            }
        };
        tokio::select! {
            changed = apis.changed() => changed.ok()?,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// One watch, with a list before it where one is needed.
async fn turn<T: DeserializeOwned>(
    api: &Api,
    path: &str,
    selector: &str,
    since: &mut String,
    failures: &mut u32,
    hear: &mut impl FnMut(Told<T>),
) -> Result<(), Trouble> {
    if since.is_empty() {
        let (all, version) = all(api, path, selector).await?;
        hear(Told::All(all, version.clone()));
        *since = version;
    }
    let seconds = WATCH.mul_f64(1.0 + chance()).as_secs();
    let with = if selector.is_empty() { "?" } else { "&" };
    let from = format!(
        "{path}{selector}{with}watch=true&allowWatchBookmarks=true&resourceVersion={since}&timeoutSeconds={seconds}"
    );
    let mut events = match api.watch(&from).await {
        Ok(events) => events,
        Err(trouble) => {
            // That version is too old for it, or one that it never had, as it has lost what came after an earlier one. Whoever says no
            // for another reason, having too much to do as a rule, is not asked for everything anew.
            let is_lost = trouble.is_code(410) || trouble.is_of_version();
            if is_lost || trouble.is_code(400) {
                since.clear();
            }
            return if is_lost { Ok(()) } else { Err(trouble) };
        }
    };
    *failures = 0;
    while let Some(line) = events.next(SILENCE).await? {
        match read(&line).map_err(|why| Trouble::damaged(format!("an event of {path}"), why))? {
            Event::Told(told, version) => {
                *since = version;
                hear(told);
            }
            Event::Bookmark(version) => *since = version,
            Event::TooOld => {
                since.clear();
                return Ok(());
            }
        }
    }
    Ok(())
}

/// All there is, piece by piece, and the version of it.
async fn all<T: DeserializeOwned>(
    api: &Api,
    path: &str,
    selector: &str,
) -> Result<(Vec<T>, String), Trouble> {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let with = if selector.is_empty() { "?" } else { "&" };
    loop {
        let piece: Piece<T> = api.list(&format!("{path}{selector}{with}limit={PIECE}{rest}")).await?;
        found.extend(piece.items.unwrap_or_default());
        match piece.metadata.rest.as_deref() {
            Some(token) if !token.is_empty() => rest = format!("&continue={}", escaped(token)),
            _ => return Ok((found, piece.metadata.version.unwrap_or_default())),
        }
    }
}

/// A token as it stands in a query.
fn escaped(token: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    token.bytes().map(one).collect()
}

#[derive(Deserialize)]
struct Piece<T> {
    metadata: Version,
    // A list of nothing may be null.
    items: Option<Vec<T>>,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "resourceVersion")]
    version: Option<String>,
    #[serde(rename = "continue")]
    rest: Option<String>,
}

#[derive(Deserialize)]
struct Versioned {
    metadata: Version,
}

#[derive(Deserialize)]
struct Refusal {
    code: Option<u16>,
    message: Option<String>,
}

/// An event of a watch.
#[derive(Debug, PartialEq)]
pub(super) enum Event<T> {
    /// Something has happened; the version after it.
    Told(Told<T>, String),
    /// Nothing has happened up to that version.
    Bookmark(String),
    /// The server does not know any more what has happened since.
    TooOld,
}

/// Reads an event.
///
/// # Errors
/// Why it is none, as the end of a sentence that begins with it.
pub(super) fn read<T: DeserializeOwned>(line: &[u8]) -> Result<Event<T>, String> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
        #[expect(dead_code, reason = "what it is depends on the type")]
        object: IgnoredAny,
    }
    #[derive(Deserialize)]
    struct Of<O> {
        object: O,
    }
    fn object<O: DeserializeOwned>(line: &[u8]) -> Result<O, String> {
        serde_json::from_slice::<Of<O>>(line)
            .map(|it| it.object)
            .map_err(|error| format!("does not read: {error}"))
    }
    let kind: Kind = serde_json::from_slice(line).map_err(|error| format!("does not read: {error}"))?;
    let version = || object::<Versioned>(line).map(|it| it.metadata.version.unwrap_or_default());
    match kind.kind.as_str() {
        "ADDED" | "MODIFIED" => Ok(Event::Told(Told::Put(object(line)?), version()?)),
        "DELETED" => Ok(Event::Told(Told::Gone(object(line)?), version()?)),
        "BOOKMARK" => Ok(Event::Bookmark(version()?)),
        "ERROR" => {
            let refusal: Refusal = object(line)?;
            match refusal.code {
                Some(410) => Ok(Event::TooOld),
                _ => Err(format!("says {}", refusal.message.unwrap_or_else(|| "nothing".to_owned()))),
            }
        }
        other => Err(format!("is of the type {other:?}, which there is not")),
    }
}
