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
    sender: String,
    id: String,
    /// The message that made it known.
    first: i64,
}

/// What tells an album from others: where it came, from whom, and Telegram's own name for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlbumOf<'a> {
    pub(crate) chat: i64,
    pub(crate) sender: &'a str,
    pub(crate) id: &'a str,
}

impl Albums {
    /// Whether an item of the album was meant for us, so that the others are too.
    pub(crate) fn is_known(&self, album: AlbumOf<'_>) -> bool {
        self.find(album).is_some()
    }

    /// Remembers that the album is for us, and tells whether this message was the first one to say so. An item that
    /// comes twice is told the same again.
    pub(crate) fn is_first(&mut self, album: AlbumOf<'_>, message: i64) -> bool {
        if let Some(known) = self.find(album) {
            return known.first == message;
        }
        if self.known.len() == REMEMBERED {
            self.known.pop_front();
        }
        let AlbumOf { chat, sender, id } = album;
        self.known.push_back(Album { chat, sender: sender.to_owned(), id: id.to_owned(), first: message });
        true
    }

    fn find(&self, AlbumOf { chat, sender, id }: AlbumOf<'_>) -> Option<&Album> {
        self.known.iter().rev().find(|album| album.chat == chat && album.sender == sender && album.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(chat: i64, sender: &'a str, id: &'a str) -> AlbumOf<'a> {
        AlbumOf { chat, sender, id }
    }

    #[test]
    fn an_album_has_one_first_item_however_often_it_comes() {
        let mut albums = Albums::default();
        assert!(!albums.is_known(of(-1, "ann", "a")));
        for (album, message, first) in [
            (of(-1, "ann", "a"), 5, true),
            (of(-1, "ann", "a"), 6, false),
            (of(-1, "ann", "a"), 5, true),
            (of(-2, "ann", "a"), 6, true),
            (of(-1, "bob", "a"), 6, true),
            (of(-1, "ann", "b"), 6, true),
        ] {
            assert_eq!(albums.is_first(album, message), first, "{album:?} {message}");
            assert!(albums.is_known(album));
        }
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut albums = Albums::default();
        for id in 0..1000 {
            albums.is_first(of(-1, "ann", &id.to_string()), id);
        }
        assert_eq!(albums.known.len(), REMEMBERED);
        assert!(albums.is_known(of(-1, "ann", "999")) && !albums.is_known(of(-1, "ann", "0")));
    }
}
