//! Reads from the kube-apiserver whose replies have a bound: the authors of the objects do not decide how
//! much memory a read takes.

use std::error::Error;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::{
    Client, Resource,
    api::{GetParams, ListParams},
    client::Body,
    core::Request,
};

/// Failure of a read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The reply is larger than its bound.
    #[error("the reply has more than {0} bytes")]
    TooLarge(usize),
    /// The kube-apiserver rejected the request.
    #[error("the request was answered by {0}")]
    Rejected(u16),
    /// The reply did not arrive, or broke off.
    #[error("the reply did not arrive")]
    Lost(#[source] Box<dyn Error + Send + Sync>),
    /// The reply is not of the kind.
    #[error("the reply cannot be decoded")]
    Decode(#[source] serde_json::Error),
}

/// Reads the text of a list, or of a page of it. Fails before it has read more than `most` bytes.
pub(crate) async fn list_text<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    params: &ListParams,
    most: usize,
) -> Result<Bytes, ReadError> {
    let request = Request::new(K::url_path(&(), namespace)).list(params).map_err(lost)?;
    let reply = client.send(request.map(Body::from)).await.map_err(lost)?;
    let code = reply.status();
    if !code.is_success() {
        return Err(ReadError::Rejected(code.as_u16()));
    }
    match Limited::new(reply.into_body(), most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ReadError::TooLarge(most)),
        Err(error) => Err(ReadError::Lost(error)),
    }
}

/// Returns true when there is an object of that name. The object is not read.
pub(crate) async fn exists<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<bool, ReadError> {
    let request = Request::new(K::url_path(&(), Some(namespace)));
    let request = request.get_metadata(name, &GetParams::default()).map_err(lost)?;
    let code = client.send(request.map(Body::from)).await.map_err(lost)?.status();
    match code.as_u16() {
        404 => Ok(false),
        _ if code.is_success() => Ok(true),
        code => Err(ReadError::Rejected(code)),
    }
}

fn lost(error: impl Error + Send + Sync + 'static) -> ReadError {
    ReadError::Lost(Box::new(error))
}
