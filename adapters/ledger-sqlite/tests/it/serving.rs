//! A process that serves one conversation leaves the others' work to those who serve them.

use std::sync::Arc;

use satchel_domain::ChannelName;
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{Inbox, Leases, ledger::ClaimMode, ledger::WorkFilter};

use crate::{Settings, SqliteLedger, VerbSettings, message, open};

#[tokio::test]
async fn only_the_conversation_that_is_served_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let other = open(directory.path()).await;
    for conversation in ["console:main", "console:holiday"] {
        other.receive(&message(conversation, "1"), ClaimMode::Never).await.unwrap();
    }
    let verbs = VerbSettings { only: Some("console:holiday".parse().unwrap()), ..VerbSettings::default() };
    let settings = Settings { verbs, ..Settings::default() };
    let ledger =
        SqliteLedger::open(directory.path(), settings, Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap();
    let console = [ChannelName::new("console").unwrap()];
    let lease = ledger.claim_lane(&console, WorkFilter::Any).await.unwrap().unwrap().lease;
    assert_eq!(lease.conversation.to_string(), "console:holiday");
    assert_eq!(
        ledger.claim_lane(&console, WorkFilter::Any).await.unwrap(),
        None,
        "the other conversation has its own terminal"
    );
    assert!(other.claim_lane(&console, WorkFilter::Any).await.unwrap().is_some());
}
