//! Real servers for tests, each on a free port of this machine: PostgreSQL, NATS, and one that speaks S3.

pub mod nats;
