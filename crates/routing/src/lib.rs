//! Decides how a response becomes physical sends on a channel, and what is tried when one of them is refused.
//!
//! All of it but the loop in [`deliver`] is pure: [`plan::plan`] reads an `OutgoingResponse` and a
//! `ChannelCapabilities` and nothing else.

#![warn(missing_docs)]

pub mod deliver;
mod label;
mod lookup;
pub mod notice;
pub mod plan;
pub mod replan;
pub mod retry;
mod speech_text;
pub mod split;
pub mod tables;

#[cfg(test)]
mod samples;
