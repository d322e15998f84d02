//! Bad input, one table a boundary: a clear error to the right person, nothing lost, nothing panics.

mod configuration;
mod files;
mod long_reply;
mod model;
mod stores;
