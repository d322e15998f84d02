//! The reasoning that a model sends before its tool calls, cached until the tools have returned.
//!
//! Gemini signs its calls and Anthropic its reasoning, and both require the signatures back with the conversation. The
//! port doesn't carry them, and they are of no use after the turn, so they are cached here, keyed by their calls. After
//! a restart they are gone; then Gemini gets the placeholder that it accepts instead.

use std::collections::VecDeque;

use genai::chat::ContentPart;
use serde_json::Value;

/// How many messages are cached; each lane needs the last few of its running turn.
const CACHE_SIZE: usize = 256;

/// The largest block that is cached, in bytes.
const MAX_BLOCK_BYTES: usize = 256 << 10;

/// A message's calls by name and arguments, as on the wire.
pub(crate) type CallList = Vec<(String, Value)>;

/// The reasoning of a message with tool calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReasoningBlock {
    /// The parts before the text and the calls: reasoning and its signatures.
    pub(crate) leading: Vec<ContentPart>,
    /// The signatures of each call.
    pub(crate) signatures: Vec<Option<Vec<String>>>,
}

impl ReasoningBlock {
    fn size(&self) -> usize {
        let leading: usize = self.leading.iter().map(ContentPart::size).sum();
        leading + self.signatures.iter().flatten().flatten().map(String::len).sum::<usize>()
    }

    fn is_empty(&self) -> bool {
        self.leading.is_empty() && self.signatures.iter().all(Option::is_none)
    }
}

/// The cached blocks, oldest first.
#[derive(Default)]
pub(crate) struct ReasoningCache {
    entries: VecDeque<(CallList, ReasoningBlock)>,
}

impl ReasoningCache {
    /// Caches the reasoning of these calls.
    pub(crate) fn insert(&mut self, calls: CallList, block: ReasoningBlock) {
        if block.is_empty() || block.size() > MAX_BLOCK_BYTES {
            return;
        }
        if self.entries.len() == CACHE_SIZE {
            self.entries.pop_front();
        }
        self.entries.push_back((calls, block));
    }

    /// The reasoning of these calls; the newest, if a model made the same calls more than once.
    pub(crate) fn get(&self, calls: &CallList) -> Option<ReasoningBlock> {
        self.entries.iter().rev().find(|(entry, _)| entry == calls).map(|(_, block)| block.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn signed(signature: &str) -> ReasoningBlock {
        ReasoningBlock { leading: Vec::new(), signatures: vec![Some(vec![signature.to_owned()])] }
    }

    fn calls(number: usize) -> CallList {
        vec![("file_read".to_owned(), json!({ "path": number }))]
    }

    #[test]
    fn newest_reasoning_is_found_and_oldest_is_evicted() {
        let mut thoughts = ReasoningCache::default();
        thoughts.insert(calls(0), signed("first"));
        thoughts.insert(calls(0), signed("second"));
        assert_eq!(thoughts.get(&calls(0)).unwrap().signatures, signed("second").signatures);
        assert!(thoughts.get(&calls(1)).is_none());
        for number in 1..=CACHE_SIZE {
            thoughts.insert(calls(number), signed("x"));
        }
        assert!(thoughts.get(&calls(0)).is_none() && thoughts.get(&calls(1)).is_some());
        assert_eq!(thoughts.entries.len(), CACHE_SIZE);
    }

    #[test]
    fn nothing_and_too_much_are_not_remembered() {
        let mut thoughts = ReasoningCache::default();
        thoughts.insert(calls(0), ReasoningBlock { leading: Vec::new(), signatures: vec![None] });
        thoughts.insert(calls(1), signed(&"x".repeat(MAX_BLOCK_BYTES + 1)));
        assert!(thoughts.entries.is_empty());
    }
}
