//! CEL library for named formats: `format.named('dns1123Label').value().validate(self)`.

use std::sync::Arc;

use cel::arguments::{own, text};
use cel::{Error, Function, Kind, Returns, Type, Value, function, method};

use super::foreign;
use crate::string_format;
use crate::validate::names;

const NAME: &str = "kubernetes.NamedFormat";
const FORMAT: Returns = Returns::Is(Type::Opaque(NAME));
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const WORD: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A format of the CEL library `format`, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form(&'static str);

foreign!(Form, NAME);

/// The names of all formats.
const FORMS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub(super) static FUNCTIONS: &[Function] = &[
    function("format.named", &[Kind::Text], Returns::OptionalIs(Type::Opaque(NAME)), |of, _| {
        let name = text(of, 0)?;
        let form = FORMS.iter().find(|form| **form == name);
        Ok(Value::Optional(form.map(|form| Arc::new(Value::opaque(Form(form))))))
    }),
    function("format.dns1123Label", &[], FORMAT, |_, _| Ok(Value::opaque(Form("dns1123Label")))),
    function("format.dns1123Subdomain", &[], FORMAT, |_, _| Ok(Value::opaque(Form("dns1123Subdomain")))),
    function("format.dns1035Label", &[], FORMAT, |_, _| Ok(Value::opaque(Form("dns1035Label")))),
    function("format.qualifiedName", &[], FORMAT, |_, _| Ok(Value::opaque(Form("qualifiedName")))),
    function("format.dns1123LabelPrefix", &[], FORMAT, |_, _| Ok(Value::opaque(Form("dns1123LabelPrefix")))),
    function("format.dns1123SubdomainPrefix", &[], FORMAT, |_, _| {
        Ok(Value::opaque(Form("dns1123SubdomainPrefix")))
    }),
    function("format.dns1035LabelPrefix", &[], FORMAT, |_, _| Ok(Value::opaque(Form("dns1035LabelPrefix")))),
    function("format.labelValue", &[], FORMAT, |_, _| Ok(Value::opaque(Form("labelValue")))),
    function("format.uri", &[], FORMAT, |_, _| Ok(Value::opaque(Form("uri")))),
    function("format.uuid", &[], FORMAT, |_, _| Ok(Value::opaque(Form("uuid")))),
    function("format.byte", &[], FORMAT, |_, _| Ok(Value::opaque(Form("byte")))),
    function("format.date", &[], FORMAT, |_, _| Ok(Value::opaque(Form("date")))),
    function("format.datetime", &[], FORMAT, |_, _| Ok(Value::opaque(Form("datetime")))),
    method("validate", &[Kind::Opaque(NAME), Kind::Text], Returns::OptionalIs(Type::Dyn), |of, budget| {
        let (form, text): (&Form, &str) = (own(of, 0)?, text(of, 1)?);
        budget.charge_bytes(text.len())?;
        let wrong = wrong(form.0, text).map(|why| Arc::new(Value::list(vec![Value::from(why)])));
        Ok::<Value, Error>(Value::Optional(wrong))
    }),
];

/// The error for a text that does not match the format.
fn wrong(form: &str, text: &str) -> Option<String> {
    // A prefix may end in a dash, because a suffix follows it.
    let (form, text) = match form.strip_suffix("Prefix") {
        Some(whole) => (whole, text.strip_suffix('-').unwrap_or(text)),
        None => (form, text),
    };
    let why = match form {
        "dns1123Label" => (!names::is_dns_label(text)).then_some(LABEL),
        "dns1123Subdomain" => (!names::is_dns_subdomain(text)).then_some(SUBDOMAIN),
        "dns1035Label" => {
            let is_fine = names::is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
            (!is_fine).then_some(LABEL_1035)
        }
        "labelValue" => (!names::is_label_value(text)).then_some(WORD),
        "qualifiedName" => (!names::is_qualified_name(text)).then_some(WORD),
        form => (!string_format::fits(form, text)).then_some("does not match the format"),
    };
    why.map(str::to_owned)
}
