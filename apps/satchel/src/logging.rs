//! Logging: readable text on a terminal, JSON lines everywhere else.
//!
//! Logs go to standard error. They never hold the contents of messages, and secrets are of a type that can't be printed.

use std::ffi::OsString;

use anyhow::Context;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt::MakeWriter, layer::SubscriberExt};

/// The filter, unless the command line or the configuration sets one.
pub const DEFAULT_FILTER: &str = "warn,satchel=info";
/// The filter while a person chats in the same terminal.
pub const QUIET_FILTER: &str = "error,satchel=warn";

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people at a terminal.
    Text,
    /// One JSON object per line, for programs.
    Json,
}

/// A layer of the subscriber.
type LogLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Must live as long as the process logs.
#[derive(Debug)]
pub struct LoggingGuard {
    #[cfg(feature = "otel")]
    _tracer: Option<satchel_otel::TracerGuard>,
}

/// Starts logging to standard error for the rest of the process and, with the feature `otel`, sending spans to the
/// collector that the environment names. Call it outside an asynchronous runtime.
///
/// # Errors
/// When the filter or the collector's address is invalid.
pub fn init_logging(
    filter: &str,
    format: LogFormat,
    environment: &[(OsString, OsString)],
) -> anyhow::Result<LoggingGuard> {
    let stderr_layer = fmt_layer(filter, format, std::io::stderr)?;
    let (span_layer, guard) = span_layer(environment)?;
    let layers: Vec<_> = std::iter::once(stderr_layer).chain(span_layer).collect();
    let subscriber = tracing_subscriber::registry().with(layers);
    tracing::subscriber::set_global_default(subscriber).context("logging was started already")?;
    Ok(guard)
}

#[cfg(feature = "otel")]
fn span_layer(environment: &[(OsString, OsString)]) -> anyhow::Result<(Option<LogLayer>, LoggingGuard)> {
    let (layer, tracer) = satchel_otel::layer(environment)?.unzip();
    Ok((layer, LoggingGuard { _tracer: tracer }))
}

#[cfg(not(feature = "otel"))]
fn span_layer(_: &[(OsString, OsString)]) -> anyhow::Result<(Option<LogLayer>, LoggingGuard)> {
    Ok((None, LoggingGuard {}))
}

fn fmt_layer<W>(filter: &str, format: LogFormat, writer: W) -> anyhow::Result<LogLayer>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).with_context(|| {
        format!("the log filter {filter:?} is invalid; filters look like `info` or `satchel=debug`")
    })?;
    // A closed standard error must not stop the process: the layer's own error report would panic.
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).log_internal_errors(false);
    Ok(match format {
        LogFormat::Text => layer.compact().with_filter(filter).boxed(),
        LogFormat::Json => layer
            .with_ansi(false)
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_filter(filter)
            .boxed(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log_output(filter: &str, format: LogFormat) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = fmt_layer(filter, format, move || writer.clone()).unwrap();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "satchel_ledger_sqlite", duration_ms = 3, "opened the ledger");
            tracing::info!(target: "hyper", "chatter");
            tracing::warn!(target: "hyper", "trouble");
        });
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn own_info_and_foreign_warnings_are_logged() {
        let text = log_output(DEFAULT_FILTER, LogFormat::Text);
        assert!(text.contains("opened the ledger") && text.contains("trouble") && !text.contains("chatter"), "{text}");
        let quiet = log_output(QUIET_FILTER, LogFormat::Text);
        assert_eq!(quiet, "");
    }

    #[test]
    fn programs_get_one_object_a_line() {
        let text = log_output("info", LogFormat::Json);
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["message"], "opened the ledger");
        assert_eq!(lines[0]["duration_ms"], 3);
    }

    #[test]
    fn invalid_log_filter_is_reported() {
        let error = fmt_layer("satchel=loud=er", LogFormat::Text, std::io::sink).err().unwrap();
        assert!(error.to_string().contains("satchel=loud=er"), "{error}");
    }
}
