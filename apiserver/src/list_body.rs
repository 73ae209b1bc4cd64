//! Bodies of lists in JSON, YAML and protobuf that encode their objects while they are sent. A list that a client reads slowly
//! holds no copy of its objects, only the snapshot that they belong to.

mod encoded;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

pub(crate) use self::encoded::{EncodeItem, EncodedListBody, KEPT_BYTES};
use crate::watch_cache::Object;

/// Bytes after which a chunk ends. A chunk exceeds this by at most one object.
const CHUNK_BYTES: usize = 64 * 1024;
/// End of the list, with the newline of kube-apiserver.
const END: &[u8] = b"]}\n";

/// A JSON body: `head`, the objects separated by commas, and the end.
#[derive(Debug)]
pub(crate) struct ListBody {
    head: Vec<u8>,
    objects: std::vec::IntoIter<Object>,
    /// True if items have `apiVersion` and `kind`.
    with_type: bool,
    is_first: bool,
    /// Encoded bytes that have not been sent.
    left: usize,
}

impl ListBody {
    /// Creates a body. `head` ends with the opening bracket of the list.
    pub fn new(head: Vec<u8>, objects: Vec<Object>, with_type: bool) -> Self {
        let items: usize = objects
            .iter()
            .map(|object| item_parts(object, with_type).map(<[u8]>::len))
            .map(|[a, b]| a + b)
            .sum();
        let left = head.len() + items + objects.len().saturating_sub(1) + END.len();
        Self { head, objects: objects.into_iter(), with_type, is_first: true, left }
    }
}

/// The JSON of a list item in two parts.
fn item_parts(object: &Object, with_type: bool) -> [&[u8]; 2] {
    if with_type { [b"", object.json()] } else { [b"{", object.fields_json()] }
}

impl HttpBody for ListBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut chunk = std::mem::take(&mut self.head);
        while chunk.len() < CHUNK_BYTES {
            let Some(object) = self.objects.next() else {
                chunk.extend_from_slice(END);
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                chunk.push(b',');
            }
            item_parts(&object, self.with_type).into_iter().for_each(|part| chunk.extend_from_slice(part));
        }
        self.left = self.left.saturating_sub(chunk.len());
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of lists of small and large objects.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::watch_cache::{Draft, Scope, WatchCache};

    pub(super) fn objects(sizes: &[usize]) -> Vec<Object> {
        let cache = WatchCache::new(1);
        for (number, size) in sizes.iter().enumerate() {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "d", "name": format!("m{number}")},
                "data": {"x": "x".repeat(*size)},
            });
            cache.put("configmaps", &Draft::new(object.as_object().unwrap(), &[].into()));
        }
        cache.list("configmaps", &Scope::All).objects
    }

    /// The whole body, which has the announced size, and the sizes of its chunks.
    pub(super) async fn all_of<B>(body: &mut B) -> (Vec<u8>, Vec<usize>)
    where
        B: HttpBody<Data = Bytes, Error: std::fmt::Debug> + Unpin,
    {
        let length = body.size_hint().exact().unwrap();
        let (mut whole, mut chunks) = (Vec::new(), Vec::new());
        while !body.is_end_stream() {
            let chunk = body.frame().await.unwrap().unwrap().into_data().unwrap();
            chunks.push(chunk.len());
            whole.extend_from_slice(&chunk);
        }
        assert!(body.frame().await.is_none());
        assert_eq!(whole.len() as u64, length);
        (whole, chunks)
    }

    #[tokio::test]
    async fn list_is_sent_completely_in_bounded_chunks() {
        for (sizes, with_type) in
            [(vec![], false), (vec![1], true), (vec![1; 2000], false), (vec![300_000; 5], true)]
        {
            let mut body = ListBody::new(b"{\"items\":[".to_vec(), objects(&sizes), with_type);
            let (whole, chunks) = all_of(&mut body).await;
            let largest_object = sizes.iter().max().copied().unwrap_or_default() + 1024;
            assert!(chunks.iter().all(|bytes| *bytes < CHUNK_BYTES + largest_object), "{chunks:?}");
            assert_eq!(whole.last(), Some(&b'\n'));
            let list: Value = serde_json::from_slice(&whole).unwrap();
            let items = list["items"].as_array().unwrap();
            assert_eq!(items.len(), sizes.len());
            assert!(
                items
                    .iter()
                    .all(|item| item["kind"].is_string() == with_type && item["data"]["x"].is_string())
            );
        }
    }
}
