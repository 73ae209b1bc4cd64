//! Which of the nodes is had at the least cost: fewest budgets broken, then the least important victims, the least of them in sum,
//! the fewest, and those that began last.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::Candidate;

/// What keeps sums of priorities from favouring more victims of less than nothing; the stock scheduler's.
const ABOVE_NOTHING: i64 = 1 << 31;

/// The best one, and the first of those that are alike.
pub fn best(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(cost)
}

fn cost(candidate: &Candidate) -> (usize, i64, i64, usize, Reverse<Timestamp>) {
    let priorities = || candidate.victims.iter().map(|pod| pod.wants.priority);
    let highest = priorities().max().unwrap_or(i64::MIN);
    let sum = priorities().map(|priority| priority + ABOVE_NOTHING).sum();
    let of_highest = candidate.victims.iter().filter(|pod| pod.wants.priority == highest);
    let began = of_highest.map(|pod| pod.began()).min().unwrap_or(Timestamp::MAX);
    (candidate.violations, highest, sum, candidate.victims.len(), Reverse(began))
}
