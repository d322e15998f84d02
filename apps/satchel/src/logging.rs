//! What is logged, and how: for people on a terminal, as JSON lines everywhere else.
//!
//! Logs go to standard error. They never hold the contents of messages, and secrets are of a type that can't be printed.

use std::ffi::OsString;

use anyhow::Context;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt::MakeWriter, layer::SubscriberExt};

/// What is logged unless something else is asked.
pub const DEFAULT_FILTER: &str = "warn,satchel=info";
/// What is logged while a person talks in the same terminal.
pub const QUIET_FILTER: &str = "error,satchel=warn";

/// Who reads the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A person at a terminal.
    Text,
    /// A program: one JSON object a line.
    Json,
}

/// Something that takes what is logged.
type LogLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// What must live as long as the process logs.
#[derive(Debug)]
pub struct LoggingGuard {
    #[cfg(feature = "otel")]
    _exporting: Option<crate::otel::TracerGuard>,
}

/// Starts to log to standard error for the rest of the process, and, with the feature `otel`, to send spans to the
/// collector that the environment names. To be called outside of an asynchronous runtime.
///
/// # Errors
/// When the filter can't be read, or the collector's address.
pub fn init_logging(
    filter: &str,
    reader: LogFormat,
    environment: &[(OsString, OsString)],
) -> anyhow::Result<LoggingGuard> {
    let printed = layer(filter, reader, std::io::stderr)?;
    let (spans, logging) = spans(environment)?;
    let layers: Vec<_> = std::iter::once(printed).chain(spans).collect();
    let subscriber = tracing_subscriber::registry().with(layers);
    tracing::subscriber::set_global_default(subscriber).context("logging was started already")?;
    Ok(logging)
}

#[cfg(feature = "otel")]
fn spans(environment: &[(OsString, OsString)]) -> anyhow::Result<(Option<LogLayer>, LoggingGuard)> {
    let (layer, exporting) = crate::otel::layer(environment)?.unzip();
    Ok((layer, LoggingGuard { _exporting: exporting }))
}

#[cfg(not(feature = "otel"))]
fn spans(_: &[(OsString, OsString)]) -> anyhow::Result<(Option<LogLayer>, LoggingGuard)> {
    Ok((None, LoggingGuard {}))
}

fn layer<W>(filter: &str, reader: LogFormat, writer: W) -> anyhow::Result<LogLayer>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).with_context(|| {
        format!("the log filter {filter:?} is invalid; filters look like `info` or `satchel=debug`")
    })?;
    // Nobody reading the log any more is no reason to stop: the layer's own report of it would panic.
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).log_internal_errors(false);
    Ok(match reader {
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

    fn logged(filter: &str, reader: LogFormat) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = layer(filter, reader, move || writer.clone()).unwrap();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "satchel_ledger", duration_ms = 3, "opened the ledger");
            tracing::info!(target: "hyper", "chatter");
            tracing::warn!(target: "hyper", "trouble");
        });
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn own_info_and_foreign_warnings_are_logged() {
        let text = logged(DEFAULT_FILTER, LogFormat::Text);
        assert!(text.contains("opened the ledger") && text.contains("trouble") && !text.contains("chatter"), "{text}");
        let quiet = logged(QUIET_FILTER, LogFormat::Text);
        assert_eq!(quiet, "");
    }

    #[test]
    fn programs_get_one_object_a_line() {
        let text = logged("info", LogFormat::Json);
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["message"], "opened the ledger");
        assert_eq!(lines[0]["duration_ms"], 3);
    }

    #[test]
    fn invalid_log_filter_is_reported() {
        let error = layer("satchel=loud=er", LogFormat::Text, std::io::sink).err().unwrap();
        assert!(error.to_string().contains("satchel=loud=er"), "{error}");
    }
}
