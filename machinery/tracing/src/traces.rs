//! Export of spans.

use std::time::Duration;

use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracer, SdkTracerProvider, TracerProviderBuilder},
};

use crate::TracingConfig;

/// Name of the spans' scope.
const SCOPE: &str = "machinery";
/// Maximum time for one export, and for the last one at the end.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason for which spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("cannot export traces to {endpoint}")]
pub struct StartError {
    endpoint: String,
    #[source]
    source: ExporterBuildError,
}

/// Traces of a server, which are exported in the background. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    pub(crate) tracer: SdkTracer,
}

impl Traces {
    /// Starts to export spans to the collector, as the service `service`. Does not wait for the
    /// collector. Call it in a tokio runtime.
    ///
    /// # Errors
    ///
    /// The endpoint is no address.
    pub fn start(config: &TracingConfig, service: &str, instance: &str) -> Result<Self, StartError> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            // As in kube-apiserver, without TLS: the collector is an agent of the same machine or network.
            .with_endpoint(format!("http://{}", config.endpoint))
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|source| StartError { endpoint: config.endpoint.clone(), source })?;
        let resource = Resource::builder_empty()
            .with_attribute(KeyValue::new("service.name", service.to_owned()))
            .with_attribute(KeyValue::new("service.instance.id", instance.to_owned()))
            .build();
        let builder = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource);
        Ok(Self::with(builder, config.sampling_rate_per_million))
    }

    pub(crate) fn with(builder: TracerProviderBuilder, rate_per_million: u32) -> Self {
        let rate = Sampler::TraceIdRatioBased(f64::from(rate_per_million) / 1_000_000.0);
        let provider = builder.with_sampler(Sampler::ParentBased(Box::new(rate))).build();
        let tracer = provider.tracer(SCOPE);
        Self { provider, tracer }
    }

    /// Exports the spans that wait, and ends. Later spans are dropped.
    pub async fn shutdown(&self) {
        let provider = self.provider.clone();
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(EXPORT_TIMEOUT)).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!(result = ?ended, "the last traces were not exported");
        }
    }

    #[cfg(test)]
    pub(crate) fn flush(&self) {
        self.provider.force_flush().expect("flushed");
    }
}
