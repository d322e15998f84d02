//! The adapter over the real wire, against a strict Discord.

mod gateway;
mod inbound;
mod outbound;
mod soak;
