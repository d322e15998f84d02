//! A fake speech engine whose output differs on every call, like a real one's.

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_ports::{Recording, Speech, SpeechError, SynthesizedSpeech};
use uuid::Uuid;

/// Fake speech engine. Two syntheses of the same text differ, so that a repeated synthesis is detected.
#[derive(Debug, Clone, Copy)]
pub struct FakeSpeech;

#[async_trait]
impl Speech for FakeSpeech {
    fn can_speak(&self) -> bool {
        true
    }

    fn can_transcribe(&self) -> bool {
        true
    }

    async fn speak(&self, text: &str) -> Result<SynthesizedSpeech, SpeechError> {
        let sound = Bytes::from(format!("OggS {text} {}", Uuid::now_v7()));
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
