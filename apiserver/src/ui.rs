//! The page at `/ui/`: static files that read the Kubernetes API with the credentials of the browser. Node and master
//! serve the same files.
//!
//! The files hold no data and are public, because a client that pastes a token needs the page first. They contain no
//! inline scripts or styles, and load nothing from other servers (`POLICY`).

use std::io::Write as _;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use ring::digest::{SHA256, digest};

use crate::Status;

/// Content-Security-Policy of every file.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
/// Browsers revalidate by `ETag` on every load, so that a page never mixes files of two versions.
const CACHE: &str = "no-cache";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
/// Name, media type and content of each file. The first one is the page.
const FILES: [(&str, &str, &str); 16] = [
    ("index.html", HTML, include_str!("ui/index.html")),
    ("style.css", CSS, include_str!("ui/style.css")),
    ("icon.svg", SVG, include_str!("ui/icon.svg")),
    ("boot.js", SCRIPT, include_str!("ui/boot.js")),
    ("main.js", SCRIPT, include_str!("ui/main.js")),
    ("api.js", SCRIPT, include_str!("ui/api.js")),
    ("dom.js", SCRIPT, include_str!("ui/dom.js")),
    ("format.js", SCRIPT, include_str!("ui/format.js")),
    ("overview.js", SCRIPT, include_str!("ui/overview.js")),
    ("pods.js", SCRIPT, include_str!("ui/pods.js")),
    ("pod.js", SCRIPT, include_str!("ui/pod.js")),
    ("logs.js", SCRIPT, include_str!("ui/logs.js")),
    ("images.js", SCRIPT, include_str!("ui/images.js")),
    ("nodes.js", SCRIPT, include_str!("ui/nodes.js")),
    ("volumes.js", SCRIPT, include_str!("ui/volumes.js")),
    ("tables.js", SCRIPT, include_str!("ui/tables.js")),
];

/// The files as they are sent, prepared at the first request.
static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| FILES.iter().map(Asset::new).collect());

/// A file with its tag and its compressed form.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static str,
    /// Content in gzip. `None` if it cannot be compressed.
    compressed: Option<Bytes>,
    /// A digest of the content, in quotes (RFC 9110).
    tag: String,
}

impl Asset {
    fn new((name, media_type, content): &(&'static str, &'static str, &'static str)) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(content.as_bytes());
        let compressed = written.and_then(|()| encoder.finish()).ok().map(Bytes::from);
        let digest = URL_SAFE_NO_PAD.encode(digest(&SHA256, content.as_bytes()));
        Self { name, media_type, content, compressed, tag: format!("\"{digest}\"") }
    }

    fn answer(&self, request: &HeaderMap) -> Response {
        let has = |name: HeaderName, wanted: &str| {
            request.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| {
                value.split(',').any(|one| one.trim().trim_start_matches("W/") == wanted)
            })
        };
        let mut response = if has(header::IF_NONE_MATCH, &self.tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            match &self.compressed {
                Some(compressed) if has(header::ACCEPT_ENCODING, "gzip") => {
                    ([(header::CONTENT_ENCODING, "gzip")], compressed.clone()).into_response()
                }
                Some(_) | None => self.content.into_response(),
            }
        };
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, self.media_type),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CACHE_CONTROL, CACHE),
            (header::VARY, "Accept-Encoding"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }
}

/// The router of `/ui` and the paths below it. It needs no authentication.
pub fn router() -> Router {
    Router::new()
        // The location is relative, so that it also leads to the page below the path of a proxy.
        .route("/ui", get(|| async { (StatusCode::FOUND, [(header::LOCATION, "ui/")]) }))
        .route("/ui/", get(async |headers: HeaderMap| file("index.html", &headers)))
        .route("/ui/{name}", get(async |Path(name): Path<String>, headers: HeaderMap| file(&name, &headers)))
}

/// Whether a path is that of the page or one of its files, which are public.
pub fn is_public(path: &str) -> bool {
    path == "/ui"
        || path
            .strip_prefix("/ui/")
            .is_some_and(|name| name.is_empty() || FILES.iter().any(|(known, ..)| *known == name))
}

fn file(name: &str, request: &HeaderMap) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => asset.answer(request),
        None => Status::no_such_path().into_response(),
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the static files and their headers.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn files_contain_no_inline_code_and_name_no_other_server() {
        for (name, _, content) in FILES {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "https://",
                "<style",
            ] {
                assert!(!content.contains(forbidden), "{name} contains {forbidden}");
            }
            assert!(!content.contains("http://") || content.contains("http://www.w3.org/2000/svg"), "{name}");
        }
        let (_, _, page) = FILES[0];
        assert!(!page.contains("<script>") && !page.contains(" style=") && !page.contains(" onclick="));
    }

    #[test]
    fn files_have_strict_headers_and_are_revalidated_by_tag() {
        let answer = file("index.html", &HeaderMap::new());
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(
            answer.headers()[header::CONTENT_SECURITY_POLICY]
                .to_str()
                .unwrap()
                .contains("default-src 'none'")
        );
        assert_eq!(answer.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(answer.headers()[header::REFERRER_POLICY], "no-referrer");
        let mut again = HeaderMap::new();
        again.insert(header::IF_NONE_MATCH, answer.headers()[header::ETAG].clone());
        assert_eq!(file("index.html", &again).status(), StatusCode::NOT_MODIFIED);
        let mut compressed = HeaderMap::new();
        compressed.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip"));
        assert_eq!(file("main.js", &compressed).headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(file("other.js", &HeaderMap::new()).status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn only_the_page_and_its_files_are_public() {
        for path in ["/ui", "/ui/", "/ui/index.html", "/ui/main.js"] {
            assert!(is_public(path), "{path}");
        }
        for path in ["/", "/uix", "/ui/../api", "/ui/%2e%2e/api", "/ui//", "/ui/main.js/a", "/api/v1/pods"] {
            assert!(!is_public(path), "{path}");
        }
    }
}
