//! Wrappers of the model, speech, event bus, tools and script host.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use satchel_domain::ToolOutcome;
use satchel_local::{LocalBus, ScriptedModel};
use satchel_ports::{
    BusError, BusEvent, EventBus, HostFunctions, LanguageModel, ModelError, ModelRequest, Recording, ScriptHost,
    ScriptRequest, Speech, SpeechError, SynthesizedSpeech, Tool, ToolContext, ToolError, ToolSpec,
    event_bus::EventStream,
    language_model::{InputSupport, ModelStream},
    script_host::ScriptEvaluation,
};
use satchel_starlark::WorkerPool;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{CrashWrapper, between};
use crate::crash::{
    tools::{CountingTool, RequestVoiceTool, WaitingTool},
    voice::FakeSpeech,
};

#[async_trait]
impl LanguageModel for CrashWrapper<ScriptedModel> {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn input_support(&self) -> InputSupport {
        self.inner.input_support()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let deltas = between!(self, "model.stream", self.inner.stream(request))?;
        let points = Arc::clone(&self.points);
        // Each delta is a crash point of its own.
        let counted = deltas.inspect(move |_| {
            let _nth = points.crash_before("model.piece");
        });
        Ok(Box::pin(counted))
    }
}

#[async_trait]
impl Speech for CrashWrapper<FakeSpeech> {
    fn can_speak(&self) -> bool {
        self.inner.can_speak()
    }

    fn can_transcribe(&self) -> bool {
        self.inner.can_transcribe()
    }

    async fn speak(&self, text: &str) -> Result<SynthesizedSpeech, SpeechError> {
        between!(self, "speech.speak", self.inner.speak(text))
    }

    async fn transcribe(&self, recording: Recording) -> Result<String, SpeechError> {
        between!(self, "speech.transcribe", self.inner.transcribe(recording))
    }
}

#[async_trait]
impl EventBus for CrashWrapper<LocalBus> {
    async fn publish(&self, event: BusEvent) -> Result<(), BusError> {
        between!(self, "bus.publish", self.inner.publish(event))
    }

    async fn subscribe(&self) -> Result<EventStream, BusError> {
        between!(self, "bus.subscribe", self.inner.subscribe())
    }
}

#[async_trait]
impl Tool for CrashWrapper<CountingTool> {
    fn spec(&self) -> ToolSpec {
        self.inner.spec()
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        between!(self, "tool.tally", self.inner.call(arguments, context))
    }
}

#[async_trait]
impl Tool for CrashWrapper<RequestVoiceTool> {
    fn spec(&self) -> ToolSpec {
        self.inner.spec()
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        between!(self, "tool.request_voice", self.inner.call(arguments, context))
    }
}

#[async_trait]
impl Tool for CrashWrapper<WaitingTool> {
    fn spec(&self) -> ToolSpec {
        self.inner.spec()
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        between!(self, "tool.wait_for_person", self.inner.call(arguments, context))
    }
}

#[async_trait]
impl ScriptHost for CrashWrapper<WorkerPool> {
    async fn run<'a>(
        &self,
        script: &ScriptRequest,
        host: &'a (dyn HostFunctions + 'a),
        cancel: &CancellationToken,
    ) -> ScriptEvaluation {
        between!(self, "scripts.run", self.inner.run(script, host, cancel))
    }
}
