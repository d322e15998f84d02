//! A run of a task: the values that its templates can name, and the tasks as people see them. Pure.

use std::collections::BTreeSet;

use satchel_domain::{SystemTask, TaskDirectory, TaskSummary};
use serde_json::{Map, Value, json};

use crate::{
    order::{Playbooks, ResolvedTask},
    template::{ANY_INPUT, TemplateContext},
};

/// What a run brings along.
#[derive(Debug, Clone, Default)]
pub struct RunValues {
    /// `workflow.exec_id`.
    pub exec_id: String,
    /// `input` and `workflow.input`.
    pub input: Map<String, Value>,
    /// `env`: the variables that templates may name.
    pub environment: Map<String, Value>,
    /// `trigger`: what started the run, as [`trigger_values`] describes it.
    pub trigger: Map<String, Value>,
}

impl RunValues {
    /// The values that all tasks of a file have in common; `workflow` is the file's id.
    #[must_use]
    pub fn to_context(&self, playbooks: &Playbooks, workflow: &str) -> TemplateContext {
        let agents = playbooks.agents().map(|agent| {
            let description = json!({ "id": agent.id, "description": agent.description });
            (agent.id.clone(), description)
        });
        TemplateContext::new()
            .with_values("input", self.input.clone())
            .with_values("env", self.environment.clone())
            .with_values("agents", agents.collect())
            .with_values("trigger", self.trigger.clone())
            .with_workflow(workflow, &self.exec_id, self.input.clone())
    }
}

/// Describes what started a run: the system task of a schedule, or else a message.
#[must_use]
pub fn trigger_values(system_task: Option<&SystemTask>) -> Map<String, Value> {
    let values = match system_task {
        Some(SystemTask::RunSchedule { name, due }) => {
            vec![("kind", "schedule"), ("name", name.as_str()), ("due", due.as_str())]
        }
        _ => vec![("kind", "message")],
    };
    values.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

/// The tasks as people see them.
#[must_use]
pub fn task_directory(playbooks: &Playbooks) -> TaskDirectory {
    let summary = |ResolvedTask { task, .. }: ResolvedTask<'_>| {
        let mut inputs = run_inputs(playbooks, &task.id);
        let agents = playbooks.run_order(&task.id).iter().map(|step| step.agent.id.clone()).collect();
        TaskSummary {
            name: task.id.clone(),
            description: task.description.clone(),
            allow: task.allow,
            takes_any_input: inputs.remove(ANY_INPUT),
            inputs: inputs.into_iter().collect(),
            agents,
        }
    };
    TaskDirectory::new(playbooks.tasks().map(summary).collect())
}

/// The inputs that a task and those before it mention.
fn run_inputs(playbooks: &Playbooks, task: &str) -> BTreeSet<String> {
    let steps = playbooks.run_order(task);
    steps.iter().flat_map(|ResolvedTask { task, agent, action, .. }| task.inputs(agent, action)).collect()
}
