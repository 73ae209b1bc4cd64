//! The known name nearest to one that is not known.

/// The candidate that `name` is most likely a slip of: another case, a letter off, letters swapped. `None` when nothing is near.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(name);
    candidates
        .filter_map(|candidate| {
            let known = folded(candidate);
            let distance = strsim::damerau_levenshtein(&wanted, &known);
            let longest = wanted.chars().count().max(known.chars().count());
            // A third of the letters may be wrong; a plural or a prefix of a long name counts as one slip.
            let extends = longest >= 5 && (known.starts_with(&wanted) || wanted.starts_with(&known));
            let near = distance * 3 <= longest || (extends && distance <= 4);
            near.then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Upper case, `_` and `-` make no other word: `host_path` is a slip of `hostPath`.
fn folded(name: &str) -> String {
    // A name longer than any field is no slip of one; cutting it keeps the comparison short.
    name.chars().filter(|c| !matches!(c, '_' | '-')).take(64).flat_map(char::to_lowercase).collect()
}
