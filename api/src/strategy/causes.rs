//! Collects validation errors with the messages of the stock API server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::cause::{Cause, Reason};
use super::field_value::FieldValue;
use crate::quantity::Quantity;
use crate::validate::names;

/// Limit for the causes of one object, so that a hostile object stays cheap.
const CAUSES_MAX: usize = 100;
/// Limit for the characters of a value in a message.
const SHOWN_MAX: usize = 512;

/// The message for a changed immutable field.
pub(super) const IMMUTABLE: &str = "field is immutable";
/// The message for a name that is not a DNS subdomain.
pub(super) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com')";
/// The message for a name that is not a DNS label.
pub(super) const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name')";
const NOT_A_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', at most 63 of them, and must start and end with an alphanumeric character, after an optional DNS subdomain and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', at most 63 of them, and must start and end with an alphanumeric character (e.g. 'MyValue')";

/// The causes found so far.
#[derive(Debug, Default)]
pub(super) struct Causes(Vec<Cause>);

impl Causes {
    /// Returns the causes in the order in which they were added.
    pub fn into_vec(self) -> Vec<Cause> {
        self.0
    }

    /// Adds an existing cause.
    pub fn push(&mut self, cause: Cause) {
        if self.0.len() < CAUSES_MAX {
            self.0.push(cause);
        }
    }

    /// Reports an invalid value.
    pub fn invalid(&mut self, place: &FieldValue<'_, '_>, why: &str) {
        self.push(Cause::invalid(place.path(), shown(place), why));
    }

    /// Reports a value that must not be set or changed.
    pub fn forbidden(&mut self, place: &FieldValue<'_, '_>, why: &str) {
        self.push(Cause::forbidden(place.path(), why));
    }

    /// Reports a duplicate.
    pub fn duplicate(&mut self, place: &FieldValue<'_, '_>) {
        self.push(Cause::duplicate(place.path(), shown(place)));
    }

    /// Reports a missing value. `why` may be empty.
    pub fn missing(&mut self, place: &FieldValue<'_, '_>, why: &str) {
        self.push(Cause::required(place.path(), why));
    }

    /// Requires a non-empty value. Returns true if there is one.
    pub fn required(&mut self, place: &FieldValue<'_, '_>, why: &str) -> bool {
        let is_there = !place.is_empty();
        if !is_there {
            self.missing(place, why);
        }
        is_there
    }

    /// Requires one of these strings.
    pub fn one_of(&mut self, place: &FieldValue<'_, '_>, known: &[&str]) {
        if self.required(place, "") {
            self.any_of(place, known);
        }
    }

    /// Requires one of these strings, if there is a value.
    pub fn any_of(&mut self, place: &FieldValue<'_, '_>, known: &[&str]) {
        if !place.is_absent() && !known.contains(&place.text()) {
            self.push(Cause::not_supported(place.path(), place.text(), known));
        }
    }

    /// Requires that there is no value.
    pub fn absent(&mut self, place: &FieldValue<'_, '_>, why: &str) {
        if !place.is_empty() {
            self.forbidden(place, why);
        }
    }

    /// Requires a number of at least 0, if there is one.
    pub fn not_negative(&mut self, place: &FieldValue<'_, '_>) {
        if place.number().is_some_and(|number| number < 0) {
            self.invalid(place, "must be greater than or equal to 0");
        }
    }

    /// Requires a number above 0, if there is one.
    pub fn positive(&mut self, place: &FieldValue<'_, '_>) {
        if place.number().is_some_and(|number| number <= 0) {
            self.invalid(place, "must be greater than zero");
        }
    }

    /// Requires a number within a range, if there is one.
    pub fn within(&mut self, place: &FieldValue<'_, '_>, least: i64, most: i64) {
        if place.number().is_some_and(|number| !(least..=most).contains(&number)) {
            self.invalid(place, &format!("must be between {least} and {most}, inclusive"));
        }
    }

    /// Limits the number of list elements.
    pub fn at_most(&mut self, place: &FieldValue<'_, '_>, most: usize) {
        let count = place.len();
        if count > most {
            let message = format!("Too many: {count}: must have at most {most} items");
            self.push(Cause { field: place.path(), reason: Reason::TooMany, message });
        }
    }

    /// Limits the length of a string in bytes.
    pub fn no_longer(&mut self, place: &FieldValue<'_, '_>, most: usize) {
        if place.text().len() > most {
            let message = format!("Too long: may not be more than {most} bytes");
            self.push(Cause { field: place.path(), reason: Reason::TooLong, message });
        }
    }

    /// Requires that the strings at `field` differ between the elements. An empty `field` is the element itself.
    pub fn unique(&mut self, list: &FieldValue<'_, '_>, field: &str) {
        let mut seen = std::collections::BTreeSet::new();
        for item in list.items() {
            let named = if field.is_empty() { item } else { item.at(field) };
            if !named.text().is_empty() && !seen.insert(named.text()) {
                self.duplicate(&named);
            }
        }
    }

    /// Requires a DNS subdomain, if there is a string.
    pub fn subdomain(&mut self, place: &FieldValue<'_, '_>) {
        self.text(place, names::is_dns_subdomain, SUBDOMAIN);
    }

    /// Requires a DNS label, if there is a string.
    pub fn label(&mut self, place: &FieldValue<'_, '_>) {
        self.text(place, names::is_dns_label, LABEL);
    }

    /// Requires a qualified name (label key), if there is a string.
    pub fn qualified_name(&mut self, place: &FieldValue<'_, '_>) {
        self.text(place, names::is_qualified_name, QUALIFIED);
    }

    /// Requires a label value, if there is a string.
    pub fn label_value(&mut self, place: &FieldValue<'_, '_>) {
        self.text(place, names::is_label_value, LABEL_VALUE);
    }

    /// Requires a valid URL path segment, as for names of roles.
    pub fn path_segment(&mut self, place: &FieldValue<'_, '_>) {
        let is_segment = |name: &str| !matches!(name, "." | "..") && !name.contains(['/', '%']);
        self.text(place, is_segment, "may not be '.' or '..' and may not contain '/' or '%'");
    }

    /// Requires an IP address, if there is a string.
    pub fn ip(&mut self, place: &FieldValue<'_, '_>) {
        let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
        self.text(place, is_ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }

    /// Requires a CIDR, if there is a string.
    pub fn cidr(&mut self, place: &FieldValue<'_, '_>) {
        self.text(place, is_cidr, NOT_A_CIDR);
    }

    /// Requires a CIDR between optional white space, which `loadBalancerSourceRanges` permits.
    pub fn padded_cidr(&mut self, place: &FieldValue<'_, '_>) {
        self.text(place, |text| is_cidr(text.trim()), NOT_A_CIDR);
    }

    /// Requires a non-negative quantity, if there is one.
    pub fn amount(&mut self, place: &FieldValue<'_, '_>) {
        if place.text().parse::<Quantity>().is_ok_and(Quantity::is_negative) {
            self.invalid(place, "must be greater than or equal to 0");
        }
    }

    /// Requires that `is` returns true, if there is a string.
    pub fn text(&mut self, place: &FieldValue<'_, '_>, is: impl Fn(&str) -> bool, why: &str) {
        if !place.text().is_empty() && !is(place.text()) {
            self.invalid(place, why);
        }
    }

    /// Requires that the value did not change.
    pub fn unchanged(&mut self, new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>) {
        if new.value() != old.value() {
            self.invalid(new, IMMUTABLE);
        }
    }

    /// Requires that these fields did not change.
    pub fn immutable(&mut self, new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, fields: &[&str]) {
        for field in fields {
            self.unchanged(&new.at(field), &old.at(field));
        }
    }
}

fn shown(place: &FieldValue<'_, '_>) -> String {
    shown_value(place.value())
}

/// Formats a value for messages; long values are truncated.
pub(super) fn shown_value(value: &Value) -> String {
    let whole = value.to_string();
    match whole.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &whole[..end]),
        None => whole,
    }
}

/// True for `address/bits`.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    bits.len() <= 3
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && bits.parse().is_ok_and(|bits: u32| bits <= most)
}
