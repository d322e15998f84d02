//! Opens speech synthesis and transcription, as configured.

use std::sync::Arc;

use satchel_ports::Speech;
use satchel_speech::{SpeechEngine, SpeechSettings};

use crate::{commands::UsageError, config::Config};

/// Opens synthesis and transcription; `None` if neither is configured. Nothing is started or requested yet.
///
/// # Errors
/// When the settings are invalid.
pub fn open(config: &Config) -> Result<Option<Arc<dyn Speech>>, UsageError> {
    let speech = &config.speech;
    let (speak, transcribe) = (speech.speak_engine(), speech.transcribe_engine());
    if speak.is_none() && transcribe.is_none() {
        return Ok(None);
    }
    let settings = SpeechSettings {
        speak,
        transcribe,
        environment: speech.environment.clone(),
        recordings: config.storage.data_dir().join("recordings"),
    };
    let engine = SpeechEngine::new(settings).map_err(|error| UsageError(error.to_string()))?;
    Ok(Some(Arc::new(engine)))
}
