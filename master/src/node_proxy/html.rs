//! Rewrites links in HTML pages that the proxy serves, so that they lead below the proxy's path.
//!
//! It rewrites the same elements and attributes as the stock proxy (apimachinery `util/proxy/transport.go`):
//! absolute paths, and URLs of the backend. All other text is forwarded unchanged.

use std::io::{self, Write as _};

use axum::body::Body;
use bytes::Bytes;
use flate2::write::{DeflateDecoder, MultiGzDecoder};
use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};

use super::redirect;

/// Maximum length of a tag that is rewritten. Longer ones are forwarded unchanged.
const TAG_BYTES: usize = 64 * 1024;
/// Compressed bytes per decoding step. At the highest ratio of deflate they expand to 4 MiB.
const DECODE_BYTES: usize = 4 * 1024;
/// Elements with raw text as content. In them, `<` begins no tag except the element's end tag.
const RAW_TEXT: [&str; 9] =
    ["iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"];

fn url_attributes(element: &str) -> &'static [&'static str] {
    match element {
        "a" | "area" | "base" | "link" => &["href"],
        "applet" => &["codebase"],
        "audio" | "embed" | "script" | "source" => &["src"],
        "blockquote" | "del" | "ins" | "q" => &["cite"],
        "body" => &["background"],
        "button" => &["formaction"],
        "command" => &["icon"],
        "form" => &["action"],
        "frame" | "iframe" => &["longdesc", "src"],
        "head" => &["profile"],
        "html" => &["manifest"],
        "img" => &["longdesc", "src", "usemap"],
        "input" => &["src", "usemap", "formaction"],
        "object" => &["classid", "codebase", "data", "usemap"],
        "video" => &["poster", "src"],
        _ => &[],
    }
}

/// The content encoding of the page.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    Identity,
    Gzip,
    Deflate,
}

/// The prefix and the hosts with which links of a page are rewritten.
#[derive(Clone, Debug)]
pub struct Links {
    /// Path of the proxy.
    pub prefix: String,
    /// Host and port of the backend and of the proxy.
    pub hosts: [String; 2],
}

impl Links {
    fn rewritten(&self, link: &str) -> String {
        redirect::rewritten(link, &self.prefix, [&self.hosts[0], &self.hosts[1]])
    }
}

/// Rewrites the body of an HTML page, and decodes it if it is compressed. Other bodies stay unchanged.
pub fn rewrite(headers: &mut HeaderMap, body: Body, links: Links) -> Body {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = text(CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    let encoding = match text(CONTENT_ENCODING) {
        "" | "identity" => Encoding::Identity,
        "gzip" => Encoding::Gzip,
        "deflate" => Encoding::Deflate,
        _ => return body,
    };
    if !media_type.eq_ignore_ascii_case("text/html") {
        return body;
    }
    headers.remove(CONTENT_LENGTH);
    headers.remove(CONTENT_ENCODING);
    let page = Page { decoder: Decoder::new(encoding), rewriter: Rewriter::new(links) };
    let state = (body.into_data_stream(), Some(page));
    Body::from_stream(stream::try_unfold(state, |(mut body, page)| async move {
        let Some(mut page) = page else { return Ok(None) };
        loop {
            let Some(piece) = body.next().await.transpose().map_err(io::Error::other)? else {
                return Ok(Some((page.finish()?, (body, None))));
            };
            let rewritten = page.push(&piece)?;
            if !rewritten.is_empty() {
                return Ok::<_, io::Error>(Some((rewritten, (body, Some(page)))));
            }
        }
    }))
}

struct Page {
    decoder: Decoder,
    rewriter: Rewriter,
}

impl Page {
    fn push(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        let mut out = Vec::with_capacity(piece.len());
        for piece in piece.chunks(DECODE_BYTES) {
            self.rewriter.push(&self.decoder.decode(piece)?, &mut out);
        }
        Ok(out.into())
    }

    fn finish(self) -> io::Result<Bytes> {
        let Self { decoder, mut rewriter } = self;
        let mut out = Vec::new();
        rewriter.push(&decoder.finish()?, &mut out);
        rewriter.finish(&mut out);
        Ok(out.into())
    }
}

enum Decoder {
    Identity,
    Gzip(MultiGzDecoder<Vec<u8>>),
    Deflate(DeflateDecoder<Vec<u8>>),
}

impl Decoder {
    fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Identity => Self::Identity,
            Encoding::Gzip => Self::Gzip(MultiGzDecoder::new(Vec::new())),
            Encoding::Deflate => Self::Deflate(DeflateDecoder::new(Vec::new())),
        }
    }

    fn decode(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(piece.to_vec()),
            Self::Gzip(decoder) => {
                decoder.write_all(piece)?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Deflate(decoder) => {
                decoder.write_all(piece)?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(Vec::new()),
            Self::Gzip(decoder) => decoder.finish(),
            Self::Deflate(decoder) => decoder.finish(),
        }
    }
}

/// State of the tokenizer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Text,
    Comment,
    /// In an element of [`RAW_TEXT`].
    RawText(&'static str),
}

/// Rewrites a page while it is streamed.
#[derive(Debug)]
struct Rewriter {
    links: Links,
    state: State,
    /// Buffered input of an incomplete token.
    held: Vec<u8>,
}

impl Rewriter {
    fn new(links: Links) -> Self {
        Self { links, state: State::Text, held: Vec::new() }
    }

    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(piece);
        let held = std::mem::take(&mut self.held);
        let mut rest = &held[..];
        while let Some(taken) = self.step(rest, out) {
            rest = &rest[taken..];
        }
        self.held = rest.to_vec();
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }

    /// Processes the next token of `rest`. Returns the number of bytes consumed, or `None` if it needs more input.
    fn step(&mut self, rest: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        if rest.is_empty() {
            return None;
        }
        let (taken, state) = match self.state {
            State::Comment => match find(rest, b"-->") {
                Some(at) => (at + 3, State::Text),
                // The last two bytes may belong to the end of the comment.
                None => (rest.len().saturating_sub(2), State::Comment),
            },
            State::RawText(element) => match raw_text_end(rest, element) {
                Ok(at) => (at, State::Text),
                Err(certain) => (certain, self.state),
            },
            State::Text => match rest.iter().position(|byte| *byte == b'<') {
                Some(0) => return self.markup(rest, out),
                Some(at) => (at, State::Text),
                None => (rest.len(), State::Text),
            },
        };
        self.state = state;
        out.extend_from_slice(&rest[..taken]);
        (taken > 0 || state != State::Comment && !matches!(state, State::RawText(_))).then_some(taken)
    }

    /// Processes markup, which begins with `<`.
    fn markup(&mut self, rest: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        if rest.starts_with(b"<!--") {
            self.state = State::Comment;
            out.extend_from_slice(b"<!--");
            return Some(4);
        }
        let may_be_comment = b"<!--".starts_with(rest);
        if may_be_comment {
            return None;
        }
        if !rest[1].is_ascii_alphabetic() {
            // End tags, declarations and text are not rewritten.
            out.push(b'<');
            return Some(1);
        }
        let Some(end) = tag_end(rest) else {
            if rest.len() < TAG_BYTES {
                return None;
            }
            out.push(b'<');
            return Some(1);
        };
        let tag = &rest[..end];
        let name_end = tag.iter().position(|byte| !is_name(*byte) && *byte != b'<').unwrap_or(end);
        let name = String::from_utf8_lossy(&tag[1..name_end]).to_ascii_lowercase();
        self.tag(tag, name_end, url_attributes(&name), out);
        if let Some(&element) = RAW_TEXT.iter().find(|element| **element == name) {
            self.state = State::RawText(element);
        }
        Some(end)
    }

    /// Writes a start tag, with the attributes in `wanted` rewritten.
    fn tag(&self, tag: &[u8], name_end: usize, wanted: &[&str], out: &mut Vec<u8>) {
        let (mut written, mut at) = (0, name_end);
        while let Some(attribute) = Attribute::next(tag, at) {
            at = attribute.end;
            let name = String::from_utf8_lossy(&tag[attribute.name.0..attribute.name.1]).to_ascii_lowercase();
            let (from, to) = attribute.value;
            let Some(link) = std::str::from_utf8(&tag[from..to]).ok().filter(|_| wanted.contains(&&*name))
            else {
                continue;
            };
            let rewritten = self.links.rewritten(link);
            if rewritten != link {
                out.extend_from_slice(&tag[written..from]);
                // An unquoted value stays valid: the inserted prefix contains no delimiter.
                out.extend_from_slice(rewritten.replace('"', "%22").replace('\'', "%27").as_bytes());
                written = to;
            }
        }
        out.extend_from_slice(&tag[written..]);
    }
}

/// Byte ranges of an attribute in a tag. `value` does not include the quotes.
#[derive(Debug, PartialEq)]
struct Attribute {
    name: (usize, usize),
    value: (usize, usize),
    end: usize,
}

impl Attribute {
    /// The next attribute with a value.
    fn next(tag: &[u8], mut at: usize) -> Option<Self> {
        let skip = |mut at: usize, of: fn(u8) -> bool| {
            while tag.get(at).is_some_and(|byte| of(*byte)) {
                at += 1;
            }
            at
        };
        loop {
            at = skip(at, |byte| byte.is_ascii_whitespace() || byte == b'/');
            let name = (at, skip(at + 1, |byte| is_name(byte) && byte != b'='));
            if at >= tag.len() || tag[at] == b'>' {
                return None;
            }
            let equals = skip(name.1, |byte| byte.is_ascii_whitespace());
            if tag.get(equals) != Some(&b'=') {
                at = name.1;
                continue;
            }
            let from = skip(equals + 1, |byte| byte.is_ascii_whitespace());
            let quote = *tag.get(from)?;
            if matches!(quote, b'"' | b'\'') {
                let length = tag[from + 1..].iter().position(|byte| *byte == quote)?;
                let value = (from + 1, from + 1 + length);
                return Some(Self { name, value, end: value.1 + 1 });
            }
            let to = skip(from, |byte| !byte.is_ascii_whitespace() && byte != b'>');
            return Some(Self { name, value: (from, to), end: to });
        }
    }
}

/// True for bytes of element and attribute names.
fn is_name(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !matches!(byte, b'/' | b'>')
}

/// Length of a start tag. `None` if it is incomplete.
fn tag_end(rest: &[u8]) -> Option<usize> {
    let mut quote = None;
    let mut is_value = false;
    for (at, byte) in rest.iter().enumerate().skip(1) {
        match (quote, *byte) {
            (Some(open), byte) if open == byte => quote = None,
            (None, b'>') => return Some(at + 1),
            // A quote only counts at the start of a value.
            (None, b'"' | b'\'') if is_value => quote = Some(*byte),
            (Some(_), _) | (None, _) => {}
        }
        is_value = match byte {
            b'=' => quote.is_none(),
            byte if byte.is_ascii_whitespace() => is_value,
            _ => false,
        };
    }
    None
}

/// Position of the end tag of a raw text element.
///
/// # Errors
/// If the end tag has not arrived, the number of bytes that are certainly raw text.
fn raw_text_end(rest: &[u8], element: &str) -> Result<usize, usize> {
    let length = element.len() + 2;
    let is_end =
        |window: &[u8]| window.starts_with(b"</") && window[2..].eq_ignore_ascii_case(element.as_bytes());
    rest.windows(length).position(is_end).ok_or_else(|| rest.len().saturating_sub(length - 1))
}

fn find(rest: &[u8], wanted: &[u8]) -> Option<usize> {
    rest.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    //! Tests with whole and split, compressed and plain pages.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use http_body_util::BodyExt as _;

    use super::*;

    fn links() -> Links {
        Links { prefix: "/p".to_owned(), hosts: ["10.0.0.7:8080".to_owned(), "master:6443".to_owned()] }
    }

    fn rewritten(page: &str, piece: usize) -> String {
        let (mut rewriter, mut out) = (Rewriter::new(links()), Vec::new());
        page.as_bytes().chunks(piece).for_each(|piece| rewriter.push(piece, &mut out));
        rewriter.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// Links are rewritten as by the stock proxy, however the page is split.
    #[test]
    fn html_links_are_rewritten_below_the_proxy_path() {
        for (page, expected) in [
            (r#"<a href="/x?a=1&amp;b">y</a>"#, r#"<a href="/p/x?a=1&amp;b">y</a>"#),
            ("<A HREF='/x'>y</A>", "<A HREF='/p/x'>y</A>"),
            ("<img src=/a.png alt=b><br/>", "<img src=/p/a.png alt=b><br/>"),
            (r#"<img alt="a>b" src = "/c"/>"#, r#"<img alt="a>b" src = "/p/c"/>"#),
            (r#"<link href="http://10.0.0.7:8080/s.css">"#, r#"<link href="/p/s.css">"#),
            (
                r#"<script src="/s.js">"<a href='/no'>"</script>"#,
                r#"<script src="/p/s.js">"<a href='/no'>"</script>"#,
            ),
            (r#"<form method=post action="/">"#, r#"<form method=post action="/p/">"#),
            (r#"<video poster="/a" src="/b" title="/c">"#, r#"<video poster="/p/a" src="/p/b" title="/c">"#),
            ("<head><title></title ><base href=\"/\">", "<head><title></title ><base href=\"/p/\">"),
            (r#"<html><body background=/x><p>"#, r#"<html><body background=/p/x><p>"#),
        ] {
            for piece in [1, 2, 7, 1000] {
                assert_eq!(rewritten(page, piece), expected, "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn html_without_absolute_links_is_not_changed() {
        for page in [
            r##"<a href="x">y</a><a href="../x">y</a><a href="#x">y</a><a href="">y</a>"##,
            r#"<a href="https://example.com/x">y</a><a href="/p/x">y</a>"#,
            r#"<!-- <a href="/x"> --><p>1 < 2 <3 <</p>"#,
            r#"<div href="/x" data-src="/y">"#,
            "<textarea><a href='/x'></textarea><style>a{}</style>",
            "<a href=\"/x",
            "<!DOCTYPE html><?xml?></a href='/x'><!-",
            "<a = /x><a href><a 'x' \"/y\">",
            "",
        ] {
            for piece in [1, 3, 1000] {
                assert_eq!(rewritten(page, piece), page, "in pieces of {piece}");
            }
        }
        let long = format!("<a title='{}' href='/x'>", "x".repeat(2 * TAG_BYTES));
        assert_eq!(rewritten(&long, 1000), long);
    }

    #[tokio::test]
    async fn compressed_html_is_decoded_and_other_types_are_not_changed() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"<a href='/x'>").unwrap();
        let gzip = gzip.finish().unwrap();
        for (media_type, encoding, body, expected) in [
            ("text/html; charset=utf-8", "gzip", &gzip[..], &b"<a href='/p/x'>"[..]),
            ("TEXT/HTML", "", b"<a href='/x'>", b"<a href='/p/x'>"),
            ("text/html", "br", b"<a href='/x'>", b"<a href='/x'>"),
            ("text/plain", "", b"<a href='/x'>", b"<a href='/x'>"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, media_type.parse().unwrap());
            headers.insert(CONTENT_LENGTH, body.len().into());
            if !encoding.is_empty() {
                headers.insert(CONTENT_ENCODING, encoding.parse().unwrap());
            }
            let found =
                rewrite(&mut headers, body.to_vec().into(), links()).collect().await.unwrap().to_bytes();
            assert_eq!(found, expected, "{media_type} {encoding}");
            assert_eq!(headers.contains_key(CONTENT_LENGTH), body == expected, "{media_type} {encoding}");
        }
    }
}
