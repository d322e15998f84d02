//! Drives a real browser against the real binary: the harness of the page's tests.

pub mod axe;
pub mod browser;
pub mod http;
pub mod page;
pub mod samples;
pub mod server;
pub mod wait;
