//! Rules for text: length, pattern, format.

use serde_json::Value;

use super::words::{invalid, mistyped_value, too_long};
use super::{Walk, format};
use crate::crd::schema::Rules;
use crate::path::Path;

impl Walk {
    pub(super) fn text(&mut self, rules: &Rules, text: &str, path: &Path<'_>) {
        let name = || path.to_owned().to_string();
        if rules.length.least.is_some() || rules.length.most.is_some() {
            let length = text.chars().count() as u64;
            if let Some(most) = rules.length.most.filter(|most| length > *most) {
                self.add(too_long(&name(), most));
            }
            if let Some(least) = rules.length.least.filter(|least| length < *least) {
                let what = format!("should be at least {least} chars long");
                self.add(invalid(&name(), &Value::from(text), &what));
            }
        }
        if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
            self.add(invalid(&name(), &Value::from(text), &format!("should match '{}'", pattern.text)));
        }
        if let Some(format) = rules.format.as_deref().filter(|format| !format::fits(format, text)) {
            self.add(mistyped_value(&name(), format, text));
        }
    }
}
