//! Runs declared tasks, and gives agents the attachments that are declared for them.
//!
//! A run is one turn: first the tasks whose output is needed, then the task itself, each with its own agent and without
//! the conversation's history. The end of each task but the last is journalled, so that a run continues at its own step
//! after a crash.

use std::sync::Arc;

use satchel_attachments::{
    Declaration, EffectiveList, Scope, TemplateContext,
    content::{ContentServices, ScopedPart, to_content_parts},
    order::{Playbooks, ResolvedTask},
    output::{RunFiles, output_value},
    problem::DeclarationProblem,
    run::{RunValues, task_directory, trigger_values},
    template::RenderedText,
};
use satchel_domain::{
    AttachmentId, AttachmentSource, Ending, Filename, NewAttachment, StoredBlob, TaskDirectory, TaskRequest,
};
use satchel_ports::{
    BusEvent, LedgerError, ModelMessage, ModelRequest,
    language_model::ContentPart,
    ledger::{JournalEntry, QueuedMessage, QueuedTurn},
};
use satchel_routing::retry::retry_until_stored;
use serde_json::{Map, Value, json};

use crate::{
    AgentProfile, AgentServices, LaneHandle,
    calls::CallScope,
    documents::document_messages,
    draft::DeltaSink,
    prompt,
    rounds::Rounds,
    run::{LoopEnd, Opening, heading_context, is_for_owners, publish, run_loop, work_share},
};

/// The agents and tasks of the configuration, and what they are run with.
pub struct PlaybookServices {
    playbooks: Playbooks,
    directory: TaskDirectory,
    /// The environment variables that templates may name.
    environment: Map<String, Value>,
    content: ContentServices,
}

impl PlaybookServices {
    /// Takes what is declared, and the environment variables that templates may name.
    #[must_use]
    pub fn new(playbooks: Playbooks, environment: Map<String, Value>, content: ContentServices) -> Self {
        Self { directory: task_directory(&playbooks), playbooks, environment, content }
    }

    /// The tasks as people see them.
    #[must_use]
    pub fn directory(&self) -> &TaskDirectory {
        &self.directory
    }
}

/// Why a task or an agent can't begin: for the operator.
#[derive(Debug, thiserror::Error)]
enum PreparationError {
    #[error("it was removed or changed since it began")]
    NoTask,
    #[error("the agent {0:?} doesn't exist")]
    NoAgent(String),
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Declaration(Vec<DeclarationProblem>),
    #[error("{0}")]
    Resolution(String),
}

impl From<DeclarationProblem> for PreparationError {
    fn from(problem: DeclarationProblem) -> Self {
        Self::Declaration(vec![problem])
    }
}

/// The agent of the task that runs now; `None` if the run has none any more.
pub(crate) fn current_agent(
    services: &AgentServices,
    request: &TaskRequest,
    rounds: &Rounds,
) -> Option<Arc<AgentProfile>> {
    let steps = run_order(services.playbooks.as_ref()?, request);
    let current = current_step(&steps, rounds)?;
    services.agents.find(&current.agent.id).cloned()
}

/// The end of a run that can't be resumed, because the configuration was changed since.
pub(crate) fn refuse_resumption(
    services: &AgentServices,
    turn: &QueuedTurn,
    request: &TaskRequest,
    rounds: &Rounds,
) -> Option<LoopEnd> {
    let steps = services.playbooks.as_ref().map(|playbooks| run_order(playbooks, request)).unwrap_or_default();
    let is_known = current_step(&steps, rounds).is_some();
    (!is_known).then(|| task_failure(services, turn, request, &PreparationError::NoTask))
}

/// The step that follows the finished ones; `None` if what was recorded isn't the beginning of this run.
fn current_step<'a>(steps: &[ResolvedTask<'a>], rounds: &Rounds) -> Option<ResolvedTask<'a>> {
    let finished = rounds.finished_tasks.iter().map(|finished| finished.task.as_str());
    let recorded: Vec<&str> = finished.chain(rounds.recorded_task.as_deref()).collect();
    let is_beginning =
        recorded.len() <= steps.len() && recorded.iter().zip(steps).all(|(name, step)| step.task.id == *name);
    let current = steps.get(rounds.finished_tasks.len()).copied().filter(|_| is_beginning)?;
    // What it has begun was begun with the tools of that agent.
    let agent = rounds.recorded_agent.as_deref().filter(|_| rounds.recorded_task.is_some());
    agent.is_none_or(|agent| agent == current.agent.id).then_some(current)
}

/// Runs a task to its end, or to the first failure.
///
/// # Errors
/// When the ledger fails or the lease is lost.
pub(crate) async fn run_task(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    request: &TaskRequest,
    scope: &CallScope,
    rounds: &mut Rounds,
    deltas: &DeltaSink,
) -> Result<LoopEnd, LedgerError> {
    let failed = |error: PreparationError| Ok(task_failure(services, turn, request, &error));
    let Some(playbooks) = &services.playbooks else { return failed(PreparationError::NoTask) };
    // Downloads and documents may take long, and a stop doesn't wait for them.
    let loaded = TaskRun::load(services, playbooks, lane, turn, request, rounds);
    let mut run = match scope.cancel.run_until_cancelled(loaded).await {
        Some(Ok(run)) => run,
        Some(Err(error)) => return failed(error),
        None => return Ok(LoopEnd::new(Ending::Cancelled)),
    };
    let total = run.steps.len();
    loop {
        let number = rounds.finished_tasks.len() + 1;
        let Some(step) = run.steps.get(number - 1).copied() else { return failed(PreparationError::NoTask) };
        show_step(services, lane, turn, deltas, &step, (number, total)).await;
        let (agent, opening) = match scope.cancel.run_until_cancelled(run.prepare(services, lane, turn, &step)).await {
            Some(Ok(prepared)) => prepared,
            Some(Err(error)) => return failed(error),
            None => return Ok(LoopEnd::new(Ending::Cancelled)),
        };
        let scope = CallScope { agent, ..scope.clone() };
        let end = run_loop(services, lane, turn, &scope, opening, rounds, deltas).await?;
        if number == total || end.ending != Ending::Done {
            return Ok(end);
        }
        finish_task(services, lane, turn, &step, rounds).await?;
        run.add_output(&step, rounds);
    }
}

/// What the operator declared for an agent in every conversation.
///
/// # Errors
/// With the end of the turn, when something can't be had.
pub(crate) async fn agent_attachments(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    agent: &AgentProfile,
) -> Result<Vec<ContentPart>, LoopEnd> {
    let Some(playbooks) = &services.playbooks else { return Ok(Vec::new()) };
    let Some((playbook, config)) = playbooks.playbooks.agent_with_playbook(&agent.summary.name) else {
        return Ok(Vec::new());
    };
    // Those that name inputs and outputs make sense in tasks alone.
    let declarations: Vec<Declaration> =
        config.attachments.iter().filter(|declaration| !declaration.needs_run()).cloned().collect();
    if declarations.is_empty() {
        return Ok(Vec::new());
    }
    let files = run_files(services, playbooks, lane);
    let values = run_values(playbooks, turn, Map::new());
    let context = values.to_context(&playbooks.playbooks, &playbook.id);
    let parts = async {
        let scopes = [(Scope::Agent, declarations.as_slice())];
        let list = EffectiveList::load(&scopes, &context, &files).await.map_err(PreparationError::Declaration)?;
        content_parts(services, playbooks, turn, files, &list, agent).await
    };
    match parts.await {
        Ok(parts) => Ok(parts.into_iter().map(|scoped| scoped.part).collect()),
        Err(error) => {
            let name = &agent.summary.name;
            tracing::warn!(turn.id = %turn.id, agent = name, %error, "an agent's attachments can't be had; the turn ends");
            let detail = match is_read_by_owners_only(services, turn) {
                true => error.to_string(),
                false => "something that it needs can't be had; please ask the person who runs this bot".to_owned(),
            };
            Err(LoopEnd::new(Ending::Failed { reason: format!("The agent `{name}` can't answer: {detail}.") }))
        }
    }
}

/// The tasks of a run, in their order.
fn run_order<'a>(playbooks: &'a PlaybookServices, request: &TaskRequest) -> Vec<ResolvedTask<'a>> {
    let task = playbooks.directory.find(&request.name);
    task.map_or_else(Vec::new, |task| playbooks.playbooks.run_order(&task.name))
}

/// A run under way.
struct TaskRun<'a> {
    playbooks: &'a PlaybookServices,
    steps: Vec<ResolvedTask<'a>>,
    /// The attachments of each step, as far as they are known.
    lists: Vec<EffectiveList>,
    /// The values of the run with the outputs of the finished tasks.
    context: TemplateContext,
}

impl<'a> TaskRun<'a> {
    /// Loads all steps, so that what is missing is reported before anything runs.
    async fn load(
        services: &AgentServices,
        playbooks: &'a PlaybookServices,
        lane: &LaneHandle,
        turn: &QueuedTurn,
        request: &TaskRequest,
        rounds: &Rounds,
    ) -> Result<Self, PreparationError> {
        let steps = run_order(playbooks, request);
        let Some(last) = steps.last() else { return Err(PreparationError::NoTask) };
        let input = request.input.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let context = run_values(playbooks, turn, input).to_context(&playbooks.playbooks, &last.playbook.id);
        let context = steps.iter().fold(context, |context, step| context.with_pending_task(&step.task.id));
        let mut run = Self { playbooks, steps, lists: Vec::new(), context };
        for index in 0..rounds.finished_tasks.len() {
            let Some(step) = run.steps.get(index).copied() else { return Err(PreparationError::NoTask) };
            run.add_output(&step, rounds);
        }
        let files = run_files(services, playbooks, lane);
        run.lists.resize_with(rounds.finished_tasks.len(), EffectiveList::default);
        for step in &run.steps[rounds.finished_tasks.len()..] {
            let context = step.with_task_input(run.context.clone())?;
            let list = EffectiveList::load(&step.scopes(), &context, &files).await;
            run.lists.push(list.map_err(PreparationError::Declaration)?);
            step.render_prompt(&context)?;
        }
        Ok(run)
    }

    /// Makes the output of a finished task known to the tasks behind it.
    fn add_output(&mut self, step: &ResolvedTask<'_>, rounds: &Rounds) {
        let finished = rounds.finished_tasks.iter().position(|finished| finished.task == step.task.id);
        let Some(index) = finished else { return };
        let output = output_value(rounds.task_text(index), &rounds.task_files(index));
        let context = std::mem::take(&mut self.context);
        self.context = context.with_task_output(&step.task.id, output);
    }

    /// The agent of a step, and what it is first asked.
    async fn prepare(
        &mut self,
        services: &AgentServices,
        lane: &LaneHandle,
        turn: &QueuedTurn,
        step: &ResolvedTask<'_>,
    ) -> Result<(Arc<AgentProfile>, Opening), PreparationError> {
        let name = &step.agent.id;
        let agent = services.agents.find(name).ok_or_else(|| PreparationError::NoAgent(name.clone()))?;
        let context = step.with_task_input(self.context.clone())?;
        let files = run_files(services, self.playbooks, lane);
        let index = self.steps.iter().position(|other| other.task.id == step.task.id);
        let list = index.and_then(|index| self.lists.get_mut(index)).map(std::mem::take).unwrap_or_default();
        let list = list.complete(&context, &files).await.map_err(PreparationError::Declaration)?;
        let parts = content_parts(services, self.playbooks, turn, files, &list, agent).await?;
        let RenderedText::Text(task_prompt) = step.render_prompt(&context)? else {
            return Err(PreparationError::Resolution(
                "its prompt needs the output of a task that didn't run".to_owned(),
            ));
        };
        let (of_agent, given): (Vec<ScopedPart>, Vec<ScopedPart>) =
            parts.into_iter().partition(|scoped| scoped.scope == Scope::Agent);
        let part = |scoped: ScopedPart| scoped.part;
        let of_agent = of_agent.into_iter().map(part).collect();
        let given = given.into_iter().map(part).collect();
        let mut messages: Vec<ModelMessage> = prompt::agent_context(agent, of_agent).into_iter().collect();
        messages.extend(document_messages(services, agent, turn).await);
        let heading = heading_context(services, lane);
        messages.extend(prompt::task_messages(&step.task.id, given, task_prompt, turn, &heading));
        let (system, tools) = (agent.instructions.clone(), agent.tools.specs());
        let request = ModelRequest { system, messages, tools, work_share: work_share(turn) };
        Ok((Arc::clone(agent), Opening { request, task: Some(step.task.id.clone()) }))
    }
}

/// The values of a run that begins with this turn.
fn run_values(playbooks: &PlaybookServices, turn: &QueuedTurn, input: Map<String, Value>) -> RunValues {
    let message = turn.messages.first().map(|queued| &queued.message);
    let trigger = trigger_values(message.and_then(|message| message.system_task.as_ref()));
    let environment = playbooks.environment.clone();
    RunValues { exec_id: turn.id.to_string(), input, environment, trigger }
}

fn run_files(services: &AgentServices, playbooks: &PlaybookServices, lane: &LaneHandle) -> RunFiles {
    RunFiles {
        declared: Arc::clone(&playbooks.content.files),
        archive: Arc::clone(&services.archive),
        blobs: Arc::clone(&playbooks.content.blobs),
        conversation: lane.lease.conversation.clone(),
    }
}

async fn content_parts(
    services: &AgentServices,
    playbooks: &PlaybookServices,
    turn: &QueuedTurn,
    files: RunFiles,
    list: &EffectiveList,
    agent: &AgentProfile,
) -> Result<Vec<ScopedPart>, PreparationError> {
    let work_share = work_share(turn);
    let content = ContentServices { files: Arc::new(files), work_share, ..playbooks.content.clone() };
    // The ledger doesn't know these files: they belong to the configuration, not to the conversation.
    let record = |filename: Filename, stored: StoredBlob| {
        let (id, now) = (AttachmentId(services.ids.next()), services.clock.now());
        NewAttachment::new(id, AttachmentSource::Config, filename, stored, now).into()
    };
    let parts = to_content_parts(list.entries(), &agent.model.input_support(), &content, &record).await;
    parts.map_err(|error| PreparationError::Resolution(error.reason))
}

async fn show_step(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    deltas: &DeltaSink,
    step: &ResolvedTask<'_>,
    (number, total): (usize, usize),
) {
    let task = &step.task.id;
    tracing::info!(turn.id = %turn.id, task, number, total, "a task starts");
    if total > 1 {
        deltas.show_task(task, number, total);
    }
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let event = BusEvent::TaskStarted {
        conversation: lane.lease.conversation.clone(),
        turn: turn.id,
        task: task.clone(),
        number: count(number),
        total: count(total),
    };
    publish(services, event).await;
}

/// Records the end of a task that others need.
async fn finish_task(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    step: &ResolvedTask<'_>,
    rounds: &mut Rounds,
) -> Result<(), LedgerError> {
    let task = step.task.id.clone();
    let text = rounds.rounds.last().map(|round| round.text.clone()).unwrap_or_default();
    let entry = JournalEntry::TaskFinished { task: task.clone(), text };
    retry_until_stored(&lane.stop, || services.turns.journal_message(&lane.lease, turn.id, &entry)).await?;
    rounds.finish_task(task);
    rounds.partial.clear();
    Ok(())
}

/// The end of a run that can't go on. Only owners read why: it names files and addresses of the operator.
fn task_failure(
    services: &AgentServices,
    turn: &QueuedTurn,
    request: &TaskRequest,
    error: &PreparationError,
) -> LoopEnd {
    let name = satchel_domain::filename::to_inline_code(&request.name, MAX_NAME_CHARS);
    tracing::warn!(turn.id = %turn.id, task = request.name, %error, "a task can't be run; the turn ends");
    let detail = match is_read_by_owners_only(services, turn) {
        true => error.to_string(),
        false => public_reason(services, request),
    };
    let end = if detail.ends_with(['.', '!', '?']) { "" } else { "." };
    LoopEnd::new(Ending::Failed { reason: format!("The task {name} failed: {detail}{end}") })
}

/// Whether nobody but owners reads the reply: it may name files and addresses of the operator.
fn is_read_by_owners_only(services: &AgentServices, turn: &QueuedTurn) -> bool {
    let is_private = turn
        .messages
        .iter()
        .all(|QueuedMessage { message, .. }| !message.group || (services.is_owners_chat)(&message.conversation));
    is_private && is_for_owners(services, turn)
}

/// The longest name in a message, in characters.
const MAX_NAME_CHARS: usize = 60;

/// What people who aren't owners read: the inputs that they may have left out.
fn public_reason(services: &AgentServices, request: &TaskRequest) -> String {
    let task = services.playbooks.as_ref().and_then(|playbooks| playbooks.directory.find(&request.name));
    let inputs = task.map(|task| task.inputs.as_slice()).unwrap_or_default();
    let missing = inputs.iter().filter(|name| request.input.iter().all(|(given, _)| given != *name));
    let missing: Vec<String> = missing.map(|name| format!("`{name}=…`")).collect();
    match missing.is_empty() {
        true => "something that it needs can't be had. Please ask the person who runs this bot".to_owned(),
        false => format!("it may need {}. Otherwise please ask the person who runs this bot", missing.join(" and ")),
    }
}
