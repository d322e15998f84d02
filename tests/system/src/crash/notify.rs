//! Another program that sends a notification, and sends it once more after each crash.

use std::time::Duration;

use satchel_domain::{ChannelName, Filename};
use satchel_fake_kit::FakeFile;
use satchel_ports::{
    BlobHint, Blobs, Conversations, Notification, NotificationFile, Notifications, ledger::ConversationQuery,
};

/// Pause between two looks for a conversation.
const POLL_INTERVAL: Duration = Duration::from_millis(4);

const MAX_BYTES: u64 = 1 << 20;

/// Sends a text and a file to the first conversation of a channel once there is one. The port that is asked for it is no
/// wrapped one: how often that happens is a matter of chance.
///
/// # Errors
/// When a store fails or the notification is refused.
pub(super) async fn notify(
    notifications: &dyn Notifications,
    blobs: &dyn Blobs,
    conversations: &dyn Conversations,
    channel: ChannelName,
) -> anyhow::Result<()> {
    let first = ConversationQuery { channel, archived: false, before: None, limit: 1 };
    let conversation = loop {
        match conversations.list_conversations(&first).await?.pop() {
            Some(summary) => break summary.conversation,
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    };
    let file = FakeFile::from_bytes("report.txt", "text/plain", "all is well\n");
    let blob = blobs.put(file.stream(), &BlobHint::default(), MAX_BYTES).await?;
    let files = vec![NotificationFile { blob, filename: Filename::from_untrusted(&file.filename) }];
    let (key, text) = (Some("backup".to_owned()), "The backup is done.".to_owned());
    notifications.send(Notification { conversation, key, text, files }).await?;
    Ok(())
}
