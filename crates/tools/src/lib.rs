//! The tools that a model can call: one file a tool, the registry, and the path policy that every call passes.
//!
//! A tool is reachable only through [`ToolRegistry`], which wraps each one in the policy of [`policy`]; the tools'
//! own types are private, so no call can go round it. Bytes flow as streams from port to port and are never held here.

pub mod large_result;
pub mod path_fields;
pub mod policy;
pub mod registry;
pub mod services;
pub mod tool_selection;

mod arguments;
mod audited_workspace;
mod conversation_vault;
mod document_text;
mod error;
mod listing;
mod lookup;
mod paging;
#[cfg(feature = "schedules")]
mod reminder_services;

mod attachment_add;
mod attachment_download;
mod attachment_get;
mod attachment_list;
mod attachment_read;
mod attachment_save;
mod attachment_save_all;
mod attachment_view;
mod execute_script;
mod file_delete;
mod file_edit;
mod file_list;
mod file_read;
mod file_search;
mod file_walk;
mod file_write;
mod response_attachments;
#[cfg(feature = "schedules")]
mod schedule_cancel;
#[cfg(feature = "schedules")]
mod schedule_create;
#[cfg(feature = "schedules")]
mod schedule_list;
mod send_voice;

#[cfg(test)]
mod fakes;

pub use audited_workspace::AuditedWorkspace;
pub use execute_script::{ScriptRules, execute_script};
pub use large_result::truncate_outcome;
pub use registry::{RegisterError, ToolRegistry, built_in};
#[cfg(feature = "schedules")]
pub use reminder_services::{ReminderServices, reminder_tools};
pub use send_voice::send_voice;
pub use services::{ToolLimits, ToolServices};
