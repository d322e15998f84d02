//! What a template can name: the values of a run.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The names at the beginning of a path.
pub(crate) const ROOTS: [&str; 6] = ["workflow", "input", "env", "agents", "trigger", "tasks"];

/// The values that templates are rendered with.
#[derive(Debug, Clone, Default)]
pub struct TemplateContext {
    values: Map<String, Value>,
    pending_tasks: BTreeSet<String>,
    /// Inputs of the task itself that need the output of a pending task.
    pending_inputs: BTreeSet<String>,
}

impl TemplateContext {
    /// A context in which every name stands for an empty map.
    #[must_use]
    pub fn new() -> Self {
        let values = ROOTS.into_iter().map(|root| (root.to_owned(), Value::Object(Map::new()))).collect();
        Self { values, ..Self::default() }
    }

    /// Sets what `workflow` stands for.
    #[must_use]
    pub fn with_workflow(mut self, id: &str, exec_id: &str, input: Map<String, Value>) -> Self {
        let workflow = serde_json::json!({ "id": id, "exec_id": exec_id, "input": input });
        self.values.insert("workflow".to_owned(), workflow);
        self
    }

    /// Sets what `input`, `env`, `agents` or `trigger` stands for.
    #[must_use]
    pub fn with_values(mut self, root: &str, values: Map<String, Value>) -> Self {
        debug_assert!(ROOTS.contains(&root), "{root} can't be named");
        self.values.insert(root.to_owned(), Value::Object(values));
        self
    }

    /// Sets the inputs of a task itself: known ones, and the names of those that need the output of a pending task.
    #[must_use]
    pub(crate) fn with_own_inputs(mut self, known: Vec<(String, String)>, pending: Vec<String>) -> Self {
        if let Some(Value::Object(given)) = self.values.get_mut("input") {
            for (name, value) in known {
                given.insert(name, Value::String(value));
            }
        }
        self.pending_inputs.extend(pending);
        self
    }

    /// Adds a task that hasn't run yet: texts that mention it are deferred.
    #[must_use]
    pub fn with_pending_task(mut self, id: &str) -> Self {
        self.pending_tasks.insert(id.to_owned());
        self
    }

    /// Adds the output of a task.
    #[must_use]
    pub fn with_task_output(mut self, id: &str, output: Value) -> Self {
        self.pending_tasks.remove(id);
        if let Some(Value::Object(tasks)) = self.values.get_mut("tasks") {
            tasks.insert(id.to_owned(), serde_json::json!({ "output": output }));
        }
        self
    }

    /// Whether a path needs the output of a task that hasn't run yet.
    pub(crate) fn is_pending(&self, path: &[String]) -> bool {
        let pending = match path.first().map(String::as_str) {
            Some("tasks") => &self.pending_tasks,
            Some("input") => &self.pending_inputs,
            _ => return false,
        };
        match path.get(1) {
            Some(name) => pending.contains(name),
            // It may look at any of them.
            None => !pending.is_empty(),
        }
    }

    /// The value at a path; `None` if there is none, or null.
    pub(crate) fn find(&self, path: &[String]) -> Option<&Value> {
        let (root, keys) = path.split_first()?;
        let found = keys.iter().try_fold(self.values.get(root)?, |value, key| match value {
            Value::Object(map) => map.get(key),
            Value::Array(list) => list.get(key.parse::<usize>().ok()?),
            _ => None,
        })?;
        (!found.is_null()).then_some(found)
    }

    /// The keys beside the first one of a path that is missing, for an error.
    pub(crate) fn sibling_keys(&self, path: &[String]) -> Vec<&str> {
        let deepest = (1..path.len()).rev().find_map(|length| self.find(&path[..length]));
        match deepest {
            Some(Value::Object(map)) => map.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }
}
