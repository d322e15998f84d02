//! Counts the calls of a model: results, time to the first delta, durations and tokens. Opens a span for each answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures::Stream;
use satchel_ports::{
    LanguageModel, ModelError, ModelEvent, ModelRequest,
    language_model::{InputSupport, ModelStream, TokenUsage},
};
use tokio::time::Instant;
use tracing::{Instrument, Span, field::Empty};

use super::{Metrics, ModelCallLabels, ModelLabels, TokenLabels};

/// A model that counts.
pub struct MeasuredModel {
    inner: Arc<dyn LanguageModel>,
    metrics: Arc<Metrics>,
    name: String,
}

impl MeasuredModel {
    /// Counts the calls of `inner` under its name in the configuration.
    #[must_use]
    pub fn new(inner: Arc<dyn LanguageModel>, metrics: Arc<Metrics>, name: &str) -> Self {
        Self { inner, metrics, name: name.to_owned() }
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl LanguageModel for MeasuredModel {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn input_support(&self) -> InputSupport {
        self.inner.input_support()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let mut call = ModelCallTimer {
            metrics: Arc::clone(&self.metrics),
            model: self.name.clone(),
            started_at: Instant::now(),
            has_first_delta: false,
            is_finished: false,
            span: tracing::debug_span!("model.answer", model = self.name, outcome = Empty),
        };
        match self.inner.stream(request).instrument(call.span.clone()).await {
            Ok(inner) => Ok(Box::pin(MeasuredStream { call, inner })),
            Err(error) => {
                call.finish("failed");
                Err(error)
            }
        }
    }
}

/// One call of a model. Dropped before its end, it counts as stopped.
struct ModelCallTimer {
    metrics: Arc<Metrics>,
    model: String,
    started_at: Instant,
    has_first_delta: bool,
    is_finished: bool,
    span: Span,
}

impl ModelCallTimer {
    fn record_event(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Text(_) | ModelEvent::Call(_) if !self.has_first_delta => {
                self.has_first_delta = true;
                let labels = ModelLabels { model: self.model.clone() };
                let seconds = self.started_at.elapsed().as_secs_f64();
                self.metrics.model_first_delta_seconds.get_or_create(&labels).observe(seconds);
            }
            ModelEvent::Text(_) | ModelEvent::Call(_) => {}
            ModelEvent::Usage(TokenUsage { input_tokens, output_tokens }) => {
                for (direction, tokens) in [("input", *input_tokens), ("output", *output_tokens)] {
                    let labels = TokenLabels { model: self.model.clone(), direction };
                    self.metrics.model_tokens.get_or_create(&labels).inc_by(tokens);
                }
            }
            ModelEvent::Done => {
                let labels = ModelLabels { model: self.model.clone() };
                let seconds = self.started_at.elapsed().as_secs_f64();
                self.metrics.model_answer_seconds.get_or_create(&labels).observe(seconds);
                self.finish("done");
            }
        }
    }

    fn finish(&mut self, outcome: &'static str) {
        if !std::mem::replace(&mut self.is_finished, true) {
            let labels = ModelCallLabels { model: self.model.clone(), outcome };
            self.metrics.model_calls.get_or_create(&labels).inc();
            self.span.record("outcome", outcome);
        }
    }
}

impl Drop for ModelCallTimer {
    fn drop(&mut self) {
        self.finish("stopped");
    }
}

/// An answer that is counted while it is streamed.
struct MeasuredStream {
    call: ModelCallTimer,
    inner: ModelStream,
}

impl Stream for MeasuredStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let span = self.call.span.clone();
        let next = span.in_scope(|| self.inner.as_mut().poll_next(context));
        match &next {
            Poll::Ready(Some(Ok(event))) => self.call.record_event(event),
            // A stream that ends without `Done` was cut off.
            Poll::Ready(Some(Err(_)) | None) => self.call.finish("failed"),
            Poll::Pending => {}
        }
        next
    }
}
