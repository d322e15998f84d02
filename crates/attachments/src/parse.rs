//! Reads declarations from a file, and reports every mistake in it with its position. Pure.

mod attachment;
mod playbook;
mod reader;
#[cfg(test)]
mod tests;

/// Parses the text that playbooks are read from.
pub use satchel_yaml::parse as parse_yaml;

pub use self::playbook::{parse_playbook, read_playbook};
