//! What every ledger decides alike, whatever its database: functions over rows that are loaded, which answer with what is to
//! be stored.
//!
//! An adapter loads, calls and applies, in one transaction. What differs between databases is then their statements.

pub mod chat;
mod claim;
mod complete;
pub mod excerpt;
pub mod file_results;
pub mod forget;
mod pairing;
mod questions;
pub mod quota;
mod receive;
pub mod rows;
mod settle;
pub mod stored;
pub mod transfer;

pub use self::{
    claim::{Claim, LaneState, claim, is_free, is_held_by},
    complete::{IncompleteTurn, reply_parts, start_first},
    pairing::{
        CodeState, FailedAttempts, FoundCode, PairingStep, StrangerAnswer, StrangerCodes, answer_stranger,
        attempts_left, decide_pairing,
    },
    questions::{answer_text, close_questions, close_reply_question, open_question},
    receive::{QueuedTurnState, can_be_replaced, can_join_album},
    settle::{closing_notice, is_repeatable, repeated_notice, replacements, shows_delivery_works, start_next},
};
