//! What a fixture can't bring about: declared it is passed over, undeclared it is a failure.

use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures::FutureExt;
use satchel_contracts::channel::{ChannelFixture, DeclaredFixture, Gap, connection_reset_is_in_doubt};

use crate::keyed_channel::harness;

/// What a promise fails with.
async fn catch_panic_message(promise: impl Future<Output = ()>) -> Option<String> {
    let panicked = AssertUnwindSafe(promise).catch_unwind().await.err()?;
    panicked.downcast_ref::<String>().cloned()
}

#[tokio::test]
async fn undeclared_gap_fails_its_promise() {
    let failed = catch_panic_message(connection_reset_is_in_doubt(&DeclaredFixture::new(harness(), &[]))).await;
    assert_eq!(failed.as_deref(), Some("the fixture can't do Reset: say so with `without: [Reset]`"));
    let declared = DeclaredFixture::new(harness(), &[Gap::Reset]);
    assert_eq!(catch_panic_message(connection_reset_is_in_doubt(&declared)).await, None);
}

#[tokio::test]
async fn declared_gap_that_is_none_fails() {
    let fixture = DeclaredFixture::new(harness(), &[Gap::InboundFiles]);
    let failed =
        catch_panic_message(async { drop(fixture.person_sends("a.txt", Bytes::from_static(b"a")).await) }).await;
    assert_eq!(failed.as_deref(), Some("the fixture can do InboundFiles: take it off `without`"));
}
