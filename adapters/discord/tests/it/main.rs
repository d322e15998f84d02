//! The adapter over the real wire, against a strict Discord.

mod gateway;
mod harness;
mod inbound;
mod missed;
mod outbound;
mod soak;
mod threads;
