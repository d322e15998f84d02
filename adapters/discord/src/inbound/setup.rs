//! What is asked once, before events come: who we are, and where we stopped reading.

use std::{
    error::Error,
    time::{SystemTime, UNIX_EPOCH},
};

use satchel_ports::{Inbound, InboundError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{bookmark::Bookmark, reader::BotIdentity};
use crate::{
    DiscordError,
    address::channel_name,
    gateway::{GatewayTimeouts, RetryTracker, delay_after_error, next_delay_logged},
    rest::{ApiRequest, RestClient},
    snowflake,
};

/// How far apart Discord's clock and ours may seem to be though they agree: it tells whole seconds, and an answer takes a
/// while.
const AS_GOOD_AS_EQUAL_MS: u64 = 2_000;

/// Who we are, however long it takes until Discord says so, and the time when it did, in milliseconds since 1970.
pub(super) async fn identify_bot(
    rest: &RestClient,
    waits: GatewayTimeouts,
) -> Result<(BotIdentity, u64), DiscordError> {
    let mut retries = waits.new_retry_tracker();
    loop {
        let (user, date): (Value, _) = ask_until_answered(rest, "/users/@me", &mut retries).await?;
        let now = server_time_id(date);
        // Of an old bot the application has another id than the user.
        let (application, _): (Value, _) = ask_until_answered(rest, "/applications/@me", &mut retries).await?;
        if let (Some(user_id), Some(application_id)) =
            (snowflake::read(&user, "id"), snowflake::read(&application, "id"))
        {
            retries.reset();
            let name = user.get("username").and_then(Value::as_str).unwrap_or_default();
            tracing::info!(bot = name, "listening on Discord");
            return Ok((BotIdentity { user_id, application_id }, now));
        }
        tokio::time::sleep(next_delay_logged(&mut retries, &"the server did not answer like Discord")).await;
    }
}

/// The time, where Discord has just told `date`. Its messages are numbered by its clock: by one of ours that goes fast,
/// what is said at first would be taken for what was said before we were there.
fn server_time_id(date: Option<u64>) -> u64 {
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ours = u64::try_from(ours.as_millis()).unwrap_or(u64::MAX);
    match date {
        Some(date) if !(date..date.saturating_add(AS_GOOD_AS_EQUAL_MS)).contains(&ours) => date,
        _ => ours,
    }
}

async fn ask_until_answered<T: DeserializeOwned>(
    rest: &RestClient,
    path: &str,
    retries: &mut RetryTracker,
) -> Result<(T, Option<u64>), DiscordError> {
    loop {
        match rest.request_dated(ApiRequest::get(path)).await {
            Ok(told) => return Ok(told),
            Err(error) => tokio::time::sleep(delay_after_error(retries, &error)?).await,
        }
    }
}

/// Where we stopped reading; where that isn't known, that we begin at `now`. Either is kept when this returns, however long it
/// takes: what is said from now on is found again even if nothing else is kept before this process dies.
pub(super) async fn load_checkpoint(inbound: &dyn Inbound, now: u64, waits: GatewayTimeouts) -> Bookmark {
    let mut failures = 0;
    loop {
        match load_or_create_checkpoint(inbound, now).await {
            Ok(bookmark) => return bookmark,
            Err(error) => {
                if failures == 0 {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::error!(error, "loading the checkpoint failed; retrying with backoff");
                }
                tokio::time::sleep(waits.backoff(failures)).await;
                failures = failures.saturating_add(1);
            }
        }
    }
}

async fn load_or_create_checkpoint(inbound: &dyn Inbound, now: u64) -> Result<Bookmark, InboundError> {
    if let Some(kept) = inbound.load_checkpoint(&channel_name()).await? {
        if let Some(bookmark) = Bookmark::from_json(&kept) {
            return Ok(bookmark);
        }
        tracing::warn!("the checkpoint could not be decoded; skipping the backfill");
    }
    let begun = Bookmark::beginning(snowflake::at_unix_ms(now));
    inbound.save_checkpoint(&channel_name(), begun.to_json()).await?;
    Ok(begun)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::HttpTimeouts;

    /// What a server that tells this time makes of ours.
    async fn told(date: &str) -> u64 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let body = r#"{"id":"7","username":"satchel"}"#;
        let length = body.len();
        let answer = format!("HTTP/1.1 200 OK\r\n{date}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        let serving = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = socket.read(&mut [0; 4_096]).await.unwrap();
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let rest = RestClient::new(&"token".into(), Some(&address.into()), HttpTimeouts::default(), None).unwrap();
        let (us, now) = identify_bot(&rest, GatewayTimeouts::default()).await.unwrap();
        serving.abort();
        assert_eq!(us, BotIdentity { user_id: 7, application_id: 7 });
        now
    }

    #[tokio::test]
    async fn server_date_is_used_else_local_clock() {
        let before = server_time_id(None);
        assert_eq!(told("date: Sun, 06 Nov 1994 08:49:37 GMT\r\n").await, 784_111_777_000);
        let ours = told("").await;
        assert!((before..=server_time_id(None)).contains(&ours), "{ours}");
    }

    #[test]
    fn finer_clock_wins_when_clocks_agree() {
        let ours = server_time_id(None);
        let second = ours / 1_000 * 1_000;
        assert!(server_time_id(Some(second)) >= ours);
        for (ahead, date) in [("ours", second - 2_000), ("theirs", second + 60_000)] {
            assert_eq!(server_time_id(Some(date)), date, "{ahead} is ahead");
        }
    }
}
