//! Several models as one: the next is called when one fails before its first delta.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use satchel_ports::{
    LanguageModel, ModelError, ModelRequest,
    language_model::{InputSupport, ModelStream},
};

/// Calls models in order until one starts to answer.
///
/// A delta that was sent can't be withdrawn, so an error after the first one ends the call.
pub struct FallbackModel {
    models: Vec<Arc<dyn LanguageModel>>,
}

impl fmt::Debug for FallbackModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FallbackModel").field(&self.models.iter().map(|model| model.name()).collect::<Vec<_>>()).finish()
    }
}

impl FallbackModel {
    /// Calls the first of these, then the others in order.
    #[must_use]
    pub fn new(models: Vec<Arc<dyn LanguageModel>>) -> Self {
        Self { models }
    }
}

#[async_trait]
impl LanguageModel for FallbackModel {
    /// The name of the first model.
    fn name(&self) -> String {
        self.models.first().map_or_else(|| "none".to_owned(), |model| model.name())
    }

    /// What all of them take: which one will answer is open.
    fn input_support(&self) -> InputSupport {
        let all = self.models.iter().map(|model| model.input_support());
        all.reduce(|first, other| InputSupport {
            image_urls: first.image_urls && other.image_urls,
            types: &first.types & &other.types,
            partial_types: &first.partial_types | &other.partial_types,
            max_document_bytes: first.max_document_bytes.min(other.max_document_bytes),
            document_text: first.document_text && other.document_text,
        })
        .unwrap_or_default()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let mut failures: Vec<(String, ModelError)> = Vec::new();
        for model in &self.models {
            match start_stream(&**model, request).await {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    tracing::warn!(model = model.name(), error = %error, "a model failed; falling back to the next one");
                    failures.push((model.name(), error));
                }
            }
        }
        Err(combine_errors(failures))
    }
}

/// Waits for the first event, so that the next model can take over after an earlier failure.
async fn start_stream(model: &dyn LanguageModel, request: &ModelRequest) -> Result<ModelStream, ModelError> {
    let mut stream = model.stream(request).await?;
    let first = match stream.next().await {
        Some(first) => first?,
        None => {
            return Err(ModelError {
                reason: "its answer ended before it started".to_owned(),
                retryable: true,
                remedy: None,
            });
        }
    };
    Ok(Box::pin(stream::iter([Ok(first)]).chain(stream)))
}

fn combine_errors(mut failures: Vec<(String, ModelError)>) -> ModelError {
    match failures.len() {
        0 => ModelError { reason: "no model is configured".to_owned(), retryable: false, remedy: None },
        1 => failures.remove(0).1,
        _ => {
            let reasons: Vec<String> =
                failures.iter().map(|(name, error)| format!("{name}: {}", error.reason)).collect();
            let remedy = |(name, error): &(String, ModelError)| Some(format!("for {name}, {}", error.remedy.as_ref()?));
            let remedies: Vec<String> = failures.iter().filter_map(remedy).collect();
            ModelError {
                retryable: failures.iter().any(|(_, error)| error.retryable),
                reason: reasons.join("; "),
                remedy: (!remedies.is_empty()).then(|| remedies.join("; ")),
            }
        }
    }
}

#[cfg(test)]
mod tests;
