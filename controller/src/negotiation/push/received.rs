//! The reply of an endpoint, as far as a text can show it.

use std::fmt;

use reqwest::{
    Response, StatusCode,
    header::{self, HeaderName},
};

use super::reply::expanded;

/// Maximum size of a reply, in bytes. Far above a message of the longest length, so that an answer with a
/// long log in it still counts.
pub(crate) const MAX_BODY: usize = 256 * 1024;
/// Number of characters of a header, and of bytes of a body, that are shown.
const SHOWN: usize = 80;

/// Description of a reply: its code, the headers that could explain it, and the beginning of its body.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) code: StatusCode,
    location: Option<String>,
    content_type: Option<String>,
    coding: Option<String>,
    begins: String,
}

/// Reason for which a reply was not read to its end.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The connection broke, or the time was over.
    Broken(reqwest::Error),
    /// It has more than [`MAX_BODY`] bytes, or expands to more.
    TooLong,
}

impl Received {
    /// Reads a reply and its body, as it was before it was compressed. Of a body that breaks off, or is too
    /// long, the beginning is returned, and the reason.
    pub(super) async fn read(response: Response) -> (Self, Vec<u8>, Option<ReadError>) {
        let text = |name: HeaderName| {
            let value = response.headers().get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let mut reply = Self {
            code: response.status(),
            location: text(header::LOCATION),
            content_type: text(header::CONTENT_TYPE),
            coding: text(header::CONTENT_ENCODING),
            begins: String::new(),
        };
        let (sent, mut end) = read_bounded(response).await;
        let (body, is_longer) = expanded(sent, reply.coding.as_deref().unwrap_or_default(), MAX_BODY);
        if is_longer {
            end = Some(ReadError::TooLong);
        }
        reply.begins = String::from_utf8_lossy(body.get(..SHOWN).unwrap_or(&body)).into_owned();
        (reply, body, end)
    }

    /// Returns the encoding of the text that its type names.
    pub(super) fn charset(&self) -> Option<&str> {
        let mut parameters = self.content_type.as_deref()?.split(';').skip(1);
        parameters.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
        })
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, location, content_type, coding, begins } = self;
        write!(f, "code {}", code.as_u16())?;
        for (name, value) in
            [("location", location), ("content type", content_type), ("content encoding", coding)]
        {
            if let Some(value) = value {
                let shown: String = value.chars().take(SHOWN).collect();
                write!(f, ", {name} {shown:?}")?;
            }
        }
        match begins.as_str() {
            "" => f.write_str(" and no body"),
            begins => write!(f, " and a body that begins with {begins:?}"),
        }
    }
}

/// Returns the body, and the reason for which it is not whole.
async fn read_bounded(mut response: Response) -> (Vec<u8>, Option<ReadError>) {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > MAX_BODY => {
                body.extend(chunk.iter().take(MAX_BODY - body.len()));
                return (body, Some(ReadError::TooLong));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return (body, None),
            Err(error) => return (body, Some(ReadError::Broken(error))),
        }
    }
}
