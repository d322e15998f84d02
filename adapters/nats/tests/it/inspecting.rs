//! What an inspection says of a server, and that it leaves nothing there.

use async_nats::{ConnectOptions, jetstream};
use futures::TryStreamExt;
use satchel_nats::{BusInspection, NatsError, NatsSettings};
use satchel_ports::EventBus;
use satchel_requirements::required;
use serde_json::json;

use crate::harness::{Harness, TIMEOUT, received};

/// Users who may do everything, nothing at all in JetStream, and everything but make streams.
const USERS: &str = "accounts {
    a: { jetstream: enabled, users: [
        { user: all, password: pw },
        { user: some, password: pw, permissions: { publish: { deny: \"$JS.API.STREAM.CREATE.>\" } } }
    ] }
    b: { users: [{ user: none, password: pw }] }
}";

fn settings(harness: &Harness, login: &str) -> NatsSettings {
    NatsSettings::new(format!("nats://{login}@{}", harness.server.address()).into())
}

#[tokio::test]
async fn inspection_finds_what_is_there_and_makes_nothing() {
    let Some(mut harness) = required(Harness::start_with(USERS).await) else { return };
    harness.log_in_as("all:pw");
    let all = settings(&harness, "all:pw");
    let before = BusInspection::read(&all).await.unwrap();
    assert!(!before.has_streams && !before.is_encrypted && before.newest_event_version.is_none(), "{before:?}");
    assert!(before.server_version.starts_with("2."), "{before:?}");
    let options = ConnectOptions::with_user_and_password("all".into(), "pw".into());
    let client = options.connect(harness.server.address()).await.unwrap();
    let context = jetstream::new(client);
    let names: Vec<String> = context.stream_names().try_collect().await.unwrap();
    assert_eq!(names, Vec::<String>::new());

    let bus = harness.bus().await;
    bus.publish(received(1)).await.unwrap();
    assert!(bus.flush(TIMEOUT).await);
    let after = BusInspection::read(&all).await.unwrap();
    assert_eq!((after.has_streams, after.newest_event_version), (true, Some(1)));

    let later = json!({ "v": 9, "type": "evt.message.received" }).to_string();
    context.publish("satchel.v1.evt.web.a.message.received", later.into()).await.unwrap().await.unwrap();
    assert_eq!(BusInspection::read(&all).await.unwrap().newest_event_version, Some(9));
    BusInspection::read(&settings(&harness, "some:pw")).await.expect("nothing has to be made any more");
}

#[tokio::test]
async fn missing_permission_is_found_before_the_start() {
    let Some(harness) = required(Harness::start_with(USERS).await) else { return };
    for login in ["some:pw", "none:pw"] {
        let error = BusInspection::read(&settings(&harness, login)).await.unwrap_err();
        assert!(matches!(error, NatsError::Streams { .. }), "{login}: {error:?}");
        assert!(error.to_string().contains("let this user create streams"), "{error}");
    }
}
