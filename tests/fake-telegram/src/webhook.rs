//! The webhook: updates are posted to the bot, one after the other, each until it is taken.

use std::{sync::Arc, time::Duration};

use crate::{Shared, inbox::FakeWebhook};

/// The header that proves who posts (setWebhook: secret_token).
const SECRET: &str = "X-Telegram-Bot-Api-Secret-Token";

/// How long a bot may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Posts whatever waits, until the fake ends.
pub(crate) async fn deliver(shared: Arc<Shared>) {
    let posting = async {
        let client = reqwest::Client::builder().timeout(ANSWER_TIMEOUT).build().expect("it has no special wishes");
        let mut pause = Duration::from_millis(20);
        loop {
            let arrived = shared.arrived.notified();
            let Some((number, update, webhook, to)) = next(&shared) else {
                arrived.await;
                continue;
            };
            let mut request = client.post(to).json(&update);
            if let Some(secret) = &webhook.secret {
                request = request.header(SECRET, secret);
            }
            // Taken first: whoever was posted to can advance the clock to the next try.
            let next_try = shared.clock.now() + pause;
            let failed = match request.send().await {
                Ok(answer) if answer.status().is_success() => None,
                // The server's own words.
                Ok(answer) => Some(format!("Wrong response from the webhook: {}", answer.status())),
                Err(_) => Some("Connection refused".to_owned()),
            };
            let Some(failed) = failed else {
                pause = Duration::from_millis(20);
                shared.state().inbox.updates.retain(|(waiting, _)| *waiting != number);
                continue;
            };
            {
                let mut state = shared.state();
                let now = state.platform.now();
                if let Some(webhook) = &mut state.inbox.webhook {
                    webhook.last_error = Some((now, failed));
                }
            }
            // setWebhook: "we will repeat the request and give up after a reasonable amount of attempts".
            shared.clock.sleep_until(next_try).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    };
    tokio::select! {
        () = posting => {}
        () = shared.stopped.cancelled() => {}
    }
}

fn next(shared: &Shared) -> Option<(i64, serde_json::Value, FakeWebhook, reqwest::Url)> {
    let state = shared.state();
    let webhook = state.inbox.webhook.clone()?;
    let (number, update) = state.inbox.updates.front().cloned()?;
    let mut to = webhook.url.clone();
    if let Some(address) = state.inbox.behind_proxy {
        let path = to.path().to_owned();
        to = reqwest::Url::parse(&format!("http://{address}{path}")).expect("an address and a path");
    }
    Some((number, update, webhook, to))
}
