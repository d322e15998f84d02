//! The tools that a model may ask for, by name.

use std::sync::Arc;

use satchel_ports::{Tool, ToolSpec};

/// The tools with their specifications, which are made once and not for every request.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Arc<[(ToolSpec, Arc<dyn Tool>)]>,
}

impl Toolbox {
    /// Takes the tools in the order in which the model is told of them.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self { tools: tools.into_iter().map(|tool| (tool.spec(), tool)).collect() }
    }

    /// The specifications of all tools.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Finds a tool by its name, or by the spelling for providers that refuse dots.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&(ToolSpec, Arc<dyn Tool>)> {
        let exact = self.tools.iter().find(|(spec, _)| spec.name == name);
        exact.or_else(|| self.tools.iter().find(|(spec, _)| spec.name.replace('.', "_") == name))
    }
}
