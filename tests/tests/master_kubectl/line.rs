//! One line of the table: what is typed, for which kubectls, and what has to come of it.
//!
//! ```text
//! VERB [VERSIONS WORDS] TYPED => WORDS => WORDS
//! ```
//! The words must all be printed; `not WORDS` must not, of `WORDS | WORDS` one is enough, `\n` ends a line. With `[1.24..
//! WORDS]` the line is for kubectl 1.24 and newer: any older one must fail and print the words in brackets, so that what is
//! not tried says why. `{me}` is the name of the world, its namespace; quotes keep spaces; `<name` is a file to read from.

/// What is done with what is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It succeeds.
    Does,
    /// It fails.
    Fails,
    /// It succeeds, and what it prints replaces `{NAME}` in files and lines from then on; the first word is the name.
    Keeps,
    /// It goes on while other lines are typed, once the words are printed.
    Begins,
    /// What goes on prints the words, and is ended.
    Shows,
    /// What goes on ends by itself, successfully.
    Ends,
    /// A GET of that path at the port that what goes on has named.
    Fetches,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where it stands, from 1.
    pub number: usize,
    pub verb: Verb,
    /// The first minor version that knows this.
    pub since: u32,
    /// What older ones print.
    pub instead: Words,
    pub typed: String,
    pub words: Vec<Words>,
}

/// Words that are printed, or not.
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

    /// True when a kubectl of that version knows what is typed.
    pub fn is_known_to(&self, minor: u32) -> bool {
        minor >= self.since
    }
}

impl Words {
    /// Whether it is as these words have it, where `{me}` is that name.
    pub fn are_in(&self, printed: &str, me: &str) -> bool {
        let words = self.0.replace("{me}", me).replace("\\n", "\n");
        match words.strip_prefix("not ") {
            Some(words) => !printed.contains(words),
            None => words.split(" | ").any(|words| printed.contains(words)),
        }
    }
}

/// What is typed as the words a shell makes of it.
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
