//! A collector of traces: a real receiver of OTLP over gRPC.

use std::sync::{Arc, Mutex};

use opentelemetry::TraceId;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
};
use tonic::{Request, Response, Status, transport::Server};

/// A span that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) service: String,
    pub(crate) name: String,
    /// Identifier of the trace, in hexadecimal digits.
    pub(crate) trace: String,
    pub(crate) id: Vec<u8>,
    pub(crate) parent: Vec<u8>,
    pub(crate) attributes: Vec<String>,
}

/// The spans so far.
#[derive(Clone, Default)]
pub(crate) struct Collector(Arc<Mutex<Vec<Received>>>);

impl Collector {
    /// Starts to receive; returns the address, too.
    pub(crate) fn start() -> (Self, String) {
        let collector = Self::default();
        let port = controlplane::free_port().unwrap();
        let address = format!("127.0.0.1:{port}");
        let service = TraceServiceServer::new(collector.clone());
        tokio::spawn(Server::builder().add_service(service).serve(address.parse().unwrap()));
        (collector, address)
    }

    pub(crate) fn spans(&self) -> Vec<Received> {
        self.0.lock().unwrap().clone()
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.unwrap_or_default().attributes;
            let service = attributes.iter().find(|attribute| attribute.key == "service.name");
            let service = service.and_then(|service| match service.value.clone()?.value? {
                Value::StringValue(text) => Some(text),
                _ => None,
            });
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                self.0.lock().unwrap().push(Received {
                    service: service.clone().unwrap_or_default(),
                    name: span.name,
                    trace: TraceId::from_bytes(span.trace_id.try_into().unwrap()).to_string(),
                    id: span.span_id,
                    parent: span.parent_span_id,
                    attributes: span.attributes.into_iter().map(|attribute| attribute.key).collect(),
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
