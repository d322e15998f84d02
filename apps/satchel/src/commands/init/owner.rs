//! Learns who the owner is: the person who sends a code to the bot while `init` waits for it.

use std::time::{Duration, Instant};

use satchel_domain::PairingCode;
use secrecy::SecretString;
use tokio::time::sleep;
use uuid::Uuid;

use super::dialogue::Dialogue;
use crate::{
    config::Config,
    platforms::{self, telegram_owner::find_owner},
};

/// How long the message is waited for.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(180);

/// The pause between two looks at the messages. Where some wait already, the platform answers at once.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Waits until somebody has sent the code to the bot, and returns their id. `None` if the person at the terminal skips it, it
/// takes too long, or the messages can't be read.
pub(super) async fn learn_owner(
    base_config: &Config,
    token: &SecretString,
    bot: &str,
    dialogue: &mut Dialogue<'_>,
) -> anyhow::Result<Option<String>> {
    // Anyone who finds the bot can write to it, but only the person at the terminal reads this.
    let code = PairingCode::from_random_bits(Uuid::new_v4().as_u64_pair().1);
    let minutes = MESSAGE_TIMEOUT.as_secs() / 60;
    dialogue.print_line(&format!(
        "Write to your bot now, so that it knows its owner: send {code} to {bot} on Telegram, or open\n  \
         https://t.me/{}?start={code}\nSatchel waits {minutes} minutes for it. Press Enter to skip this.",
        bot.trim_start_matches('@')
    ))?;
    let http = platforms::client()?;
    let started_at = Instant::now();
    let reason = loop {
        if dialogue.take_enter()? {
            break "skipped".to_owned();
        }
        match find_owner(&http, base_config.telegram.api_url.as_deref(), token, &code).await {
            Ok(Some(owner)) => {
                dialogue.print_line(&format!("ok: {} (id {}) owns the bot\n", owner.name, owner.id))?;
                return Ok(Some(owner.id.to_string()));
            }
            Ok(None) if started_at.elapsed() < MESSAGE_TIMEOUT => sleep(LOOK_INTERVAL).await,
            Ok(None) => break format!("nobody sent {code} within {minutes} minutes"),
            Err(error) => break error.to_string(),
        }
    };
    dialogue.print_line(&format!(
        "No owner yet: {reason}. Write to the bot once it runs; `satchel pair list` then shows your id for \
         `telegram.owners`.\n"
    ))?;
    Ok(None)
}
