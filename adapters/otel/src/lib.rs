//! Sends spans to an OpenTelemetry collector, if the standard environment variables name one.
//!
//! A span holds what a log line may hold: ids, names, durations; never contents. `satchel` links this with its feature
//! `otel` only.

use std::ffi::OsString;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

/// The variables that name a collector: the full address for traces, and the base address without `/v1/traces`.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The span exporter can't be built from the environment, for example because the collector's address is invalid.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up the span exporter from the environment")]
pub struct ExporterError(#[from] ExporterBuildError);

/// A layer that sends spans.
pub type SpanLayer<S> = Box<dyn Layer<S> + Send + Sync>;

/// Sends the buffered spans when it is dropped.
#[derive(Debug)]
pub struct TracerGuard(SdkTracerProvider);

impl Drop for TracerGuard {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(error = %error, "failed to send the last spans");
        }
    }
}

/// The layer that sends the spans of Satchel's own code; `None` without a collector. Call it outside an asynchronous
/// runtime, because a separate thread sends the spans.
///
/// `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_BSP_…`, `OTEL_TRACES_SAMPLER` and
/// `OTEL_RESOURCE_ATTRIBUTES` are read by the exporter itself.
///
/// # Errors
/// When the exporter can't be built.
pub fn layer<S>(environment: &[(OsString, OsString)]) -> Result<Option<(SpanLayer<S>, TracerGuard)>, ExporterError>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let Some(endpoint) = endpoint(environment) else { return Ok(None) };
    // The first provider that is installed counts for the whole process.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let exporter =
        SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).with_endpoint(endpoint).build()?;
    let resource = Resource::builder().with_service_name(service_name(environment)).build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let targets = Targets::new().with_target("satchel", tracing::Level::DEBUG);
    let layer = OpenTelemetryLayer::new(provider.tracer("satchel")).with_filter(targets);
    Ok(Some((Box::new(layer), TracerGuard(provider))))
}

fn value(environment: &[(OsString, OsString)], name: &str) -> Option<String> {
    let found = environment.iter().find(|(key, _)| key == name)?.1.to_str()?.trim();
    (!found.is_empty()).then(|| found.to_owned())
}

fn endpoint(environment: &[(OsString, OsString)]) -> Option<String> {
    if value(environment, "OTEL_SDK_DISABLED").is_some_and(|disabled| disabled.eq_ignore_ascii_case("true")) {
        return None;
    }
    let traces_url = |base: String| format!("{}/v1/traces", base.trim_end_matches('/'));
    value(environment, TRACES_ENDPOINT).or_else(|| value(environment, ENDPOINT).map(traces_url))
}

fn service_name(environment: &[(OsString, OsString)]) -> String {
    value(environment, "OTEL_SERVICE_NAME").unwrap_or_else(|| "satchel".to_owned())
}

#[cfg(test)]
mod tests;
