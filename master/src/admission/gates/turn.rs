//! Whose turn it is to finish a pod: the cluster's gates are taken off from the first on. Pure.

use std::collections::HashSet;

/// The gates that an update takes off, in their order.
pub fn taken<'a>(old: &[&'a str], new: &[&str]) -> Vec<&'a str> {
    let left: HashSet<&str> = new.iter().copied().collect();
    old.iter().copied().filter(|gate| !left.contains(gate)).collect()
}

/// What is wrong with an update of gates, some of which are taken off in order only; the end of a sentence.
pub fn out_of_turn(old: &[&str], new: &[&str], is_ordered: impl Fn(&str) -> bool) -> Option<String> {
    let left: HashSet<&str> = new.iter().copied().collect();
    let mut behind = old.iter().copied().skip_while(|gate| !left.contains(gate));
    let first = behind.next()?;
    if let Some(early) = behind.clone().find(|gate| !left.contains(gate) && is_ordered(gate)) {
        return Some(format!("{early} may not be taken off yet: it is the turn of {first}"));
    }
    let kept = old.iter().filter(|gate| left.contains(*gate));
    let is_moved = new.iter().any(|gate| is_ordered(gate)) && !kept.eq(new);
    is_moved.then(|| format!("gates keep their order: it is the turn of {first}"))
}

#[cfg(test)]
mod tests {
    //! Gates in and out of turn.
    use super::*;

    #[test]
    fn the_first_is_taken_off_first() {
        let ordered = |gate: &str| gate == "a" || gate == "b";
        for (old, new, expected) in [
            ("a b mine", "a b mine", None),
            ("a b mine", "b mine", None),
            ("a b mine", "mine", None),
            ("a b mine", "", None),
            ("b", "", None),
            // A gate that somebody has brought along goes whenever it may.
            ("a b mine", "a b", None),
            ("a mine yours", "a yours", None),
            ("mine yours", "yours mine", None),
            ("a b mine", "a mine", Some("b may not be taken off yet: it is the turn of a")),
            ("a b mine", "a", Some("b may not be taken off yet: it is the turn of a")),
            ("mine a", "mine", Some("a may not be taken off yet: it is the turn of mine")),
            ("a b mine", "b a mine", Some("gates keep their order: it is the turn of a")),
            ("a b mine", "mine b", Some("gates keep their order: it is the turn of b")),
            // None comes: the kind says so.
            ("a", "a a", Some("gates keep their order: it is the turn of a")),
        ] {
            let split = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
            let said = out_of_turn(&split(old), &split(new), ordered);
            assert_eq!(said.as_deref(), expected, "{old} -> {new}");
        }
        assert_eq!(taken(&["a", "b", "c"], &["b"]), ["a", "c"]);
    }
}
