//! Plans a change of packet rules from the current ones, and commits it atomically.
//!
//! The kernel rejects a batch if another program has changed rules since they were read. Then the plan is made again.

use super::Error;
use super::socket::{RequestError, Socket};
use super::wire::Message;

/// Maximum number of retries after concurrent changes. No program makes that many changes in a row. Each retry
/// costs about a millisecond.
const MAX_TRIES: usize = 200;

/// Plans changes from the current rules and commits them. Starts again if another program changed rules meanwhile.
///
/// # Errors
/// If the kernel rejects the rules, or another program changes rules all the time. `doing` names the operation.
pub fn transact<T>(
    socket: &mut Socket,
    doing: &'static str,
    plan: impl Fn(&mut Socket) -> Result<(Vec<Message>, T), RequestError>,
) -> Result<T, Error> {
    let refused = |error| match error {
        RequestError::Changed => Error::Contended { doing },
        RequestError::NoBridgeFamily(errno) => Error::NoBridgeFamily { doing, source: errno.into() },
        RequestError::Refused { errno, what } => Error::refused(doing, errno, what),
    };
    for _ in 0..MAX_TRIES {
        let generation = socket.generation().map_err(refused)?;
        let tried = plan(socket).and_then(|(messages, result)| {
            socket.commit(generation, &messages)?;
            Ok(result)
        });
        match tried {
            Ok(result) => return Ok(result),
            Err(RequestError::Changed) => {}
            // The error may come from a concurrent change.
            Err(error) if socket.generation().map_err(refused)? == generation => {
                return Err(refused(error));
            }
            Err(_) => {}
        }
    }
    Err(Error::Contended { doing })
}
