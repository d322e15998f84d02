//! The ports of the ledger: each verb is a function that runs on the writer or, if it only reads, on a reader.

mod archive;
mod conversations;
mod gateways;
mod inbox;
mod leases;
mod outbox;
mod pairings;
mod reminders;
mod storage;
mod turns;
