//! A line of the table: a command, the kubectl versions, and the expected output.
//!
//! ```text
//! VERB [VERSIONS WORDS] TYPED => WORDS => WORDS
//! ```
//! All words must be printed; `not WORDS` must not be; of `WORDS | WORDS` one is enough; `\n` ends a line. With
//! `[1.24.. WORDS]` the line is for kubectl 1.24 and newer: older versions must fail and print the words in brackets,
//! which shows why the line is not for them. `{me}` is the name of the world, its namespace; quotes keep spaces;
//! `<name` is an input file.

/// How a line is run and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It succeeds.
    Does,
    Fails,
    /// It succeeds, and its output replaces `{NAME}` in later files and lines; the first word is the name.
    Keeps,
    /// It prints the words and then continues in the background.
    Begins,
    /// The background command prints the words, and is stopped.
    Shows,
    /// The background command exits by itself, successfully.
    Ends,
    /// Sends a GET request for a path to the port that the background command has printed.
    Fetches,
}

#[derive(Clone, Debug)]
pub struct Line {
    /// Line number, from 1.
    pub number: usize,
    pub verb: Verb,
    /// The first minor version that supports the line.
    pub since: u32,
    /// Expected output of older versions.
    pub instead: Words,
    pub typed: String,
    pub words: Vec<Words>,
}

/// Words that must, or must not, be printed.
#[derive(Clone, Debug, Default)]
pub struct Words(String);

impl Line {
    /// All lines of a text.
    pub fn all(text: &str) -> Vec<Self> {
        let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|(number, line)| Self::read(number, line).unwrap_or_else(|| panic!("{number}: {line}")))
            .collect()
    }

    fn read(number: usize, line: &str) -> Option<Self> {
        let (verb, mut rest) = line.split_once(' ').unwrap_or((line, ""));
        let verb = match verb {
            "does" => Verb::Does,
            "fails" => Verb::Fails,
            "keeps" => Verb::Keeps,
            "begins" => Verb::Begins,
            "shows" => Verb::Shows,
            "ends" => Verb::Ends,
            "fetches" => Verb::Fetches,
            _ => return None,
        };
        let (mut since, mut instead) = (0, "");
        if let Some(bracket) = rest.strip_prefix("[1.") {
            let (versions, typed) = bracket.split_once("] ")?;
            let (version, words) = versions.split_once(".. ")?;
            (since, instead, rest) = (version.parse().ok()?, words, typed);
        }
        let mut parts = rest.split("=> ").map(str::trim);
        let typed = parts.next()?.to_owned();
        let words = parts.map(|words| Words(words.to_owned())).collect();
        Some(Self { number, verb, since, instead: Words(instead.to_owned()), typed, words })
    }

    /// Whether a kubectl of that version supports the line.
    pub fn is_known_to(&self, minor: u32) -> bool {
        minor >= self.since
    }
}

impl Words {
    /// Whether the output matches these words, with `{me}` replaced by the name.
    pub fn are_in(&self, printed: &str, me: &str) -> bool {
        let words = self.0.replace("{me}", me).replace("\\n", "\n");
        match words.strip_prefix("not ") {
            Some(words) => !printed.contains(words),
            None => words.split(" | ").any(|words| printed.contains(words)),
        }
    }
}

/// Splits a command into words as a shell does.
pub fn split(typed: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut is_word, mut is_quoted) = (String::new(), false, false);
    for letter in typed.chars() {
        match letter {
            '\'' => (is_quoted, is_word) = (!is_quoted, true),
            ' ' if !is_quoted => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            letter => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}
