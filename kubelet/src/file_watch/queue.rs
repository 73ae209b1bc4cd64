//! The queue between the thread of `notify`, which adds events, and the task that reads them.

use std::sync::{Mutex, PoisonError};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RenameMode};
use tokio::sync::Notify;

use super::Event;

/// Maximum number of queued events; the default of fs.inotify.max_queued_events. Beyond it, the queue contains one
/// [`Event::Lost`].
pub(super) const MAX_EVENTS: usize = 16384;

/// A bounded queue that never blocks the sender.
#[derive(Default)]
pub(super) struct EventQueue {
    pending: Mutex<Pending>,
    ready: Notify,
}

#[derive(Default)]
struct Pending {
    events: Vec<Event>,
    error: Option<notify::Error>,
}

impl EventQueue {
    /// Adds an event of `notify`. Events of reads are dropped, because the kubelet itself causes them.
    pub fn push(&self, event: notify::Result<notify::Event>) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(event) => match meaning(event) {
                Some(Event::Lost) => pending.events = vec![Event::Lost],
                Some(_) if pending.events.len() >= MAX_EVENTS => pending.events = vec![Event::Lost],
                Some(event) => pending.events.push(event),
                None => return,
            },
            Err(error) => pending.error = Some(error),
        }
        drop(pending);
        self.ready.notify_one();
    }

    /// Waits for events and returns all of them. Cancel safe.
    ///
    /// # Errors
    /// If the watcher failed. Events after the error are missing.
    pub async fn take(&self) -> notify::Result<Vec<Event>> {
        loop {
            {
                let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                let pending = std::mem::take(&mut *pending);
                match pending.error {
                    Some(error) => return Err(error),
                    None if !pending.events.is_empty() => return Ok(pending.events),
                    None => {}
                }
            }
            self.ready.notified().await;
        }
    }
}

fn meaning(event: notify::Event) -> Option<Event> {
    if event.need_rescan() {
        return Some(Event::Lost);
    }
    let path = event.paths.into_iter().next()?;
    match event.kind {
        EventKind::Create(_) => Some(Event::Created(path)),
        EventKind::Modify(ModifyKind::Data(_)) => Some(Event::BeingWritten(path)),
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Some(Event::Written(path)),
        EventKind::Modify(ModifyKind::Metadata(_)) => Some(Event::Touched(path)),
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
            Some(Event::Gone(path))
        }
        // The two halves of a rename were reported before `RenameMode::Both`.
        EventKind::Access(_) | EventKind::Modify(_) | EventKind::Any | EventKind::Other => None,
    }
}
