//! The body of a review, up to the size that the gateway takes.

use actix_web::{
    error::PayloadError,
    web::{Bytes, BytesMut, Payload},
};
use futures::StreamExt;

/// Maximum size of a review. The largest pod that the kube-apiserver stores has 1.5 MB, each byte of which
/// can be six in JSON.
pub(super) const MAX_BODY: usize = 10 << 20;
/// Maximum size of a review that is read to its end, before its reply: text of 3 MiB, the largest request
/// that the kube-apiserver takes, six bytes for each.
const MAX_READ: usize = 20 << 20;
/// Number of bytes of a review in which its UID is: it is the first field of the request.
const HEAD: usize = 4096;

/// The body of a review.
#[derive(Debug)]
pub(super) enum Body {
    Whole(Bytes),
    /// It is longer than [`MAX_BODY`].
    TooLong {
        /// UID of the request.
        uid: String,
    },
}

/// Reads the body of a review. One that is too long is not kept.
///
/// # Errors
///
/// Fails when the connection breaks, and for what is too long and no review of a kube-apiserver.
pub(super) async fn read_body(mut payload: Payload) -> Result<Body, PayloadError> {
    let (mut kept, mut length) = (BytesMut::new(), 0_usize);
    while let Some(piece) = payload.next().await {
        let piece = piece?;
        length = length.saturating_add(piece.len());
        kept.extend_from_slice(&piece);
        if length > MAX_BODY {
            kept.truncate(HEAD);
        }
        if length > MAX_READ {
            break;
        }
    }
    if length <= MAX_BODY {
        return Ok(Body::Whole(kept.freeze()));
    }
    uid(&kept).map(|uid| Body::TooLong { uid }).ok_or(PayloadError::Overflow)
}

/// Returns the UID of a review's request, by its beginning.
fn uid(head: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    let (_, request) = text.split_once(r#""request":{"uid":""#)?;
    let (uid, _) = request.split_once('"')?;
    Some(uid.to_owned())
}

#[cfg(test)]
mod tests {
    use actix_web::{FromRequest, test::TestRequest};

    use super::*;

    async fn body(length: usize) -> Result<Body, PayloadError> {
        let mut text = br#"{"kind":"AdmissionReview","request":{"uid":"u1","object":""#.to_vec();
        text.resize(length, b'<');
        let (request, mut payload) = TestRequest::default().set_payload(text).to_http_parts();
        read_body(Payload::from_request(&request, &mut payload).await.unwrap()).await
    }

    #[tokio::test]
    async fn a_review_is_kept_up_to_its_bound_and_of_a_longer_one_the_uid() {
        let whole = body(MAX_BODY).await.unwrap();
        assert!(matches!(&whole, Body::Whole(bytes) if bytes.len() == MAX_BODY));
        for length in [MAX_BODY + 1, MAX_READ + 1] {
            let long = body(length).await.unwrap();
            assert!(matches!(&long, Body::TooLong { uid } if uid == "u1"), "{long:?}");
        }
    }

    #[test]
    fn the_uid_is_that_of_the_request() {
        assert_eq!(uid(br#"{"request":{"uid":"a","object":{"uid":"b"}}}"#).as_deref(), Some("a"));
        assert_eq!(uid(br#"{"object":{"uid":"b"}}"#), None);
    }
}
