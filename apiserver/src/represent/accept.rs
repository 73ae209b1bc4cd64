//! Parses the header `Accept`: the encodings and shapes that a client accepts.

use std::cmp::Reverse;

use http::{HeaderMap, header};

use crate::request::header_values;
use crate::status::Status;

/// Versions of aggregated discovery, with media type and API version.
const DISCOVERY: [(&str, (&str, &str)); 2] = [
    (
        "v2",
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
    ),
    (
        "v2beta1",
        (
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
            "apidiscovery.k8s.io/v2beta1",
        ),
    ),
];

/// Encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// The encoding JSON.
    Json,
    /// YAML, not available for watches.
    Yaml,
    /// Kubernetes protobuf, for built-in kinds only.
    Protobuf,
}

/// What a response contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum As {
    /// The object itself.
    Object,
    /// A `Table`.
    Table(MetaVersion),
    /// A `PartialObjectMetadata`.
    Metadata(MetaVersion),
}

/// Version of `meta.k8s.io`; both have the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    /// Version `v1`.
    V1,
    /// Version `v1beta1`, requested by clients before Kubernetes 1.15.
    V1beta1,
}

/// The encoding and shape of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// The encoding of the response.
    pub encoding: Encoding,
    /// What the response contains.
    pub shape: As,
}

/// The formats that the server can send for a request.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// True if the kind has a protobuf message.
    pub has_message: bool,
    /// True if the response is a watch.
    pub is_stream: bool,
}

/// The formats that a client accepts, best first.
#[derive(Clone, Debug)]
pub struct Accept {
    formats: Vec<Format>,
    /// Media type and API version of aggregated discovery, if the client accepts it.
    pub discovery: Option<(&'static str, &'static str)>,
}

impl MetaVersion {
    /// `apiVersion` of a Table or PartialObjectMetadata.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

impl Encoding {
    /// Content-Type of responses other than watches.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => api::protobuf::CONTENT_TYPE,
        }
    }
}

impl Format {
    /// The object itself as JSON.
    pub const JSON: Self = Self { encoding: Encoding::Json, shape: As::Object };

    fn is_offered(self, offer: Offer) -> bool {
        match (self.encoding, self.shape) {
            (Encoding::Json, _) => true,
            (Encoding::Yaml, _) => !offer.is_stream,
            (Encoding::Protobuf, As::Object) => offer.has_message,
            (Encoding::Protobuf, As::Metadata(_)) => true,
            // Table cells are arbitrary JSON, which protobuf cannot express.
            (Encoding::Protobuf, As::Table(_)) => false,
        }
    }
}

impl Accept {
    /// Parses the header; without one, JSON is accepted.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut items: Vec<(Reverse<u32>, &str)> = header_values(headers, header::ACCEPT)
            .map(|item| (Reverse(quality(item)), item))
            .filter(|(quality, _)| quality.0 > 0)
            .collect();
        // Stable sort: the first of several items with equal quality wins.
        items.sort_by_key(|(quality, _)| *quality);
        let mut accept = Self { formats: Vec::new(), discovery: None };
        if !headers.contains_key(header::ACCEPT) {
            accept.formats.push(Format::JSON);
        }
        for (_, item) in items {
            accept.add(item);
        }
        accept
    }

    fn add(&mut self, item: &str) {
        let mut parts = item.split(';').map(str::trim);
        let encoding = match parts.next().unwrap_or_default() {
            "application/json" | "application/*" | "*/*" | "" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            api::protobuf::CONTENT_TYPE => Encoding::Protobuf,
            _ => return,
        };
        let parameters: Vec<&str> = parts.collect();
        let value = |name: &str| {
            parameters.iter().find_map(|p| p.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
        };
        let (kind, group, version) = (value("as"), value("g"), value("v"));
        let meta = match (group, version) {
            ("meta.k8s.io", "v1") => Some(MetaVersion::V1),
            ("meta.k8s.io", "v1beta1") => Some(MetaVersion::V1beta1),
            _ => None,
        };
        let shape = match (kind, meta) {
            ("", _) => As::Object,
            ("Table", Some(version)) => As::Table(version),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", Some(version)) => As::Metadata(version),
            ("APIGroupDiscoveryList", _) if group == "apidiscovery.k8s.io" && encoding == Encoding::Json => {
                let known = DISCOVERY.iter().find(|(known, _)| *known == version);
                self.discovery = self.discovery.or(known.map(|(_, document)| *document));
                return;
            }
            _ => return,
        };
        self.formats.push(Format { encoding, shape });
    }

    /// The best format that the server can send.
    ///
    /// # Errors
    /// 406 if there is none.
    pub fn format(&self, offer: Offer) -> Result<Format, Status> {
        let offered = self.formats.iter().find(|format| format.is_offered(offer));
        offered.copied().ok_or_else(Status::not_acceptable)
    }

    /// The encoding of errors; JSON if the client accepts none.
    pub fn of_errors(&self) -> Encoding {
        let plain = self.formats.iter().find(|format| format.shape == As::Object);
        plain.map_or(Encoding::Json, |format| format.encoding)
    }
}

/// The parameter `q` in thousandths.
fn quality(item: &str) -> u32 {
    let value = item.split(';').find_map(|part| part.trim().strip_prefix("q="));
    let value = value.map_or(Ok(1.0), |value| value.trim().parse::<f32>());
    (value.unwrap_or(0.0).clamp(0.0, 1.0) * 1000.0) as u32
}

#[cfg(test)]
mod tests {
    //! Tests of `Accept` headers.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn chosen(accept: &str, has_message: bool, is_stream: bool) -> String {
        let headers = [(header::ACCEPT, accept.parse().unwrap())].into_iter().collect();
        match Accept::of(&headers).format(Offer { has_message, is_stream }) {
            Ok(Format { encoding, shape }) => format!("{encoding:?} {shape:?}"),
            Err(status) => status.code.to_string(),
        }
    }

    #[test]
    fn best_supported_format_of_accept_is_selected() {
        const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
        let of_client_go = format!("{PROTOBUF},application/json");
        let of_metadata =
            format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");
        let of_table = format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1, application/json");
        for (accept, has_message, is_stream, expected) in [
            ("application/json", true, false, "Json Object"),
            ("*/*", true, false, "Json Object"),
            (PROTOBUF, true, false, "Protobuf Object"),
            (PROTOBUF, true, true, "Protobuf Object"),
            (PROTOBUF, false, false, "406"),
            (&of_client_go, true, true, "Protobuf Object"),
            (&of_client_go, false, true, "Json Object"),
            (&of_metadata, false, true, "Protobuf Metadata(V1)"),
            (&of_table, true, false, "Json Object"),
            ("application/yaml", false, false, "Yaml Object"),
            ("application/yaml", false, true, "406"),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", true, false, "Json Table(V1beta1)"),
            ("application/json;as=Table;v=v2;g=meta.k8s.io", true, false, "406"),
            ("application/json;q=0.1,application/yaml;q=0.9", true, false, "Yaml Object"),
            ("application/json;q=0", true, false, "406"),
            ("text/html", true, false, "406"),
        ] {
            assert_eq!(chosen(accept, has_message, is_stream), expected, "{accept}");
        }
    }
}
