//! The promises of the ports, one function each, run against every adapter of the port.

#![expect(clippy::missing_panics_doc, clippy::unwrap_used, clippy::panic, reason = "a broken promise ends the test")]

pub mod blobs;
pub mod channel;
pub mod event_bus;
pub mod faulty_runner;
pub mod file_runner;
pub mod ledger;
pub mod log_capture;
pub mod markup;
pub mod platform;
pub mod private_disk;
pub mod workspace;
