//! The gateway: whatever becomes of the connection, of the session or of the process, each message is taken in, in its
//! order.

pub(crate) mod bench;
mod boosted;
mod in_vain;
mod missed;
mod resuming;
mod storing;
mod trouble;
