//! The tools that a model may call, by name.

use std::sync::Arc;

use satchel_ports::{Tool, ToolSpec};

/// The tools with their specifications, which are built once and not for every request.
#[derive(Clone, Default)]
pub struct Toolbox {
    specs: Arc<[ToolSpec]>,
    tools: Arc<[Arc<dyn Tool>]>,
}

impl Toolbox {
    /// Keeps the order of the tools, in which the model sees them.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let tools: Arc<[Arc<dyn Tool>]> = tools.into_iter().collect();
        Self { specs: tools.iter().map(|tool| tool.spec()).collect(), tools }
    }

    /// The specifications of all tools.
    #[must_use]
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    /// Finds a tool by its name, or by the spelling for providers that refuse dots.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(&ToolSpec, &Arc<dyn Tool>)> {
        let exact = self.specs.iter().position(|spec| spec.name == name);
        let index = exact.or_else(|| self.specs.iter().position(|spec| spec.name.replace('.', "_") == name))?;
        Some((&self.specs[index], &self.tools[index]))
    }
}
