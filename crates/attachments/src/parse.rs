//! Reads declarations from a file, and reports every mistake in it with its position. Pure.

mod attachment;
mod playbook;
mod reader;
#[cfg(test)]
mod tests;

pub use self::playbook::parse_playbook;
