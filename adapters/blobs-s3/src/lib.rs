//! The bytes of files in a bucket of S3, or of a server that speaks as it does.
//!
//! Every put writes an object of its own, `blobs/<sha256>/<id>`, and the newest one counts. So what garbage collection
//! removes are objects that it has seen, never bytes that were put meanwhile: no lock between machines is needed, and no
//! condition that only some servers know (ADR 0033).

mod blobs;
mod bucket;
mod collection;
mod connector;
mod error;
mod settings;
mod unfinished;
mod upload;

pub use blobs::S3Blobs;
pub use error::BucketError;
pub use settings::{S3Settings, S3SettingsError};
