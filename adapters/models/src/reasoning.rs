//! What a model thought before it asked for tools, kept until the tools have answered.
//!
//! Gemini signs its calls and Anthropic its thoughts, and both want the signatures back with the conversation. The port
//! has no place for them, and they are worth nothing after the turn, so they are remembered here, by the calls that they
//! belong to. After a restart they are gone; then Gemini is sent the placeholder that it takes instead.

use std::collections::VecDeque;

use genai::chat::ContentPart;
use serde_json::Value;

/// How many messages are remembered; each lane needs the last few of its running turn.
const CACHE_SIZE: usize = 256;

/// The longest thought that is remembered, in bytes.
const LONGEST: usize = 256 << 10;

/// A message's calls by name and arguments, as on the wire.
pub(crate) type CallList = Vec<(String, Value)>;

/// What came with a message that asked for tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReasoningBlock {
    /// What stands before the text and the calls: thoughts and their signatures.
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

/// The remembered thoughts, oldest first.
#[derive(Default)]
pub(crate) struct ReasoningCache {
    kept: VecDeque<(CallList, ReasoningBlock)>,
}

impl ReasoningCache {
    /// Remembers what came with these calls.
    pub(crate) fn insert(&mut self, calls: CallList, thought: ReasoningBlock) {
        if thought.is_empty() || thought.size() > LONGEST {
            return;
        }
        if self.kept.len() == CACHE_SIZE {
            self.kept.pop_front();
        }
        self.kept.push_back((calls, thought));
    }

    /// What came with these calls; the newest, if a model asked for the same more than once.
    pub(crate) fn get(&self, calls: &CallList) -> Option<ReasoningBlock> {
        self.kept.iter().rev().find(|(kept, _)| kept == calls).map(|(_, thought)| thought.clone())
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
        assert_eq!(thoughts.kept.len(), CACHE_SIZE);
    }

    #[test]
    fn nothing_and_too_much_are_not_remembered() {
        let mut thoughts = ReasoningCache::default();
        thoughts.insert(calls(0), ReasoningBlock { leading: Vec::new(), signatures: vec![None] });
        thoughts.insert(calls(1), signed(&"x".repeat(LONGEST + 1)));
        assert!(thoughts.kept.is_empty());
    }
}
