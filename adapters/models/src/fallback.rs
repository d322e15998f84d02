//! Several models as one: the next is asked when one fails before its first piece.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use satchel_ports::{LanguageModel, ModelError, ModelRequest, language_model::ModelStream};

/// Asks models in order, until one begins to answer.
///
/// What has been said can't be taken back, so a model that fails after its first piece fails for all.
pub struct FallbackModel {
    models: Vec<Arc<dyn LanguageModel>>,
}

impl fmt::Debug for FallbackModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fallback").field(&self.models.iter().map(|model| model.name()).collect::<Vec<_>>()).finish()
    }
}

impl FallbackModel {
    /// Asks the first of these, then the others in order.
    #[must_use]
    pub fn new(models: Vec<Arc<dyn LanguageModel>>) -> Self {
        Self { models }
    }
}

#[async_trait]
impl LanguageModel for FallbackModel {
    /// The name of the model that is asked first.
    fn name(&self) -> String {
        self.models.first().map_or_else(|| "none".to_owned(), |model| model.name())
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let mut failed: Vec<(String, ModelError)> = Vec::new();
        for model in &self.models {
            match start_stream(&**model, request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    tracing::warn!(model = model.name(), error = %error, "a model failed; falling back to the next one");
                    failed.push((model.name(), error));
                }
            }
        }
        Err(combined_error(failed))
    }
}

/// Waits for the first piece, so that a failure before it is one that the next model can make good.
async fn start_stream(model: &dyn LanguageModel, request: &ModelRequest) -> Result<ModelStream, ModelError> {
    let mut answer = model.stream(request).await?;
    let first = match answer.next().await {
        Some(first) => first?,
        None => {
            return Err(ModelError {
                reason: "its answer ended before it started".to_owned(),
                retryable: true,
                remedy: None,
            });
        }
    };
    Ok(Box::pin(stream::iter([Ok(first)]).chain(answer)))
}

fn combined_error(mut failed: Vec<(String, ModelError)>) -> ModelError {
    match failed.len() {
        0 => ModelError { reason: "no model is configured".to_owned(), retryable: false, remedy: None },
        1 => failed.remove(0).1,
        _ => {
            let reasons: Vec<String> = failed.iter().map(|(name, error)| format!("{name}: {}", error.reason)).collect();
            let remedy = |(name, error): &(String, ModelError)| Some(format!("for {name}, {}", error.remedy.as_ref()?));
            let remedies: Vec<String> = failed.iter().filter_map(remedy).collect();
            ModelError {
                retryable: failed.iter().any(|(_, error)| error.retryable),
                reason: reasons.join("; "),
                remedy: (!remedies.is_empty()).then(|| remedies.join("; ")),
            }
        }
    }
}

#[cfg(test)]
mod tests;
