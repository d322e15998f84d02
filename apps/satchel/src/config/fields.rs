//! What the reader learns of each key while it reads: its kind and its default, from which the schema is made.

use std::ops::RangeInclusive;

use serde_json::Value;

/// One key that the configuration knows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// The dotted key.
    pub(crate) key: String,
    /// What may stand there.
    pub(crate) kind: Kind,
    /// What counts when it isn't given; `None` when that is nothing, or is found out elsewhere.
    pub(crate) default: Option<Value>,
}

/// What may stand at a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// Text.
    Text,
    /// One name, or several in order.
    Names,
    /// `on` or `off`, `true` or `false`.
    Switch,
    /// One of a few words.
    Choice(Vec<&'static str>),
    /// A number of bytes.
    Size,
    /// A number of bytes, or 0.
    SizeOrZero,
    /// A span of time.
    Duration,
    /// A whole number within a range.
    Count(RangeInclusive<u32>),
    /// A path.
    Path,
    /// A URL that matches this regular expression.
    Url(&'static str),
    /// A secret, which may be in a file of its own.
    Secret,
    /// Text, which may be in a file of its own.
    TextOrFile,
    /// A list of texts.
    Texts,
    /// A list of a few words.
    Choices(Vec<&'static str>),
    /// Whatever a part that isn't built yet will understand.
    Declared,
    /// An address and port, or `off`.
    Listen,
}
