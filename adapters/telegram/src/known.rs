//! What answers have taught about chats, for as long as the process lives: it is learned again after a restart.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use teloxide::types::ChatId;
use tokio::time::Instant;

use crate::place::Place;

/// How long a chat that refused a voice is sent none. People change their minds, and their settings.
const NO_VOICE_FOR: Duration = Duration::from_secs(60 * 60);

/// How many chats are remembered at most.
const REMEMBERED: usize = 10_000;

/// What is known of chats.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    moved: HashMap<ChatId, ChatId>,
    no_voice: HashMap<ChatId, Instant>,
}

impl Known {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a chat is now. A group that became a supergroup has another number, and had no topics before.
    pub(crate) fn now_at(&self, place: Place) -> Place {
        match self.state().moved.get(&place.chat) {
            Some(chat) => Place { chat: *chat, topic: None },
            None => place,
        }
    }

    /// Remembers that a chat has become another one.
    pub(crate) fn has_moved(&self, from: ChatId, to: ChatId) {
        let mut state = self.state();
        if state.moved.len() < REMEMBERED {
            state.moved.insert(from, to);
        }
    }

    /// Remembers that a chat takes no voice.
    pub(crate) fn takes_no_voice(&self, chat: ChatId) {
        let (mut state, now) = (self.state(), Instant::now());
        if state.no_voice.len() >= REMEMBERED {
            state.no_voice.retain(|_, until| *until > now);
        }
        if state.no_voice.len() < REMEMBERED {
            state.no_voice.insert(chat, now + NO_VOICE_FOR);
        }
    }

    /// Whether a chat takes voices, as far as is known.
    pub(crate) fn may_get_a_voice(&self, chat: ChatId) -> bool {
        self.state().no_voice.get(&chat).is_none_or(|until| *until <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_chat_without_voices_is_asked_again_after_an_hour() {
        let (known, chat) = (Known::default(), ChatId(1));
        assert!(known.may_get_a_voice(chat));
        known.takes_no_voice(chat);
        assert!(!known.may_get_a_voice(chat) && known.may_get_a_voice(ChatId(2)));
        tokio::time::sleep(NO_VOICE_FOR).await;
        assert!(known.may_get_a_voice(chat));
    }

    #[test]
    fn a_chat_that_moved_is_found_where_it_is() {
        let (known, place) = (Known::default(), Place { chat: ChatId(-5), topic: None });
        assert_eq!(known.now_at(place), place);
        known.has_moved(ChatId(-5), ChatId(-1_005));
        assert_eq!(known.now_at(place).chat, ChatId(-1_005));
    }
}
