//! DER encoding that rcgen lacks: names with repeated attributes.

use rcgen::SigningKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The OID of the common name (CN), 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// The OID of the organization (O), 2.5.4.10.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;

/// Encodes a name with these organizations (O), in order, and the common name.
pub fn name(common_name: &str, organizations: &[String]) -> Vec<u8> {
    let attribute = |kind: &[u8], value: &str| {
        let pair = [tagged(OBJECT_IDENTIFIER, kind), tagged(UTF8_STRING, value.as_bytes())].concat();
        tagged(SET, &tagged(SEQUENCE, &pair))
    };
    let organizations = organizations.iter().map(|o| attribute(ORGANIZATION, o));
    let parts: Vec<u8> = organizations.chain([attribute(COMMON_NAME, common_name)]).flatten().collect();
    tagged(SEQUENCE, &parts)
}

/// Replaces the issuer and subject of a certificate (both DER) and signs it again.
///
/// # Errors
/// If the certificate cannot be parsed or the key cannot sign.
pub fn rename(
    certificate: &[u8],
    issuer: &[u8],
    subject: &[u8],
    key: &impl SigningKey,
) -> Result<Vec<u8>, String> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let signed: &[u8] = parsed.tbs_certificate.as_ref();
    let lost = || "a name of the certificate is not at its expected position".to_owned();
    let old_issuer = place(signed, parsed.issuer().as_raw()).ok_or_else(lost)?;
    let old_subject = place(signed, parsed.subject().as_raw()).ok_or_else(lost)?;
    let content_start = signed.len() - content_length(signed).ok_or_else(lost)?;
    let content = [
        signed.get(content_start..old_issuer.start).ok_or_else(lost)?,
        issuer,
        signed.get(old_issuer.end..old_subject.start).ok_or_else(lost)?,
        subject,
        signed.get(old_subject.end..).ok_or_else(lost)?,
    ]
    .concat();
    let signed_content = tagged(SEQUENCE, &content);
    let signature = key.sign(&signed_content).map_err(|error| error.to_string())?;
    // The signed part is followed by the algorithm, which does not change, since the key is the same.
    let outside = certificate.get(certificate.len() - content_length(certificate).ok_or_else(lost)?..);
    let after = outside.and_then(|outside| outside.get(signed.len()..)).ok_or_else(lost)?;
    let algorithm = first(after).ok_or_else(lost)?;
    let bits = [&[0], signature.as_slice()].concat();
    Ok(tagged(SEQUENCE, &[signed_content.as_slice(), algorithm, &tagged(BIT_STRING, &bits)].concat()))
}

/// The position of a subslice in a slice.
fn place(whole: &[u8], part: &[u8]) -> Option<std::ops::Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

/// The length of the content of the outermost element. The element spans the whole slice.
fn content_length(element: &[u8]) -> Option<usize> {
    let first = usize::from(*element.get(1)?);
    let head = if first < 0x80 { 2 } else { 2 + (first & 0x7f) };
    element.len().checked_sub(head)
}

/// The first element of several.
fn first(elements: &[u8]) -> Option<&[u8]> {
    let short = usize::from(*elements.get(1)?);
    // Algorithm identifiers are short.
    if short < 0x80 { elements.get(..2 + short) } else { None }
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut element = vec![tag];
    let length = content.len();
    if length < 0x80 {
        element.push(length.to_le_bytes()[0]);
    } else {
        let bytes = length.to_be_bytes();
        let digits = bytes.iter().skip_while(|byte| **byte == 0).copied().collect::<Vec<_>>();
        element.push(0x80 | digits.len().to_le_bytes()[0]);
        element.extend(digits);
    }
    element.extend_from_slice(content);
    element
}
