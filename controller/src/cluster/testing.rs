//! Fixtures that the tests of the features share.

use kube::{Client, client::Body};
use tower_test::mock;

use super::{Cluster, EventSink, Leadership};

/// Returns the handles of a process that leads and whose API answers nothing.
pub(crate) fn cluster_without_api() -> Cluster {
    let (service, _) = mock::pair::<http::Request<Body>, http::Response<Body>>();
    Cluster::new(Client::new(service, "default"), Leadership::alone(), EventSink::default())
}
