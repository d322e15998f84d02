//! A speech engine that never says the same thing twice with the same bytes, as real ones don't.

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_ports::{Recording, Speech, SpeechError, SynthesizedSpeech};
use uuid::Uuid;

/// The engine. Two voices of the same words differ, so that a repeat which was spoken anew is found out.
#[derive(Debug, Clone, Copy)]
pub struct FakeVoice;

#[async_trait]
impl Speech for FakeVoice {
    fn can_speak(&self) -> bool {
        true
    }

    fn can_transcribe(&self) -> bool {
        true
    }

    async fn speak(&self, words: &str) -> Result<SynthesizedSpeech, SpeechError> {
        let sound = Bytes::from(format!("OggS {words} {}", Uuid::now_v7()));
        Ok(SynthesizedSpeech {
            content: stream::iter([Ok(sound)]).boxed(),
            duration_ms: 1_500,
            waveform: vec![0, 128, 255],
        })
    }

    async fn transcribe(&self, recording: Recording) -> Result<String, SpeechError> {
        Ok(format!("{} bytes of {}", recording.bytes, recording.mime))
    }
}
