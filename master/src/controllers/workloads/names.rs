//! Names of pods and template hashes. Pure.

/// Letters of random and hashed names, as in stock Kubernetes: without vowels, so that no words occur, and without
/// digits that resemble them.
const SAFE_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Maximum length of the prefix of a generated name, as in the API server.
const PREFIX_LENGTH: usize = 58;
/// Length of the random end of a generated name.
const SUFFIX_LENGTH: usize = 5;

/// Returns one safe letter for each byte.
pub fn safe_letters(bytes: &[u8]) -> String {
    let letter = |byte: &u8| SAFE_LETTERS.get(usize::from(*byte) % SAFE_LETTERS.len()).copied();
    bytes.iter().filter_map(letter).map(char::from).collect()
}

/// Returns the `generateName` of an owner's pods.
pub fn prefix(owner: &str) -> String {
    format!("{owner}-")
}

/// Returns a name for a `generateName`, in the form in which the API server generates names. The controller chooses
/// the name, so that it can recognize the pod if the response is lost.
pub fn generate(prefix: &str, random: &[u8; 16]) -> String {
    let mut name = prefix.to_owned();
    name.truncate(name.floor_char_boundary(PREFIX_LENGTH));
    let random = random.get(..SUFFIX_LENGTH).unwrap_or_default();
    name + &safe_letters(random)
}

/// Returns the `generateName` of the pod of an owner with this completion index. A long name of the owner is cut, so
/// that the index stays.
pub fn indexed_prefix(owner: &str, index: u32) -> String {
    let index = format!("-{index}-");
    let mut name = owner.to_owned();
    name.truncate(name.floor_char_boundary(PREFIX_LENGTH.saturating_sub(index.len())));
    name + &index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_index() {
        assert_eq!(generate(&indexed_prefix("web", 3), &[0; 16]), "web-3-bbbbb");
        let long = generate(&indexed_prefix(&"w".repeat(80), 12), &[26; 16]);
        assert_eq!(long, "w".repeat(54) + "-12-99999");
    }

    #[test]
    fn names_have_the_form_of_generated_ones() {
        assert_eq!(generate(&prefix("web"), &[0; 16]), "web-bbbbb");
        let long = generate(&prefix(&"w".repeat(80)), &[26; 16]);
        assert_eq!(long, "w".repeat(58) + "99999");
    }
}
