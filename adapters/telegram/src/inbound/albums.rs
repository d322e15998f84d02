//! Recent albums: their items arrive one by one, and only one of them mentions the bot.

use std::collections::VecDeque;

use satchel_domain::InboundMessage;

/// How many albums are tracked. The items of an album arrive within about a second.
const ALBUM_CACHE_SIZE: usize = 256;

/// How many items are buffered of albums that have not mentioned the bot yet.
const MAX_BUFFERED_ITEMS: usize = 256;

/// How long items are buffered, in seconds between messages by Telegram's clock. The local clock is useless here: after
/// an outage the items of an album may arrive far apart.
const BUFFER_TTL_SECS: i64 = 10;

/// The albums that are addressed to the bot, and buffered items of others that may turn out to be; newest last.
///
/// Buffered items are in memory only, since a webhook receives the next item of an album only after it has confirmed
/// the last one. If the process ends before the item that mentions the bot is stored, earlier items are lost. Items
/// that arrive in one poll response are never lost ([`super::reader::InboundReader::scan_albums`]).
#[derive(Debug, Default)]
pub(crate) struct AlbumTracker {
    addressed: VecDeque<AlbumEntry>,
    buffered: VecDeque<BufferedItem>,
}

/// Identifies an album: its chat, its sender, and Telegram's `media_group_id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Album {
    pub(crate) chat: i64,
    pub(crate) sender: String,
    pub(crate) id: String,
}

#[derive(Debug)]
struct AlbumEntry {
    album: Album,
    /// The first message by which it was addressed to the bot.
    first_message: i64,
}

#[derive(Debug)]
struct BufferedItem {
    album: Album,
    message: InboundMessage,
    /// When it was sent, in seconds since 1970.
    date: i64,
}

impl AlbumTracker {
    /// Whether an item of the album was addressed to the bot, so that all others are.
    pub(crate) fn contains(&self, album: &Album) -> bool {
        self.addressed.iter().any(|entry| entry.album == *album)
    }

    /// Records that the album is addressed to the bot. Returns whether this message was the first to do so, also when
    /// it is redelivered.
    pub(crate) fn register_first(&mut self, album: &Album, message: i64) -> bool {
        if let Some(entry) = self.addressed.iter().rev().find(|entry| entry.album == *album) {
            return entry.first_message == message;
        }
        if self.addressed.len() == ALBUM_CACHE_SIZE {
            self.addressed.pop_front();
        }
        self.addressed.push_back(AlbumEntry { album: album.clone(), first_message: message });
        true
    }

    /// Buffers an item without a mention, in case a later one mentions the bot. An edited item replaces its earlier
    /// version. `date` is when it was sent.
    pub(crate) fn buffer(&mut self, album: Album, message: InboundMessage, date: i64) {
        let Self { addressed, buffered } = self;
        buffered.retain(|item| {
            date - item.date < BUFFER_TTL_SECS || addressed.iter().any(|entry| entry.album == item.album)
        });
        let item = BufferedItem { album, message, date };
        match self.buffered.iter_mut().find(|other| other.is_same_item(&item.album, &item.message)) {
            Some(other) => *other = item,
            None => {
                if self.buffered.len() == MAX_BUFFERED_ITEMS {
                    self.buffered.pop_front();
                }
                self.buffered.push_back(item);
            }
        }
    }

    /// Returns the album's items that were buffered before this message, which is addressed to the bot, in their order.
    /// They stay buffered until they are stored: a message that can't be stored is redelivered and needs them again.
    pub(crate) fn buffered_items(&mut self, album: &Album, message: &InboundMessage) -> Vec<InboundMessage> {
        // A redelivered item is not buffered twice.
        self.buffered.retain(|item| !item.is_same_item(album, message));
        self.buffered.iter().filter(|item| item.album == *album).map(|item| item.message.clone()).collect()
    }

    /// Removes buffered items that are stored or will be delivered again.
    pub(crate) fn release(&mut self, is_done: impl Fn(&InboundMessage) -> bool) {
        self.buffered.retain(|item| !is_done(&item.message));
    }
}

impl BufferedItem {
    /// Whether it is the same item, possibly in another version.
    fn is_same_item(&self, album: &Album, message: &InboundMessage) -> bool {
        self.album == *album && self.message.message == message.message
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::{MessageRef, Sender};

    use super::*;

    fn new_album(chat: i64, sender: &str, id: &str) -> Album {
        Album { chat, sender: sender.to_owned(), id: id.to_owned() }
    }

    fn item(number: usize) -> InboundMessage {
        InboundMessage {
            message: Some(MessageRef(number.to_string())),
            ..InboundMessage::new("telegram:-1".parse().unwrap(), number.to_string(), Sender::new("ann", "Ann"))
        }
    }

    fn buffered_keys(albums: &mut AlbumTracker, album: &Album, by: usize) -> Vec<String> {
        albums.register_first(album, i64::try_from(by).unwrap());
        albums.buffered_items(album, &item(by)).into_iter().map(|message| message.key).collect()
    }

    #[test]
    fn album_has_one_first_item_despite_redelivery() {
        let mut albums = AlbumTracker::default();
        assert!(!albums.contains(&new_album(-1, "ann", "a")));
        for (album, message, first) in [
            (new_album(-1, "ann", "a"), 5, true),
            (new_album(-1, "ann", "a"), 6, false),
            (new_album(-1, "ann", "a"), 5, true),
            (new_album(-2, "ann", "a"), 6, true),
            (new_album(-1, "bob", "a"), 6, true),
            (new_album(-1, "ann", "b"), 6, true),
        ] {
            assert_eq!(albums.register_first(&album, message), first, "{album:?} {message}");
            assert!(albums.contains(&album));
        }
    }

    #[test]
    fn album_cache_is_bounded() {
        let mut albums = AlbumTracker::default();
        for id in 0..1000 {
            albums.register_first(&new_album(-1, "ann", &id.to_string()), id);
        }
        assert_eq!(albums.addressed.len(), ALBUM_CACHE_SIZE);
        assert!(albums.contains(&new_album(-1, "ann", "999")) && !albums.contains(&new_album(-1, "ann", "0")));
    }

    #[test]
    fn unaddressed_items_accompany_addressing_item_until_stored() {
        let (mut albums, album) = (AlbumTracker::default(), new_album(-1, "ann", "a"));
        for (album, number) in
            [(&album, 1), (&new_album(-1, "bob", "a"), 2), (&album, 3), (&new_album(-1, "ann", "b"), 4)]
        {
            albums.buffer(album.clone(), item(number), 0);
        }
        assert_eq!(buffered_keys(&mut albums, &album, 5), ["1", "3"]);
        assert_eq!(buffered_keys(&mut albums, &album, 5), ["1", "3"], "what could not be stored comes again");
        assert_eq!(buffered_keys(&mut albums, &album, 3), ["1"], "what comes again brings itself");
        albums.release(|message| *message == item(1));
        assert_eq!(buffered_keys(&mut albums, &album, 6), [""; 0]);
        assert_eq!(albums.buffered.len(), 2, "others' stay");
    }

    #[test]
    fn newer_version_replaces_item() {
        let (mut albums, album) = (AlbumTracker::default(), new_album(-1, "ann", "a"));
        for message in [item(1), item(2), InboundMessage { key: "1, edited".to_owned(), ..item(1) }] {
            albums.buffer(album.clone(), message, 0);
        }
        assert_eq!(buffered_keys(&mut albums, &album, 3), ["1, edited", "2"]);
    }

    #[test]
    fn unaddressed_album_items_are_bounded_and_expire() {
        let mut albums = AlbumTracker::default();
        for number in 0..1000 {
            albums.buffer(new_album(-1, "ann", "a"), item(number), 0);
        }
        assert_eq!(albums.buffered.len(), MAX_BUFFERED_ITEMS);
        assert_eq!(buffered_keys(&mut albums, &new_album(-1, "ann", "a"), 1000).len(), MAX_BUFFERED_ITEMS);
        albums.release(|message| message.key != "999");
        albums.buffer(new_album(-1, "ann", "b"), item(1), 5);
        albums.buffer(new_album(-1, "bob", "c"), item(1), 5 + BUFFER_TTL_SECS);
        assert_eq!(buffered_keys(&mut albums, &new_album(-1, "ann", "b"), 2), [""; 0], "too old");
        assert_eq!(buffered_keys(&mut albums, &new_album(-1, "bob", "c"), 2), ["1"]);
        assert_eq!(
            buffered_keys(&mut albums, &new_album(-1, "ann", "a"), 1000),
            ["999"],
            "this one waits until it can be stored"
        );
    }
}
