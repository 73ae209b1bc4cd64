//! Which pods are where, counted by what is asked of them: for every term that some pod has, how many pods it means on each node
//! and for each value of its label, and who has it.
//!
//! Counts change with the pods. A pod finds the terms that mean it by its labels, so that neither placing nor looking goes over
//! all pods; a term that is new is counted once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::labels::{Labels, Selector};
use super::node::NodeId;
use super::pod::Pod;

/// Which pods: in these namespaces, or in those that the selector of namespaces selects, with such labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clause {
    /// Namespaces by their names.
    pub namespaces: Vec<String>,
    /// Namespaces by their labels.
    pub in_namespaces: Option<Selector>,
    /// Pods by their labels.
    pub selector: Selector,
}

/// Which pods (those that fulfil every clause), over the values of which label of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Term {
    /// Which pods.
    pub clauses: Vec<Clause>,
    /// The label of nodes.
    pub key: String,
    /// Pods that are being deleted do not count.
    pub skips_ending: bool,
}

/// Labels of namespaces.
pub type Namespaces = HashMap<String, Labels>;

impl Term {
    /// One clause over a label.
    pub fn of(clause: Clause, key: &str) -> Self {
        Self { clauses: vec![clause], key: key.to_owned(), skips_ending: false }
    }

    /// Whether it means that pod.
    pub fn means(&self, pod: &Pod, namespaces: &Namespaces) -> bool {
        if self.skips_ending && pod.wants.is_ending {
            return false;
        }
        self.clauses.iter().all(|clause| {
            let by_label = |selector: &Selector| {
                namespaces
                    .get(&pod.namespace)
                    .map_or_else(|| selector.0.is_empty(), |labels| selector.selects(labels))
            };
            (clause.namespaces.contains(&pod.namespace)
                || clause.in_namespaces.as_ref().is_some_and(by_label))
                && clause.selector.selects(&pod.wants.labels)
        })
    }

    fn goes_by_namespaces(&self) -> bool {
        self.clauses.iter().any(|clause| clause.in_namespaces.is_some())
    }

    fn exact(&self) -> Option<(&str, &str)> {
        self.clauses.iter().find_map(|clause| clause.selector.exact())
    }
}

/// Where pods are.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many the term means, by node.
    pub by_node: HashMap<NodeId, i64>,
    /// How many the term means, by value of its label.
    pub by_value: HashMap<String, i64>,
    /// How many have the term and bear nobody that it means near them, by value.
    pub repelling: HashMap<String, i64>,
    /// How much those that have the term want to be near whom it means, by value.
    pub drawing: HashMap<String, i64>,
    /// Somebody has asked for it since terms were last dropped.
    is_used: bool,
}

/// Every term that somebody has.
#[derive(Debug, Default)]
pub struct Terms {
    tallies: HashMap<Arc<Term>, Tally>,
    by_label: BTreeMap<String, BTreeMap<String, Vec<Arc<Term>>>>,
    /// Those that no one label tells.
    rest: Vec<Arc<Term>>,
    /// So many, and those that nobody has any more are dropped.
    most: usize,
}

/// Terms that are kept before any are looked for that nobody has.
const FEW: usize = 1024;

impl Terms {
    /// What is counted for a term; nothing where nobody has it.
    pub fn tally(&self, term: &Term) -> Option<&Tally> {
        self.tallies.get(term)
    }

    /// Notes that somebody asks for a term; false when it is not counted yet.
    pub fn uses(&mut self, term: &Term) -> bool {
        self.tallies.get_mut(term).map(|tally| tally.is_used = true).is_some()
    }

    /// Drops terms that nobody has any more, once there are many: no pod on a node, nor any that was looked at since the last time.
    pub fn make_room(&mut self) {
        if self.tallies.len() >= self.most.max(FEW) {
            self.sweep();
        }
    }

    /// Begins to count a term, whose pods so far are counted one by one by [`Self::count`].
    pub fn begin(&mut self, term: &Arc<Term>) {
        self.tallies.insert(term.clone(), Tally { is_used: true, ..Tally::default() });
        self.index(term);
    }

    /// Counts one pod more (or less) for a term that means it.
    pub fn count(&mut self, term: &Term, node: NodeId, labels: &Labels, change: i64) {
        if let Some(tally) = self.tallies.get_mut(term) {
            bump(&mut tally.by_node, &node, change);
            if let Some(value) = labels.get(&term.key) {
                bump_text(&mut tally.by_value, value, change);
            }
        }
    }

    /// The terms that mean that pod.
    pub fn meaning(&self, pod: &Pod, namespaces: &Namespaces) -> Vec<Arc<Term>> {
        let labelled = pod.wants.labels.iter();
        let labelled = labelled.filter_map(|(key, value)| self.by_label.get(key)?.get(value)).flatten();
        labelled.chain(&self.rest).filter(|term| term.means(pod, namespaces)).cloned().collect()
    }

    /// Counts a pod on a node in (`change` 1) or out (-1): for all the terms that mean it, and what it has itself.
    pub fn place(&mut self, pod: &Pod, namespaces: &Namespaces, node: NodeId, labels: &Labels, change: i64) {
        for term in self.meaning(pod, namespaces) {
            self.count(&term, node, labels, change);
        }
        for term in &pod.wants.apart {
            if let (Some(tally), Some(value)) = (self.tallies.get_mut(term), labels.get(&term.key)) {
                bump_text(&mut tally.repelling, value, change);
            }
        }
        for (weight, term) in &pod.wants.draws {
            if let (Some(tally), Some(value)) = (self.tallies.get_mut(term), labels.get(&term.key)) {
                bump_text(&mut tally.drawing, value, change * weight);
            }
        }
    }

    /// Forgets the counts of terms that go by the labels of namespaces, which changed, and says which those are.
    pub fn forget_by_namespaces(&mut self) -> Vec<Arc<Term>> {
        let concerned: Vec<Arc<Term>> =
            self.tallies.keys().filter(|term| term.goes_by_namespaces()).cloned().collect();
        for term in &concerned {
            if let Some(tally) = self.tallies.get_mut(term) {
                tally.by_node.clear();
                tally.by_value.clear();
            }
        }
        concerned
    }

    fn index(&mut self, term: &Arc<Term>) {
        match term.exact() {
            Some((key, value)) => {
                let values = self.by_label.entry(key.to_owned()).or_default();
                values.entry(value.to_owned()).or_default().push(term.clone());
            }
            None => self.rest.push(term.clone()),
        }
    }

    /// Who asks for one after it was dropped has it counted anew.
    fn sweep(&mut self) {
        self.tallies.retain(|_, tally| {
            let was_used = std::mem::take(&mut tally.is_used);
            was_used || !tally.repelling.is_empty() || !tally.drawing.is_empty()
        });
        self.by_label.clear();
        self.rest.clear();
        let kept: Vec<Arc<Term>> = self.tallies.keys().cloned().collect();
        kept.iter().for_each(|term| self.index(term));
        // By less than twice as many, or what is asked for once would stay for ever more of its like.
        self.most = kept.len() + (kept.len() / 2).max(FEW);
    }
}

fn bump(counts: &mut HashMap<NodeId, i64>, key: &NodeId, change: i64) {
    let count = counts.entry(*key).or_default();
    *count += change;
    if *count == 0 {
        counts.remove(key);
    }
}

fn bump_text(counts: &mut HashMap<String, i64>, key: &str, change: i64) {
    if let Some(count) = counts.get_mut(key) {
        *count += change;
        if *count == 0 {
            counts.remove(key);
        }
    } else if change != 0 {
        counts.insert(key.to_owned(), change);
    }
}

#[cfg(test)]
mod tests {
    //! Which terms are kept.
    use super::*;

    fn term(number: usize) -> Arc<Term> {
        Arc::new(Term::of(Clause::default(), &number.to_string()))
    }

    #[test]
    fn what_is_asked_for_again_and_again_is_counted_once_however_much_that_is() {
        let mut terms = Terms::default();
        let live: Vec<Arc<Term>> = (0..FEW * 3 / 2).map(term).collect();
        for round in 0..4 {
            for term in &live {
                terms.make_room();
                let is_known = terms.uses(term);
                assert_eq!(is_known, round > 0);
                if !is_known {
                    terms.begin(term);
                }
            }
        }
        // Others come and go, and do not stay.
        for number in 0..FEW * 20 {
            terms.make_room();
            if number % 256 == 0 {
                assert!(live.iter().all(|term| terms.uses(term)));
            }
            terms.begin(&term(FEW * 10 + number));
        }
        assert!(terms.tallies.len() < FEW * 6, "{}", terms.tallies.len());
    }
}
