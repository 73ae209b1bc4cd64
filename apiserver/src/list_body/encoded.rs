//! Body of a list in protobuf or YAML, whose objects are decoded and encoded again while the list is sent.
//!
//! The lengths in front of a protobuf list and of each item require that all items are encoded before the first byte is
//! sent. That pass keeps the first [`KEPT_BYTES`] and measures the rest, which is encoded again while it is sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use api::protobuf::encode;
use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::task::JoinHandle;

use super::CHUNK_BYTES;
use crate::status::Status;
use crate::watch_cache::Object;

/// Encoded items that are kept in memory until they are sent, so that a common page is encoded once.
pub(crate) const KEPT_BYTES: usize = 1024 * 1024;

/// Appends an object, encoded as an item of the list.
pub(crate) type EncodeItem = Box<dyn Fn(&Object, &mut Vec<u8>) -> Result<(), Status> + Send + Sync>;

/// The next chunk, and the objects after it.
type Encoding = JoinHandle<Result<(Vec<u8>, IntoIter<Object>), Status>>;

/// The body: the start of the list with the kept items, the other items, and the end of the list.
pub(crate) struct EncodedListBody {
    head: Vec<u8>,
    /// The objects that are not encoded yet; empty while an encoding task owns them.
    rest: IntoIter<Object>,
    encode: Arc<EncodeItem>,
    encoding: Option<Encoding>,
    /// Bytes after the last item.
    end: &'static [u8],
    /// Bytes that have not been sent. `None` if the length of the items is unknown.
    left: Option<usize>,
}

impl EncodedListBody {
    /// Creates a body whose items are encoded only while it is sent, so its length is unknown.
    pub fn unmeasured(head: Vec<u8>, objects: Vec<Object>, encode: EncodeItem) -> Self {
        let rest = objects.into_iter();
        Self { head, rest, encode: Arc::new(encode), encoding: None, end: b"", left: None }
    }

    /// Creates a protobuf body. `head` returns the start of a list from the size of its items in bytes.
    ///
    /// # Errors
    /// The errors of `head` and `encode`.
    pub fn protobuf(
        head: impl FnOnce(usize) -> Result<Vec<u8>, Status>,
        objects: Vec<Object>,
        encode: EncodeItem,
    ) -> Result<Self, Status> {
        let mut objects = objects.into_iter();
        let kept = chunk(&mut objects, &encode, KEPT_BYTES)?;
        let (mut items_bytes, mut item) = (kept.len(), Vec::new());
        for object in objects.as_slice() {
            item.clear();
            encode(object, &mut item)?;
            items_bytes += item.len();
        }
        let mut head = head(items_bytes)?;
        let left = head.len() + items_bytes + encode::ENVELOPE_END.len();
        head.extend_from_slice(&kept);
        if objects.len() == 0 {
            head.extend_from_slice(encode::ENVELOPE_END);
        }
        let (encode, end) = (Arc::new(encode), encode::ENVELOPE_END);
        Ok(Self { head, rest: objects, encode, encoding: None, end, left: Some(left) })
    }

    /// Encodes the next chunk on a blocking thread: an object of maximum size takes milliseconds.
    fn start(&mut self) -> Encoding {
        let (mut rest, encode, end) = (std::mem::take(&mut self.rest), self.encode.clone(), self.end);
        tokio::task::spawn_blocking(move || {
            let mut chunk = chunk(&mut rest, &encode, CHUNK_BYTES)?;
            if rest.len() == 0 {
                chunk.extend_from_slice(end);
            }
            Ok((chunk, rest))
        })
    }
}

/// Encodes the next items until they have `bytes`.
fn chunk(objects: &mut IntoIter<Object>, encode: &EncodeItem, bytes: usize) -> Result<Vec<u8>, Status> {
    let mut chunk = Vec::new();
    while chunk.len() < bytes {
        let Some(object) = objects.next() else { break };
        encode(&object, &mut chunk)?;
    }
    Ok(chunk)
}

impl HttpBody for EncodedListBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.is_end_stream() {
            return Poll::Ready(None);
        }
        let mut chunk = std::mem::take(&mut self.head);
        if chunk.is_empty() {
            let mut encoding = match self.encoding.take() {
                Some(encoding) => encoding,
                None => self.start(),
            };
            let Poll::Ready(encoded) = Pin::new(&mut encoding).poll(context) else {
                self.encoding = Some(encoding);
                return Poll::Pending;
            };
            let encoded = encoded.map_err(io::Error::other)?;
            (chunk, self.rest) = encoded.map_err(|error| io::Error::other(error.message))?;
        }
        if let Some(left) = self.left {
            match left.checked_sub(chunk.len()) {
                Some(left) if (left == 0) == (self.rest.len() == 0) => self.left = Some(left),
                _ => {
                    return Poll::Ready(Some(Err(io::Error::other(
                        "the list has another size than measured",
                    ))));
                }
            }
        }
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.head.is_empty() && self.encoding.is_none() && self.rest.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, |left| SizeHint::with_exact(left as u64))
    }
}

#[cfg(test)]
mod tests {
    //! Lists of small and large objects.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt as _;
    use serde_json::json;

    use super::super::tests::{all_of, objects};
    use super::*;

    fn body(sizes: &[usize]) -> EncodedListBody {
        let head = |bytes| encode::list_head("v1", "ConfigMapList", b"{}", bytes).map_err(Status::internal);
        let item = |object: &Object, chunk: &mut Vec<u8>| {
            let message = encode::message("v1", "ConfigMap", object.json()).map_err(Status::internal)?;
            encode::list_item(chunk, &message.unwrap());
            Ok(())
        };
        EncodedListBody::protobuf(head, objects(sizes), Box::new(item)).unwrap()
    }

    #[tokio::test]
    async fn list_is_sent_completely_in_bounded_chunks() {
        for sizes in [vec![], vec![1], vec![1; 2000], vec![KEPT_BYTES], vec![1000; 5000], vec![300_000; 9]] {
            let mut body = body(&sizes);
            let largest_object = sizes.iter().max().copied().unwrap_or_default() + 1024;
            assert!(body.head.len() < KEPT_BYTES + largest_object, "{}", body.head.len());
            let (whole, chunks) = all_of(&mut body).await;
            assert!(chunks[1..].iter().all(|bytes| *bytes < CHUNK_BYTES + largest_object), "{chunks:?}");
            let list = api::protobuf::decode(&whole).unwrap();
            let items = list["items"].as_array().cloned().unwrap_or_default();
            assert_eq!((&list["kind"], items.len()), (&json!("ConfigMapList"), sizes.len()));
            let is_whole = |(item, size): (&serde_json::Value, &usize)| {
                item["data"]["x"].as_str().unwrap().len() == *size
            };
            assert!(items.iter().zip(&sizes).all(is_whole));
        }
    }

    #[tokio::test]
    async fn unmeasured_list_is_sent_completely_in_bounded_chunks() {
        for sizes in [vec![], vec![1; 2000], vec![300_000; 9]] {
            let item = |object: &Object, chunk: &mut Vec<u8>| {
                chunk.extend_from_slice(object.json());
                Ok(())
            };
            let objects = objects(&sizes);
            let mut expected = b"head".to_vec();
            objects.iter().for_each(|object| expected.extend_from_slice(object.json()));
            let mut body = EncodedListBody::unmeasured(b"head".to_vec(), objects, Box::new(item));
            let (mut whole, mut largest_chunk) = (Vec::new(), 0);
            while let Some(frame) = body.frame().await {
                let chunk = frame.unwrap().into_data().unwrap();
                largest_chunk = largest_chunk.max(chunk.len());
                whole.extend_from_slice(&chunk);
            }
            assert!(body.is_end_stream() && whole == expected, "{} bytes", whole.len());
            assert!(largest_chunk < CHUNK_BYTES + 301_024, "{largest_chunk}");
        }
    }

    #[tokio::test]
    async fn changed_object_size_ends_the_body_with_an_error() {
        for change in [1, -1, -4] {
            let calls = AtomicUsize::new(0);
            let item = move |_: &Object, chunk: &mut Vec<u8>| {
                let encoded_twice = calls.fetch_add(1, Ordering::Relaxed) == 2;
                let bytes =
                    if encoded_twice { KEPT_BYTES.checked_add_signed(change).unwrap() } else { KEPT_BYTES };
                encode::list_item(chunk, &vec![0; bytes]);
                Ok(())
            };
            let body = EncodedListBody::protobuf(|_| Ok(vec![0]), objects(&[1, 1]), Box::new(item)).unwrap();
            assert!(body.collect().await.is_err(), "{change}");
        }
    }
}
