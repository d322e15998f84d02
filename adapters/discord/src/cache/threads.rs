//! Where the message is from which a thread was started.
//!
//! "The created thread and the message it was started from will share the same id" (Threads, Public & Private Threads).

use super::GuildCache;

/// The threads of announcement and text channels (Channel Types). Private threads are made without a message.
const PUBLIC_THREADS: [u64; 2] = [10, 11];

/// Forums and media channels (Channel Types), whose threads begin with the message that has the thread's id.
const POST_CHANNELS: [u64; 2] = [15, 16];

/// Where the message is from which a public thread was started, if it was started from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StarterLocation {
    /// The channel of the message.
    pub(crate) channel: u64,
    /// Whether it is the first message in the thread itself.
    pub(crate) is_post: bool,
    /// Whether the thread was made after the time in its id, which is that of the message then; `None` if unknown.
    pub(crate) is_older: Option<bool>,
}

impl GuildCache {
    /// Returns where the message is from which a thread was started; `None` for what is no public thread.
    pub(crate) fn starter_location(&self, thread: u64) -> Option<StarterLocation> {
        let state = self.state();
        let cached = state.channels.get(&thread)?;
        if !cached.kind.is_some_and(|kind| PUBLIC_THREADS.contains(&kind)) {
            return None;
        }
        let parent = cached.parent?;
        let parent_kind = state.channels.get(&parent).and_then(|parent| parent.kind);
        let is_post = parent_kind.is_some_and(|kind| POST_CHANNELS.contains(&kind));
        let channel = if is_post { thread } else { parent };
        Some(StarterLocation { channel, is_post, is_older: cached.made_at.map(|made_at| made_at > thread) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn starter_is_in_the_parent_or_in_a_post_itself() {
        // The id is of 2016-04-30 11:18:25.796.
        let thread = 175_928_847_299_117_063_u64;
        let place = |kind: u64, parent_kind: u64, made_at: Option<&str>| {
            let cache = GuildCache::default();
            cache.record_channel(&json!({ "id": "5", "type": parent_kind }));
            cache.record_channel(&json!({
                "id": thread.to_string(), "type": kind, "parent_id": "5",
                "thread_metadata": { "create_timestamp": made_at },
            }));
            cache.starter_location(thread)
        };
        let starter = |channel, is_post, is_older| Some(StarterLocation { channel, is_post, is_older });
        assert_eq!(place(11, 0, None), starter(5, false, None));
        assert_eq!(place(11, 0, Some("2016-04-30T11:18:25.796000+00:00")), starter(5, false, Some(false)));
        assert_eq!(place(10, 5, Some("2016-04-30T11:18:27.000000+00:00")), starter(5, false, Some(true)));
        assert_eq!(place(11, 15, None), starter(thread, true, None));
        assert_eq!((place(12, 0, None), place(0, 4, None)), (None, None), "a private thread, and a channel");
    }
}
