//! JSON of the kube-apiserver without `metadata.managedFields`.
//!
//! Whoever may change an object writes a time and a tree of any depth there, which a typed decoder can
//! refuse: one such object would end each list and watch of its kind. Nothing here reads them, and they can
//! be half of a text. So they are dropped while the bytes arrive, before anything is decoded.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Response, header};
use http_body::{Body, Frame, SizeHint};

/// Key of the field that is dropped, in an object of the key [`METADATA`].
const MANAGED_FIELDS: &[u8] = b"managedFields";
const METADATA: &[u8] = b"metadata";

/// Returns JSON without each `metadata.managedFields`.
pub fn without_managed_fields(json: &[u8]) -> Vec<u8> {
    let (mut filter, mut kept) = (Filter::default(), Vec::with_capacity(json.len()));
    filter.pass(json, &mut kept);
    kept
}

/// Returns a response whose body, if it is JSON and is to be lean, comes without each
/// `metadata.managedFields`.
pub(crate) fn read<B>(response: Response<B>, is_lean: bool) -> Response<LeanBody<B>> {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
    let filter = (is_lean && is_json).then(Filter::default);
    response.map(|body| LeanBody { body, filter })
}

/// A body of JSON without each `metadata.managedFields`.
pub(crate) struct LeanBody<B> {
    body: B,
    /// None for a body that stays as it is.
    filter: Option<Filter>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for LeanBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        let Some(filter) = &mut this.filter else { return Poll::Ready(frame) };
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| {
                frame.map_data(|data| {
                    let mut kept = Vec::with_capacity(data.len());
                    filter.pass(&data, &mut kept);
                    Bytes::from(kept)
                })
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.filter.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

/// Reader of JSON that arrives in pieces. Text that is no JSON may come out shorter, and still is none.
#[derive(Debug, Default)]
struct Filter {
    /// The objects and arrays that are open, outermost first.
    open: Vec<Open>,
    string: Option<Text>,
    /// True where the next string of the innermost object is a key.
    expects_key: bool,
    /// True after the key [`METADATA`].
    after_metadata: bool,
    /// The first bytes of the key that is read.
    key: Vec<u8>,
    /// Bytes held back until a key of an object of metadata is known: the comma before the key, and the key.
    held: Vec<u8>,
    /// Number of objects and arrays around the value that is dropped.
    dropped: Option<usize>,
    /// True when the member that was dropped had no comma before it: the one after it goes, too.
    drops_comma: bool,
}

/// An object or array that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Array,
    Object,
    /// The object of the key [`METADATA`].
    Metadata,
}

/// The string that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Text {
    is_key: bool,
    is_escaped: bool,
}

impl Filter {
    /// Takes the next bytes, and adds those that stay to `kept`.
    fn pass(&mut self, bytes: &[u8], kept: &mut Vec<u8>) {
        for byte in bytes.iter().copied() {
            if self.string.is_some() {
                self.read_text(byte, kept);
            } else if self.dropped == Some(self.open.len()) && matches!(byte, b',' | b'}') {
                self.dropped = None;
                if byte == b',' && self.drops_comma {
                    self.expects_key = true;
                } else {
                    self.read(byte, kept);
                }
            } else {
                self.read(byte, kept);
            }
        }
    }

    /// Reads a byte of a string.
    fn read_text(&mut self, byte: u8, kept: &mut Vec<u8>) {
        let Some(text) = &mut self.string else { return };
        let ends = !text.is_escaped && byte == b'"';
        text.is_escaped = !text.is_escaped && byte == b'\\';
        let is_key = text.is_key;
        if is_key && !ends && self.key.len() <= MANAGED_FIELDS.len() {
            self.key.push(byte);
        }
        self.keep(byte, kept);
        if !ends {
            return;
        }
        self.string = None;
        if !is_key {
            return;
        }
        self.expects_key = false;
        self.after_metadata = self.key == METADATA;
        if self.open.last() != Some(&Open::Metadata) || self.dropped.is_some() {
            return;
        }
        if self.key == MANAGED_FIELDS {
            self.dropped = Some(self.open.len());
            self.drops_comma = self.held.first() != Some(&b',');
            self.held.clear();
        } else {
            kept.append(&mut self.held);
        }
    }

    /// Reads a byte outside of strings.
    fn read(&mut self, byte: u8, kept: &mut Vec<u8>) {
        match byte {
            b'"' => {
                let is_key = self.expects_key;
                self.string = Some(Text { is_key, is_escaped: false });
                if is_key {
                    self.key.clear();
                }
                self.keep(byte, kept);
                self.after_metadata = false;
            }
            b'{' | b'[' => {
                let kind = match byte {
                    b'[' => Open::Array,
                    _ if self.after_metadata => Open::Metadata,
                    _ => Open::Object,
                };
                self.keep(byte, kept);
                self.open.push(kind);
                self.expects_key = kind != Open::Array;
                self.after_metadata = false;
            }
            b'}' | b']' => {
                // An object that ends where a key was expected is empty, or no JSON.
                if self.dropped.is_none() {
                    kept.append(&mut self.held);
                }
                self.expects_key = false;
                self.keep(byte, kept);
                self.open.pop();
            }
            b',' => {
                self.expects_key = self.open.last().is_some_and(|kind| *kind != Open::Array);
                self.keep(byte, kept);
            }
            b':' | b' ' | b'\n' | b'\t' | b'\r' => self.keep(byte, kept),
            _ => {
                self.after_metadata = false;
                self.keep(byte, kept);
            }
        }
    }

    /// Drops a byte, holds it back, or adds it to `kept`.
    fn keep(&mut self, byte: u8, kept: &mut Vec<u8>) {
        if self.dropped.is_some() {
            return;
        }
        let reads_key = self.expects_key && self.open.last() == Some(&Open::Metadata);
        if reads_key { self.held.push(byte) } else { kept.push(byte) }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn text(json: &str) -> String {
        String::from_utf8(without_managed_fields(json.as_bytes())).expect("UTF-8")
    }

    #[test]
    fn managed_fields_are_dropped_with_one_comma_wherever_they_stand() {
        for (given, expected) in [
            (r#"{"metadata":{"managedFields":[{"a":{}}]}}"#, r#"{"metadata":{}}"#),
            (r#"{"metadata":{"managedFields":null,"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
            (r#"{"metadata":{"name":"a","managedFields":7}}"#, r#"{"metadata":{"name":"a"}}"#),
            (
                r#"{"metadata": {"name": "a", "managedFields": ["x]},", "\"}"], "uid": "u"}, "b": 1}"#,
                r#"{"metadata": {"name": "a", "uid": "u"}, "b": 1}"#,
            ),
            (
                r#"{"items":[{"metadata":{"managedFields":[],"managedFields":[],"n":1}}]}"#,
                r#"{"items":[{"metadata":{"n":1}}]}"#,
            ),
            ("{\"type\":1}\n{\"metadata\":{\"managedFields\":[]}}\n", "{\"type\":1}\n{\"metadata\":{}}\n"),
        ] {
            assert_eq!(text(given), expected, "{given}");
        }
        for same in [
            "",
            "{}",
            "[1, 2]",
            r#""managedFields""#,
            r#"{"managedFields":[]}"#,
            r#"{"metadata":"managedFields","a":1}"#,
            r#"{"metadata":null,"managedFields":{}}"#,
            r#"{"metadata":["managedFields"]}"#,
            "no JSON, but } text",
            r#"{"metadata":{"annotations":{"managedFields":"x"}}}"#,
            r#"{"metadata":{ }}"#,
            "\u{fc}{\"a\":\"\u{fc}\"}",
        ] {
            assert_eq!(text(same), same);
        }
    }

    #[test]
    fn a_tree_of_any_depth_and_a_time_that_no_decoder_takes_are_dropped() {
        let deep = format!("{}1{}", r#"{"f":"#.repeat(100_000), "}".repeat(100_000));
        let given = format!(
            r#"{{"metadata":{{"managedFields":[{{"time":"9999-12-31T23:59:59Z","fieldsV1":{deep}}}],"name":"a"}}}}"#
        );
        assert_eq!(text(&given), r#"{"metadata":{"name":"a"}}"#);
    }

    #[tokio::test]
    async fn only_json_that_is_to_be_lean_is_read() {
        let given = r#"{"metadata":{"managedFields":[]}}"#;
        for (kind, is_lean, expected) in [
            ("application/json", true, r#"{"metadata":{}}"#),
            ("application/json", false, given),
            ("text/plain", true, given),
        ] {
            let response = Response::builder().header(header::CONTENT_TYPE, kind).body(Full::from(given));
            let body = read(response.expect("a response"), is_lean).into_body();
            assert_eq!(body.collect().await.expect("a body").to_bytes(), expected);
        }
    }

    /// Removes the field from a value.
    fn removed(value: &mut Value, is_metadata: bool) {
        match value {
            Value::Object(fields) => {
                if is_metadata {
                    fields.remove("managedFields");
                }
                for (key, value) in fields {
                    removed(value, key == "metadata");
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| removed(item, false)),
            _ => {}
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let texts = prop_oneof![Just("metadata"), Just("managedFields"), Just("a\\\"},"), Just("{[,:")];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(|number| json!(number)),
            texts.clone().prop_map(|text| json!(text)),
        ];
        leaf.prop_recursive(6, 64, 4, move |inner| {
            let fields = prop::collection::vec((texts.clone(), inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|items| json!(items)),
                fields.prop_map(|fields| fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn in_whatever_pieces_the_bytes_arrive_exactly_the_field_is_gone(
            value in values(), pretty in any::<bool>(), piece in 1_usize..9,
        ) {
            let given = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
            let (mut filter, mut kept) = (Filter::default(), Vec::new());
            for bytes in given.expect("JSON").chunks(piece) {
                filter.pass(bytes, &mut kept);
            }
            let found: Value = serde_json::from_slice(&kept).expect("JSON");
            let mut expected = value;
            removed(&mut expected, false);
            prop_assert_eq!(found, expected);
        }
    }
}
