//! Attachments that the configuration declares for agents, actions and tasks: read, rendered, expanded, merged, resolved.
//!
//! A declaration passes through these steps, each a module: `parse` reads it with its position, [`template`] renders
//! its texts (those that need the output of a task only once that task is done), [`expand`] makes one [`item::Item`] of
//! each URL, path and match of a glob, [`effective`] merges the scopes of a task, and
//! [`mod@resolve`] opens or downloads what is left, of which [`content`] makes what a model gets. No output of a template
//! is ever rendered again, so what comes in as input stays data.

pub mod content;
pub mod declaration;
pub mod document;
pub mod effective;
pub mod expand;
pub mod item;
pub mod kind;
pub mod order;
pub mod output;
#[cfg(any(test, feature = "yaml"))]
pub mod parse;
pub mod playbook;
pub mod problem;
pub mod render;
mod rendered_path;
pub mod resolve;
pub mod run;
pub mod template;

pub use crate::{
    declaration::Declaration,
    effective::{EffectiveEntry, EffectiveList},
    item::{Item, ItemSource, Scope},
    kind::AttachmentKind,
    playbook::{ActionConfig, AgentConfig, Playbook, TaskConfig},
    problem::{DeclarationProblem, SourcePosition},
    template::{Template, TemplateContext},
};
