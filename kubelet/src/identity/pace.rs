//! When to do what: renewals, looks and tries. Pure; `share` is a random number from 0 up to 1.

use std::time::Duration;

use jiff::Timestamp;

use super::certificate::Certificate;
use super::trouble::Trouble;

/// A certificate is renewed when so much of its life has passed, as the stock kubelet does it; where in between is by chance, so that
/// nodes that joined together do not come together again.
const EARLIEST_SHARE: f64 = 0.7;
const SPREAD: f64 = 0.2;
/// A cluster is asked again who it is after so long, and at least so often in the life of a certificate: a new root is known
/// and has signed long before the one before it is retired.
const LONGEST_UNASKED: Duration = Duration::from_secs(4 * 60 * 60);
const ASKED_IN_A_LIFE: u32 = 6;
/// Not more often than that, whatever life a certificate seems to have.
const SHORTEST_UNASKED: Duration = Duration::from_secs(1);
/// The same where it answered with something that cannot be used.
pub const ASK_AFTER_TROUBLE: Duration = Duration::from_secs(10 * 60);
/// The first pause after a try that failed; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest: a master that comes back is found within half a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The first pause between two looks at a request, and the longest: a person who approves waits no longer, and a thousand
/// nodes that wait ask a hundred times a second.
const FIRST_LOOK: Duration = Duration::from_millis(200);
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// What was denied is looked at so often: until somebody deletes it, or the server does after an hour.
const DENIED_LOOK: Duration = Duration::from_secs(30);

/// When a certificate is to be renewed. Its life counts from when the node had it: some begin long before they are signed.
pub fn renew_at(certificate: &Certificate, share: f64) -> Timestamp {
    let (from, life) = life(certificate);
    let passed = life.mul_f64(SPREAD.mul_add(share.clamp(0.0, 1.0), EARLIEST_SHARE));
    let passed = i64::try_from(passed.as_secs()).unwrap_or_default();
    Timestamp::from_second(from.saturating_add(passed)).unwrap_or(Timestamp::MIN)
}

/// The first second of the life that a certificate has here, and how long that is.
fn life(certificate: &Certificate) -> (i64, Duration) {
    let facts = &certificate.facts;
    let from = certificate.since.as_second().clamp(facts.from, facts.until.max(facts.from));
    (from, Duration::from_secs(u64::try_from(facts.until - from).unwrap_or_default()))
}

/// The pause after a try that failed so, longer where the server asks for that, which is obeyed up to a limit.
pub fn pause_after(trouble: &Trouble, failures: u32, obeyed: Duration, share: f64) -> Duration {
    back_off(failures, share).max(trouble.retry_after().unwrap_or_default().min(obeyed))
}

/// The pause before a cluster is asked again who it is, by whoever holds that certificate.
pub fn ask_again(certificate: &Certificate, share: f64) -> Duration {
    let (_, life) = life(certificate);
    apart((life / ASKED_IN_A_LIFE).clamp(SHORTEST_UNASKED, LONGEST_UNASKED), share)
}

/// The pause after so many tries that failed, one after the other.
pub fn back_off(failures: u32, share: f64) -> Duration {
    grown(FIRST_PAUSE, LONGEST_PAUSE, failures, share)
}

/// The pause after so many looks at a request that nobody has decided on.
pub fn look(looks: u32, share: f64) -> Duration {
    grown(FIRST_LOOK, LONGEST_LOOK, looks, share)
}

/// The pause between two looks at a request that was denied or cannot be signed.
pub fn look_at_denied(looks: u32, share: f64) -> Duration {
    grown(FIRST_LOOK, DENIED_LOOK, looks, share)
}

/// Twice as long each time up to a limit, then between three quarters and the whole of that.
pub fn grown(first: Duration, longest: Duration, times: u32, share: f64) -> Duration {
    apart(first.saturating_mul(2_u32.saturating_pow(times)).min(longest), share)
}

/// Between three quarters and the whole of it.
fn apart(whole: Duration, share: f64) -> Duration {
    whole.mul_f64(0.25_f64.mul_add(share.clamp(0.0, 1.0), 0.75))
}
