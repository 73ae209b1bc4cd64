//! Tests every verb on every resource as nodes and as other clients. Prints the table, and checks that nothing is
//! permitted that `docs/access.md` does not list.

mod actors;
mod bed;
mod page;
mod questions;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use futures_util::StreamExt as _;

use crate::master_matrix::actors::{Actor, Answer};
use crate::master_matrix::bed::Bed;
use crate::master_matrix::page::Right;
use crate::master_matrix::questions::Question;

/// Concurrent requests of one client.
const AT_ONCE: usize = 16;

/// Results of all requests of one client. A client that must be rejected sends only one request per verb and resource,
/// because the object does not matter.
async fn answers(actor: &Actor, questions: &[Question]) -> Vec<Option<Answer>> {
    let mut seen_pairs = BTreeSet::new();
    let mut checks = Vec::new();
    for question in questions {
        let is_first = seen_pairs.insert((question.verb.as_str(), question.resource.as_str()));
        let is_requested = is_first || actor.is.is_some();
        checks
            .push(async move { if is_requested { Some(actor.send_question(question).await) } else { None } });
    }
    futures_util::stream::iter(checks).buffered(AT_ONCE).collect().await
}

/// Expected result according to the page.
fn expected(rights: &[Right], actor: &Actor, question: &Question) -> Answer {
    match actor.is {
        None => Answer::Unreached,
        Some(_) if rights.iter().any(|right| right.covers(actor, question)) => Answer::Allowed,
        Some(_) => Answer::Refused,
    }
}

fn letter(answer: Option<Answer>) -> char {
    match answer {
        Some(Answer::Allowed) => '+',
        Some(Answer::Refused) => '-',
        Some(Answer::Unreached) => '.',
        None => ' ',
    }
}

#[tokio::test]
async fn permissions_match_the_documented_matrix() {
    let bed = Bed::new().await;
    let rights = page::rights();
    // Record the keys first: later requests write the Node objects back unchanged.
    let actors = actors::all(&bed).await;
    let questions = questions::all(&bed).await;
    let mut columns = Vec::new();
    for actor in &actors {
        columns.push(answers(actor, &questions).await);
    }

    let mut table = String::new();
    for (number, actor) in actors.iter().enumerate() {
        writeln!(table, "{}{}", "| ".repeat(number), actor.title).unwrap();
    }
    let mut faults = Vec::new();
    for (at, question) in questions.iter().enumerate() {
        let mut row = String::new();
        for (actor, answers) in actors.iter().zip(&columns) {
            write!(row, "{} ", letter(answers[at])).unwrap();
            let expected = expected(&rights, actor, question);
            if let Some(found) = answers[at].filter(|found| *found != expected) {
                faults.push(format!("{}: {question}: {found:?}, not {expected:?}", actor.title));
            }
        }
        writeln!(table, "{row} {question}").unwrap();
    }
    let allowed = columns.iter().flatten().filter(|answer| **answer == Some(Answer::Allowed)).count();
    println!("{table}\n{} questions by {} actors, {allowed} allowed", questions.len(), actors.len());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));

    // Every resource and verb of the page must exist in discovery.
    let kinds: BTreeSet<&str> = questions.iter().map(|question| question.resource.as_str()).collect();
    for (right, what) in rights.iter().flat_map(|right| right.kinds.iter().map(move |kind| (right, kind))) {
        assert!(kinds.contains(what.as_str()), "no kind is called {what}");
        for verb in &right.verbs {
            let is_requested = questions.iter().any(|question| {
                question.verb == *verb && actors.iter().any(|actor| right.covers(actor, question))
            });
            assert!(is_requested, "no question to {verb} {what}");
        }
    }
}
