//! Counts what is asked of a model: how the answer ended, how soon it began, how long it took, the tokens; and makes a
//! span of each answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures::Stream;
use satchel_ports::{
    LanguageModel, ModelError, ModelEvent, ModelRequest,
    language_model::{ModelStream, TokenUsage},
};
use tokio::time::Instant;
use tracing::{Instrument, Span, field::Empty};

use super::{Metrics, ModelCallLabels, ModelLabels, TokenLabels};

/// A model that counts.
pub struct MeasuredModel {
    inner: Arc<dyn LanguageModel>,
    figures: Arc<Metrics>,
    name: String,
}

impl MeasuredModel {
    /// Counts what is asked of `inner` under the name that it has in the configuration.
    #[must_use]
    pub fn new(inner: Arc<dyn LanguageModel>, figures: Arc<Metrics>, name: &str) -> Self {
        Self { inner, figures, name: name.to_owned() }
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl LanguageModel for MeasuredModel {
    fn name(&self) -> String {
        self.inner.name()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let mut call = ModelCallTimer {
            figures: Arc::clone(&self.figures),
            model: self.name.clone(),
            began: Instant::now(),
            has_begun: false,
            has_ended: false,
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

/// One question and its answer. Dropped before its end it counts as stopped.
struct ModelCallTimer {
    figures: Arc<Metrics>,
    model: String,
    began: Instant,
    has_begun: bool,
    has_ended: bool,
    span: Span,
}

impl ModelCallTimer {
    fn record_event(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Text(_) | ModelEvent::Call(_) if !self.has_begun => {
                self.has_begun = true;
                let model = ModelLabels { model: self.model.clone() };
                let took = self.began.elapsed().as_secs_f64();
                self.figures.model_first_piece_seconds.get_or_create(&model).observe(took);
            }
            ModelEvent::Text(_) | ModelEvent::Call(_) => {}
            ModelEvent::Usage(TokenUsage { input_tokens, output_tokens }) => {
                for (direction, tokens) in [("input", *input_tokens), ("output", *output_tokens)] {
                    let of = TokenLabels { model: self.model.clone(), direction };
                    self.figures.model_tokens.get_or_create(&of).inc_by(tokens);
                }
            }
            ModelEvent::Done => {
                let model = ModelLabels { model: self.model.clone() };
                let took = self.began.elapsed().as_secs_f64();
                self.figures.model_answer_seconds.get_or_create(&model).observe(took);
                self.finish("done");
            }
        }
    }

    fn finish(&mut self, outcome: &'static str) {
        if !std::mem::replace(&mut self.has_ended, true) {
            let of = ModelCallLabels { model: self.model.clone(), outcome };
            self.figures.model_calls.get_or_create(&of).inc();
            self.span.record("outcome", outcome);
        }
    }
}

impl Drop for ModelCallTimer {
    fn drop(&mut self) {
        self.finish("stopped");
    }
}

/// An answer that is counted as it comes.
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
            // A stream that ends without `Done` broke off.
            Poll::Ready(Some(Err(_)) | None) => self.call.finish("failed"),
            Poll::Pending => {}
        }
        next
    }
}
