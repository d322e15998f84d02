//! The store in a bucket against a server of S3 that others wrote.

mod contract;
mod failures;
mod memory;
mod stage;
mod tls;
mod uploads;
