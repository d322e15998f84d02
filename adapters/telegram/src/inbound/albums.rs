//! The albums that came lately: their items come one by one, and only one of them says whom they are for.

use std::collections::VecDeque;

/// How many albums are remembered. An album's items come within a second or so.
const REMEMBERED: usize = 256;

/// The albums that were meant for us, newest last.
#[derive(Debug, Default)]
pub(crate) struct Albums {
    known: VecDeque<Album>,
}

#[derive(Debug)]
struct Album {
    chat: i64,
    id: String,
    /// The message that made it known.
    first: i64,
}

impl Albums {
    /// Whether an item of the album was meant for us, so that the others are too.
    pub(crate) fn is_known(&self, chat: i64, id: &str) -> bool {
        self.find(chat, id).is_some()
    }

    /// Remembers that the album is for us, and tells whether this message was the first one to say so. An item that
    /// comes twice is told the same again.
    pub(crate) fn is_first(&mut self, chat: i64, id: &str, message: i64) -> bool {
        if let Some(known) = self.find(chat, id) {
            return known.first == message;
        }
        if self.known.len() == REMEMBERED {
            self.known.pop_front();
        }
        self.known.push_back(Album { chat, id: id.to_owned(), first: message });
        true
    }

    fn find(&self, chat: i64, id: &str) -> Option<&Album> {
        self.known.iter().rev().find(|album| album.chat == chat && album.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_album_has_one_first_item_however_often_it_comes() {
        let mut albums = Albums::default();
        assert!(!albums.is_known(-1, "a"));
        for (chat, id, message, first) in
            [(-1, "a", 5, true), (-1, "a", 6, false), (-1, "a", 5, true), (-2, "a", 6, true), (-1, "b", 6, true)]
        {
            assert_eq!(albums.is_first(chat, id, message), first, "{chat} {id} {message}");
            assert!(albums.is_known(chat, id));
        }
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut albums = Albums::default();
        for id in 0..1000 {
            albums.is_first(-1, &id.to_string(), id);
        }
        assert_eq!(albums.known.len(), REMEMBERED);
        assert!(albums.is_known(-1, "999") && !albums.is_known(-1, "0"));
    }
}
