//! The verbs, by the names that they have at the ports, and what an engine's own verbs share with them.

pub(crate) mod audit;
pub(crate) mod calls;
pub(crate) mod checkpoints;
pub(crate) mod complete;
pub(crate) mod conversation_settings;
pub(crate) mod corrections;
pub(crate) mod delivered_turns;
pub(crate) mod drafts;
pub(crate) mod failed_notices;
pub(crate) mod forget;
pub(crate) mod forget_conversation;
pub(crate) mod forget_results;
pub(crate) mod history;
pub(crate) mod inbox;
pub(crate) mod joins;
pub(crate) mod journal;
pub(crate) mod links;
pub(crate) mod listings;
pub(crate) mod logins;
pub(crate) mod parts;
pub(crate) mod people;
pub(crate) mod queries;
pub(crate) mod questions;
pub(crate) mod receive;
pub(crate) mod recorded_messages;
pub(crate) mod records;
pub(crate) mod reminders;
pub(crate) mod rename;
pub(crate) mod reply_questions;
pub mod restored_copy;
pub(crate) mod retry;
pub(crate) mod settle;
pub(crate) mod turns;
pub(crate) mod undecodable;
pub(crate) mod usage;
pub(crate) mod workspace_usage;

pub use self::{
    audit::*, checkpoints::*, complete::*, drafts::*, forget::*, forget_conversation::*, history::*, inbox::*,
    joins::*, journal::*, links::*, listings::*, logins::*, parts::*, people::*, queries::*, questions::*, receive::*,
    recorded_messages::*, records::*, reminders::*, rename::*, retry::*, settle::*, turns::*, undecodable::*, usage::*,
    workspace_usage::*,
};
pub use crate::lanes::release;
