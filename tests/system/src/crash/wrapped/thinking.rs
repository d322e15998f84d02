//! Who answers and speaks, what the tools do, and who hears of it.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use satchel_domain::ToolOutcome;
use satchel_local::{LocalBus, ScriptedModel};
use satchel_ports::{
    BusError, BusEvent, EventBus, HostFunctions, LanguageModel, ModelError, ModelRequest, Recording, ScriptHost,
    ScriptRequest, Speech, SpeechError, SynthesizedSpeech, Tool, ToolContext, ToolError, ToolSpec,
    event_bus::EventStream, language_model::ModelStream, script_host::ScriptEvaluation,
};
use satchel_starlark::WorkerPool;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Wrapped, between};
use crate::crash::{
    tools::{RequestVoice, Tally, WaitForPerson},
    voice::FakeVoice,
};

#[async_trait]
impl LanguageModel for Wrapped<ScriptedModel> {
    fn name(&self) -> String {
        self.inner.name()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let pieces = between!(self, "model.stream", self.inner.stream(request))?;
        let points = Arc::clone(&self.points);
        // Each piece is a point of its own: the process dies with it in hand.
        let counted = pieces.inspect(move |_| {
            let _nth = points.before("model.piece");
        });
        Ok(Box::pin(counted))
    }
}

#[async_trait]
impl Speech for Wrapped<FakeVoice> {
    fn can_speak(&self) -> bool {
        self.inner.can_speak()
    }

    fn can_transcribe(&self) -> bool {
        self.inner.can_transcribe()
    }

    async fn speak(&self, words: &str) -> Result<SynthesizedSpeech, SpeechError> {
        between!(self, "speech.speak", self.inner.speak(words))
    }

    async fn transcribe(&self, recording: Recording) -> Result<String, SpeechError> {
        between!(self, "speech.transcribe", self.inner.transcribe(recording))
    }
}

#[async_trait]
impl EventBus for Wrapped<LocalBus> {
    async fn publish(&self, event: BusEvent) -> Result<(), BusError> {
        between!(self, "bus.publish", self.inner.publish(event))
    }

    async fn subscribe(&self) -> Result<EventStream, BusError> {
        between!(self, "bus.subscribe", self.inner.subscribe())
    }
}

#[async_trait]
impl Tool for Wrapped<Tally> {
    fn spec(&self) -> ToolSpec {
        self.inner.spec()
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        between!(self, "tool.tally", self.inner.call(arguments, context))
    }
}

#[async_trait]
impl Tool for Wrapped<RequestVoice> {
    fn spec(&self) -> ToolSpec {
        self.inner.spec()
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        between!(self, "tool.request_voice", self.inner.call(arguments, context))
    }
}

#[async_trait]
impl Tool for Wrapped<WaitForPerson> {
    fn spec(&self) -> ToolSpec {
        self.inner.spec()
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        between!(self, "tool.wait_for_person", self.inner.call(arguments, context))
    }
}

#[async_trait]
impl ScriptHost for Wrapped<WorkerPool> {
    async fn run<'a>(
        &self,
        script: &ScriptRequest,
        world: &'a (dyn HostFunctions + 'a),
        cancel: &CancellationToken,
    ) -> ScriptEvaluation {
        between!(self, "scripts.run", self.inner.run(script, world, cancel))
    }
}
