//! The albums that came lately: their items come one by one, and only one of them says whom they are for.

use std::collections::VecDeque;

use satchel_domain::InboundMessage;

/// How many albums are remembered. An album's items come within a second or so.
const ALBUM_CACHE_SIZE: usize = 256;

/// How many items are kept of albums of which nobody knows yet whom they are for.
const MAX_BUFFERED_ITEMS: usize = 256;

/// How many seconds after them, by Telegram's clock, the items of other albums may have been sent. Ours says nothing: in
/// an outage what belongs together comes far apart.
const BUFFER_TTL_SECS: i64 = 10;

/// The albums that were meant for us, and the items of others that may turn out to be; newest last.
///
/// What is kept here lives in this process alone, for a webhook is told of an album's next item only once it has
/// answered for the last one. A process that ends between an item that names nobody and the one that names us, or
/// before that one is stored, loses the former: the album is then what follows. Nothing is lost of items that come in
/// one answer to a poll ([`super::reader::InboundReader::scan_albums`]).
#[derive(Debug, Default)]
pub(crate) struct AlbumTracker {
    known: VecDeque<AlbumEntry>,
    kept: VecDeque<BufferedItem>,
}

/// What tells an album from others: where it came, from whom, and Telegram's own name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Album {
    pub(crate) chat: i64,
    pub(crate) sender: String,
    pub(crate) id: String,
}

#[derive(Debug)]
struct AlbumEntry {
    album: Album,
    /// The message that made it known.
    first: i64,
}

#[derive(Debug)]
struct BufferedItem {
    album: Album,
    message: InboundMessage,
    /// When it was sent, in seconds since 1970.
    date: i64,
}

impl AlbumTracker {
    /// Whether an item of the album was meant for us, so that the others are too.
    pub(crate) fn contains(&self, album: &Album) -> bool {
        self.known.iter().any(|known| known.album == *album)
    }

    /// Remembers that the album is for us, and tells whether this message was the first one to say so. An item that
    /// comes twice is told the same again.
    pub(crate) fn register_first(&mut self, album: &Album, message: i64) -> bool {
        if let Some(known) = self.known.iter().rev().find(|known| known.album == *album) {
            return known.first == message;
        }
        if self.known.len() == ALBUM_CACHE_SIZE {
            self.known.pop_front();
        }
        self.known.push_back(AlbumEntry { album: album.clone(), first: message });
        true
    }

    /// Keeps an item that names nobody, for the case that a later one names us. An edited one takes its own place.
    /// `date` is when it was sent.
    pub(crate) fn buffer(&mut self, album: Album, message: InboundMessage, date: i64) {
        let Self { known, kept } = self;
        kept.retain(|kept| date - kept.date < BUFFER_TTL_SECS || known.iter().any(|known| known.album == kept.album));
        let kept = BufferedItem { album, message, date };
        match self.kept.iter_mut().find(|other| other.is_same_item(&kept.album, &kept.message)) {
            Some(other) => *other = kept,
            None => {
                if self.kept.len() == MAX_BUFFERED_ITEMS {
                    self.kept.pop_front();
                }
                self.kept.push_back(kept);
            }
        }
    }

    /// The items of the album that were kept until this message of it came, which is for us; in their order. They stay
    /// until they are stored: what can't be stored comes again, and brings them again.
    pub(crate) fn buffered_items(&mut self, album: &Album, message: &InboundMessage) -> Vec<InboundMessage> {
        // What comes again speaks for itself.
        self.kept.retain(|kept| !kept.is_same_item(album, message));
        self.kept.iter().filter(|kept| kept.album == *album).map(|kept| kept.message.clone()).collect()
    }

    /// Removes buffered items that are stored or will be delivered again.
    pub(crate) fn release(&mut self, is_meant: impl Fn(&InboundMessage) -> bool) {
        self.kept.retain(|kept| !is_meant(&kept.message));
    }
}

impl BufferedItem {
    /// Whether it is the same item, perhaps in another version.
    fn is_same_item(&self, album: &Album, message: &InboundMessage) -> bool {
        self.album == *album && self.message.message == message.message
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::{MessageRef, Sender};

    use super::*;

    fn of(chat: i64, sender: &str, id: &str) -> Album {
        Album { chat, sender: sender.to_owned(), id: id.to_owned() }
    }

    fn item(number: usize) -> InboundMessage {
        InboundMessage {
            message: Some(MessageRef(number.to_string())),
            ..InboundMessage::new("telegram:-1".parse().unwrap(), number.to_string(), Sender::new("ann", "Ann"))
        }
    }

    fn kept(albums: &mut AlbumTracker, album: &Album, by: usize) -> Vec<String> {
        albums.register_first(album, i64::try_from(by).unwrap());
        albums.buffered_items(album, &item(by)).into_iter().map(|message| message.key).collect()
    }

    #[test]
    fn album_has_one_first_item_despite_redelivery() {
        let mut albums = AlbumTracker::default();
        assert!(!albums.contains(&of(-1, "ann", "a")));
        for (album, message, first) in [
            (of(-1, "ann", "a"), 5, true),
            (of(-1, "ann", "a"), 6, false),
            (of(-1, "ann", "a"), 5, true),
            (of(-2, "ann", "a"), 6, true),
            (of(-1, "bob", "a"), 6, true),
            (of(-1, "ann", "b"), 6, true),
        ] {
            assert_eq!(albums.register_first(&album, message), first, "{album:?} {message}");
            assert!(albums.contains(&album));
        }
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut albums = AlbumTracker::default();
        for id in 0..1000 {
            albums.register_first(&of(-1, "ann", &id.to_string()), id);
        }
        assert_eq!(albums.known.len(), ALBUM_CACHE_SIZE);
        assert!(albums.contains(&of(-1, "ann", "999")) && !albums.contains(&of(-1, "ann", "0")));
    }

    #[test]
    fn unaddressed_items_accompany_addressing_item_until_stored() {
        let (mut albums, album) = (AlbumTracker::default(), of(-1, "ann", "a"));
        for (album, number) in [(&album, 1), (&of(-1, "bob", "a"), 2), (&album, 3), (&of(-1, "ann", "b"), 4)] {
            albums.buffer(album.clone(), item(number), 0);
        }
        assert_eq!(kept(&mut albums, &album, 5), ["1", "3"]);
        assert_eq!(kept(&mut albums, &album, 5), ["1", "3"], "what could not be stored comes again");
        assert_eq!(kept(&mut albums, &album, 3), ["1"], "what comes again brings itself");
        albums.release(|message| *message == item(1));
        assert_eq!(kept(&mut albums, &album, 6), [""; 0]);
        assert_eq!(albums.kept.len(), 2, "others' stay");
    }

    #[test]
    fn newer_version_replaces_item() {
        let (mut albums, album) = (AlbumTracker::default(), of(-1, "ann", "a"));
        for message in [item(1), item(2), InboundMessage { key: "1, edited".to_owned(), ..item(1) }] {
            albums.buffer(album.clone(), message, 0);
        }
        assert_eq!(kept(&mut albums, &album, 3), ["1, edited", "2"]);
    }

    #[test]
    fn unaddressed_album_items_are_bounded_and_expire() {
        let mut albums = AlbumTracker::default();
        for number in 0..1000 {
            albums.buffer(of(-1, "ann", "a"), item(number), 0);
        }
        assert_eq!(albums.kept.len(), MAX_BUFFERED_ITEMS);
        assert_eq!(kept(&mut albums, &of(-1, "ann", "a"), 1000).len(), MAX_BUFFERED_ITEMS);
        albums.release(|message| message.key != "999");
        albums.buffer(of(-1, "ann", "b"), item(1), 5);
        albums.buffer(of(-1, "bob", "c"), item(1), 5 + BUFFER_TTL_SECS);
        assert_eq!(kept(&mut albums, &of(-1, "ann", "b"), 2), [""; 0], "too old");
        assert_eq!(kept(&mut albums, &of(-1, "bob", "c"), 2), ["1"]);
        assert_eq!(kept(&mut albums, &of(-1, "ann", "a"), 1000), ["999"], "this one waits until it can be stored");
    }
}
