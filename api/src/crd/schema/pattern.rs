//! Regular expressions of schemas.

use regex_lite::Regex;

/// A regular expression, or one that cannot be tried here.
#[derive(Debug)]
pub(in crate::crd) struct Pattern {
    pub text: Box<str>,
    /// `None` for one with classes of Unicode, whose tables would be larger than everything else: nothing is refused by it.
    regex: Option<Regex>,
}

impl Pattern {
    /// Reads a regular expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let has_unicode_classes = text.contains("\\p") || text.contains("\\P");
        let regex = match Regex::new(text) {
            Ok(regex) => Some(regex),
            Err(_) if has_unicode_classes => None,
            Err(error) => return Err(error.to_string()),
        };
        Ok(Self { text: text.into(), regex })
    }

    /// True when some part of the text matches.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.as_ref().is_none_or(|regex| regex.is_match(text))
    }

    /// True when it is tried at all.
    pub fn is_tried(&self) -> bool {
        self.regex.is_some()
    }
}
