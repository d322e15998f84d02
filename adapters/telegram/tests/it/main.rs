//! The adapter over the real wire, against a strict Bot API.

mod inbound;
mod outbound;
