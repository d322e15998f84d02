//! A real browser in front of the real binary: what the tests of the page stand on.

pub mod axe;
pub mod browser;
pub mod http;
pub mod page;
pub mod samples;
pub mod server;
pub mod wait;
