//! Lists in pages: which entries of a list a call asks for, and how to read on.

use satchel_ports::{OutcomeReader, ToolContext, ToolError};
use serde_json::{Map, Value, json};

use crate::error;

/// How many entries a model is given unless it asks for another number: enough for most, and no flood.
const DEFAULT_PAGE_ENTRIES: usize = 100;

/// The entries of a list that a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListPage {
    offset: usize,
    limit: usize,
}

impl ListPage {
    /// Checks which entries are asked for. A call of another tool, such as a script, is answered whole unless it says
    /// otherwise: nobody reads on there.
    pub(crate) fn from_arguments(
        offset: u64,
        limit: Option<u64>,
        max_entries: usize,
        context: &ToolContext,
    ) -> Result<Self, ToolError> {
        let is_nested = context.reader == OutcomeReader::Program;
        let max = if is_nested { usize::MAX } else { max_entries };
        let default = if is_nested { usize::MAX } else { DEFAULT_PAGE_ENTRIES.min(max) };
        let limit = match limit.map(|limit| (limit, usize::try_from(limit))) {
            None => default,
            Some((_, Ok(limit))) if (1..=max).contains(&limit) => limit,
            Some((given, _)) => {
                let allowed = format!("allowed are 1 to {max}, the default is {default}");
                return Err(error::tool_error(format!("argument `limit`: {given} is not allowed; {allowed}")));
            }
        };
        Ok(Self { offset: usize::try_from(offset).unwrap_or(usize::MAX), limit })
    }

    /// Whether the entry at this place of the whole list is on the page.
    pub(crate) fn contains(&self, index: usize) -> bool {
        (self.offset..self.end_offset()).contains(&index)
    }

    /// How many entries stand before the page.
    pub(crate) fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// How many entries the page has at most.
    pub(crate) fn limit(&self) -> u32 {
        u32::try_from(self.limit).unwrap_or(u32::MAX)
    }

    /// How many of `total` entries follow the page.
    ///
    /// # Errors
    /// When the page begins behind the last entry.
    pub(crate) fn entries_after(&self, total: usize) -> Result<usize, ToolError> {
        if self.offset >= total && self.offset > 0 {
            let entries = if total == 1 { "is 1 entry".to_owned() } else { format!("are {total} entries") };
            let offset = self.offset;
            return Err(error::tool_error(format!("argument `offset`: {offset} is behind the end; there {entries}")));
        }
        Ok(total.saturating_sub(self.end_offset()))
    }

    /// The call for what follows the page: the same one with another offset.
    pub(crate) fn next_call(&self, tool: &str, mut arguments: Map<String, Value>) -> Value {
        arguments.retain(|name, value| name != "offset" && !value.is_null());
        arguments.insert("offset".to_owned(), json!(self.end_offset()));
        Value::from(format!("{tool} {}", Value::Object(arguments)))
    }

    fn end_offset(&self) -> usize {
        self.offset.saturating_add(self.limit)
    }
}
