//! YAML as a tree in which every value has its position.
//!
//! serde stops at the first mistake and keeps no positions, so whoever checks a file by hand reads it into this tree
//! first. Pure: the text comes in as an argument.

mod mistakes;
mod node;

use serde_saphyr::Spanned;

pub use crate::{
    mistakes::YamlError,
    node::{YamlEntry, YamlNode, YamlPosition, YamlValue},
};
use crate::{mistakes::describe, node::RawValue};

/// How many values a file may hold, aliases counted as often as they are used.
const MAX_VALUES: usize = 20_000;

/// How deep they may be nested.
const MAX_DEPTH: usize = 64;

/// Reads the text of a file. A file without a value is `null`.
///
/// # Errors
/// When it is not YAML, or holds too much.
pub fn parse(text: &str) -> Result<YamlNode, YamlError> {
    // Excerpts of the file would show secrets near a mistake.
    // Unquoted words such as `off` and `no`, and numbers such as 012, are text.
    let options = serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        budget: serde_saphyr::budget! { max_nodes: MAX_VALUES, max_depth: MAX_DEPTH },
    };
    let raw: Option<Spanned<RawValue>> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| describe(text, &error))?;
    Ok(raw.map_or(YamlNode { value: YamlValue::Null, position: YamlPosition::START }, YamlNode::from))
}

#[cfg(test)]
mod tests;
