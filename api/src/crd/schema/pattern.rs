//! Regular expressions of schemas.

use regex_lite::Regex;

/// A regular expression of a schema. Some patterns are accepted but not enforced.
#[derive(Debug)]
pub(in crate::crd) struct Pattern {
    pub text: Box<str>,
    /// `None` for a pattern with Unicode classes, whose tables would be too large. Such a pattern matches everything.
    regex: Option<Regex>,
}

impl Pattern {
    /// Parses a regular expression.
    ///
    /// # Errors
    /// If the parser rejects the pattern.
    pub fn read(text: &str) -> Result<Self, String> {
        let has_unicode_classes = text.contains("\\p") || text.contains("\\P");
        let regex = match Regex::new(text) {
            Ok(regex) => Some(regex),
            Err(_) if has_unicode_classes => None,
            Err(error) => return Err(error.to_string()),
        };
        Ok(Self { text: text.into(), regex })
    }

    /// True if any part of the text matches.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.as_ref().is_none_or(|regex| regex.is_match(text))
    }

    /// True if the pattern is enforced.
    pub fn is_enforced(&self) -> bool {
        self.regex.is_some()
    }
}
