//! Validates `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::Value;

use super::Walk;
use crate::crd::schema::{Schema, ValueValidation};
use crate::path::Path;
use crate::strategy::Cause;

impl Walk {
    pub(super) fn combinations(&mut self, rules: &ValueValidation, value: &Value, path: &Path<'_>) {
        if !rules.combines() {
            return;
        }
        let tried =
            |parts: &[Schema]| parts.iter().map(|part| part.check_value(value, path)).collect::<Vec<_>>();
        let name = path.to_owned().to_string();
        if !rules.any_of.is_empty() {
            let tried = tried(&rules.any_of);
            if !tried.iter().any(Vec::is_empty) {
                self.combined(&name, "must validate at least one schema (anyOf)");
                self.nearest(tried);
            }
        }
        if !rules.one_of.is_empty() {
            let tried = tried(&rules.one_of);
            match tried.iter().filter(|causes| causes.is_empty()).count() {
                0 => {
                    self.combined(&name, "must validate one and only one schema (oneOf). Found none valid");
                    self.nearest(tried);
                }
                1 => {}
                several => self.combined(
                    &name,
                    &format!(
                        "must validate one and only one schema (oneOf). Found {several} valid alternatives"
                    ),
                ),
            }
        }
        let failed: Vec<Vec<Cause>> =
            tried(&rules.all_of).into_iter().filter(|causes| !causes.is_empty()).collect();
        if !failed.is_empty() {
            let none = if failed.len() == rules.all_of.len() { ". None validated" } else { "" };
            self.combined(&name, &format!("must validate all the schemas (allOf){none}"));
            failed.into_iter().flatten().for_each(|cause| self.add(cause));
        }
        if let Some(not) = &rules.not
            && not.check_value(value, path).is_empty()
        {
            self.combined(&name, "must not validate the schema (not)");
        }
    }

    fn combined(&mut self, name: &str, what: &str) {
        self.add(Cause::invalid(name, "\"\"", &format!("\"{name}\" {what}")));
    }

    /// Adds the errors of the alternative with the fewest errors, which is most likely the intended one.
    fn nearest(&mut self, tried: Vec<Vec<Cause>>) {
        let nearest = tried.into_iter().min_by_key(Vec::len);
        nearest.into_iter().flatten().for_each(|cause| self.add(cause));
    }
}
