//! Collects what is wrong with an object, in the words clients of Kubernetes know.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::cause::{Cause, Reason};
use super::place::Place;
use crate::quantity::Quantity;
use crate::validate::names;

/// How many causes are kept: more than anyone reads, few enough that a hostile object costs nothing.
const CAUSES_MAX: usize = 100;
/// Characters of a value that a message shows; the rest is in the object anyway.
const SHOWN_MAX: usize = 512;

/// What is said of a field that keeps the value it was made with.
pub(super) const IMMUTABLE: &str = "field is immutable";
/// What is said of a name that is no DNS subdomain.
pub(super) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com')";
/// What is said of a name that is no DNS label.
pub(super) const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', at most 63 of them, and must start and end with an alphanumeric character, after an optional DNS subdomain and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', at most 63 of them, and must start and end with an alphanumeric character (e.g. 'MyValue')";

/// What is wrong so far.
#[derive(Debug, Default)]
pub(super) struct Causes(Vec<Cause>);

impl Causes {
    /// What was found, in the order it was found.
    pub fn into_vec(self) -> Vec<Cause> {
        self.0
    }

    /// Adds a cause from elsewhere.
    pub fn push(&mut self, cause: Cause) {
        if self.0.len() < CAUSES_MAX {
            self.0.push(cause);
        }
    }

    /// The value makes no sense.
    pub fn invalid(&mut self, place: &Place<'_, '_>, why: &str) {
        self.push(Cause::invalid(place.path(), shown(place), why));
    }

    /// The value may not be there, or may not be changed.
    pub fn forbidden(&mut self, place: &Place<'_, '_>, why: &str) {
        self.push(Cause::forbidden(place.path(), why));
    }

    /// The value is there already.
    pub fn duplicate(&mut self, place: &Place<'_, '_>) {
        self.push(Cause::duplicate(place.path(), shown(place)));
    }

    /// A value is missing; `why` says what for and may be empty.
    pub fn missing(&mut self, place: &Place<'_, '_>, why: &str) {
        self.push(Cause::required(place.path(), why));
    }

    /// Something must stand there. True when it does.
    pub fn required(&mut self, place: &Place<'_, '_>, why: &str) -> bool {
        let is_there = !place.is_empty();
        if !is_there {
            self.missing(place, why);
        }
        is_there
    }

    /// One of these texts must stand there.
    pub fn one_of(&mut self, place: &Place<'_, '_>, known: &[&str]) {
        if self.required(place, "") {
            self.any_of(place, known);
        }
    }

    /// If anything stands there, then one of these texts.
    pub fn any_of(&mut self, place: &Place<'_, '_>, known: &[&str]) {
        if !place.is_absent() && !known.contains(&place.text()) {
            self.push(Cause::not_supported(place.path(), place.text(), known));
        }
    }

    /// Nothing may stand there.
    pub fn absent(&mut self, place: &Place<'_, '_>, why: &str) {
        if !place.is_empty() {
            self.forbidden(place, why);
        }
    }

    /// A number that stands there is none below zero.
    pub fn not_negative(&mut self, place: &Place<'_, '_>) {
        if place.number().is_some_and(|number| number < 0) {
            self.invalid(place, "must be greater than or equal to 0");
        }
    }

    /// A number that stands there is above zero.
    pub fn positive(&mut self, place: &Place<'_, '_>) {
        if place.number().is_some_and(|number| number <= 0) {
            self.invalid(place, "must be greater than zero");
        }
    }

    /// A number that stands there is one of these.
    pub fn within(&mut self, place: &Place<'_, '_>, least: i64, most: i64) {
        if place.number().is_some_and(|number| !(least..=most).contains(&number)) {
            self.invalid(place, &format!("must be between {least} and {most}, inclusive"));
        }
    }

    /// A list that stands there has so many elements at most.
    pub fn at_most(&mut self, place: &Place<'_, '_>, most: usize) {
        let count = place.len();
        if count > most {
            let message = format!("Too many: {count}: must have at most {most} items");
            self.push(Cause { field: place.path(), reason: Reason::TooMany, message });
        }
    }

    /// A text that stands there has so many bytes at most.
    pub fn no_longer(&mut self, place: &Place<'_, '_>, most: usize) {
        if place.text().len() > most {
            let message = format!("Too long: may not be more than {most} bytes");
            self.push(Cause { field: place.path(), reason: Reason::TooLong, message });
        }
    }

    /// The elements' texts at `field` differ from each other. With an empty `field`, the elements themselves.
    pub fn unique(&mut self, list: &Place<'_, '_>, field: &str) {
        let mut seen = std::collections::BTreeSet::new();
        for item in list.items() {
            let named = if field.is_empty() { item } else { item.at(field) };
            if !named.text().is_empty() && !seen.insert(named.text()) {
                self.duplicate(&named);
            }
        }
    }

    /// A text that stands there is a DNS subdomain.
    pub fn subdomain(&mut self, place: &Place<'_, '_>) {
        self.text(place, names::is_dns_subdomain, SUBDOMAIN);
    }

    /// A text that stands there is a DNS label.
    pub fn label(&mut self, place: &Place<'_, '_>) {
        self.text(place, names::is_dns_label, LABEL);
    }

    /// A text that stands there is the key of a label.
    pub fn qualified_name(&mut self, place: &Place<'_, '_>) {
        self.text(place, names::is_qualified_name, QUALIFIED);
    }

    /// A text that stands there is the value of a label.
    pub fn label_value(&mut self, place: &Place<'_, '_>) {
        self.text(place, names::is_label_value, LABEL_VALUE);
    }

    /// A text that stands there is a segment of a URL's path, as names of roles are.
    pub fn path_segment(&mut self, place: &Place<'_, '_>) {
        let is_segment = |name: &str| !matches!(name, "." | "..") && !name.contains(['/', '%']);
        self.text(place, is_segment, "may not be '.' or '..' and may not contain '/' or '%'");
    }

    /// A text that stands there is an IP address.
    pub fn ip(&mut self, place: &Place<'_, '_>) {
        let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
        self.text(place, is_ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }

    /// A text that stands there is a range of addresses.
    pub fn cidr(&mut self, place: &Place<'_, '_>) {
        self.text(place, is_cidr, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }

    /// An amount that stands there is none below nothing.
    pub fn amount(&mut self, place: &Place<'_, '_>) {
        if place.text().parse::<Quantity>().is_ok_and(Quantity::is_negative) {
            self.invalid(place, "must be greater than or equal to 0");
        }
    }

    /// A text that stands there is one that `is` says yes to.
    pub fn text(&mut self, place: &Place<'_, '_>, is: impl Fn(&str) -> bool, why: &str) {
        if !place.text().is_empty() && !is(place.text()) {
            self.invalid(place, why);
        }
    }

    /// What stands there is what stood there.
    pub fn unchanged(&mut self, new: &Place<'_, '_>, old: &Place<'_, '_>) {
        if new.value() != old.value() {
            self.invalid(new, IMMUTABLE);
        }
    }

    /// The fields are what they were.
    pub fn frozen(&mut self, new: &Place<'_, '_>, old: &Place<'_, '_>, fields: &[&str]) {
        for field in fields {
            self.unchanged(&new.at(field), &old.at(field));
        }
    }
}

fn shown(place: &Place<'_, '_>) -> String {
    shown_value(place.value())
}

/// A value as messages show it.
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
