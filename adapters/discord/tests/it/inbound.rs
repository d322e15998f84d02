//! The way in, against a strict fake of Discord: what people write, use and press, and the files that they send.

pub(crate) mod bench;
mod fetching;
mod interactions;
mod kinds;
