//! Real servers for tests, each on a free port of this machine: PostgreSQL, NATS, and one that speaks S3.

mod bucket_proxy;
mod certificates;
pub mod nats;
pub mod postgres;
mod s3;
mod tcp_proxy;

pub use bucket_proxy::BucketProxy;
pub use certificates::{TestAuthority, TestCertificate};
pub use s3::{S3Credentials, S3Server};
pub use tcp_proxy::TcpProxy;
