//! Finds the person who has sent a code to a Telegram bot, among the messages that wait for it.

use reqwest::Client;
use satchel_domain::PairingCode;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;

use super::{TokenError, get_json, redact, telegram_url};

/// How long Telegram waits for a message where there is none, in seconds. Somebody at a terminal may want to go on meanwhile.
const POLL_SECONDS: u64 = 2;

/// The most messages that Telegram shows at once; later ones are seen only once the first are confirmed.
const MAX_UPDATES: usize = 100;

/// A person on Telegram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelegramOwner {
    pub id: i64,
    /// As they call themselves, without characters that are unsafe on a terminal.
    pub name: String,
}

#[derive(Deserialize)]
struct OwnerUpdate {
    update_id: i64,
    message: Option<OwnerMessage>,
}

#[derive(Deserialize)]
struct OwnerMessage {
    from: Option<OwnerSender>,
    chat: OwnerChat,
    text: Option<String>,
}

#[derive(Deserialize)]
struct OwnerSender {
    id: i64,
    first_name: String,
    #[serde(default)]
    is_bot: bool,
}

#[derive(Deserialize)]
struct OwnerChat {
    #[serde(rename = "type")]
    kind: String,
}

/// Looks for the code among the messages that wait for the bot, and returns who has sent it. What waits stays there, unless
/// all of it is theirs: then the code and what they wrote before it are confirmed, so that the bot doesn't answer a code.
///
/// # Errors
/// When the messages can't be read.
pub async fn find_owner(
    http: &Client,
    api_url: Option<&SecretString>,
    token: &SecretString,
    code: &PairingCode,
) -> Result<Option<TelegramOwner>, TokenError> {
    #[derive(Deserialize)]
    struct UpdatesResponse {
        ok: bool,
        result: Option<Vec<Value>>,
        description: Option<String>,
    }
    let url = format!("{}/getUpdates", telegram_url(api_url, token)?);
    let request = http.get(format!("{url}?limit={MAX_UPDATES}&timeout={POLL_SECONDS}"));
    let (status, body) = get_json("Telegram", request).await?;
    let updates = match serde_json::from_slice(&body) {
        Ok(UpdatesResponse { ok: true, result: Some(updates), .. }) => updates,
        // Another program polls, or Telegram sends the messages to an address.
        Ok(UpdatesResponse { ok: false, .. }) if status == 409 => {
            let message = "another program already reads the messages of this bot";
            return Err(TokenError::Unverified(message.to_owned()));
        }
        Ok(UpdatesResponse { description: Some(description), .. }) => {
            // Another server than Telegram's may repeat the path.
            let description = description.replace(token.expose_secret().trim(), "<token>");
            return Err(TokenError::Unverified(format!("Telegram answered {status}: {}", redact(&description))));
        }
        Ok(_) | Err(_) => {
            let message = format!("the server did not answer like Telegram (status {status})");
            return Err(TokenError::Unverified(message));
        }
    };
    let Some((owner, offset)) = find_sender(&updates, code) else {
        return match updates.len() < MAX_UPDATES {
            true => Ok(None),
            false => {
                Err(TokenError::Unverified("so many messages wait for this bot that yours can't be seen".to_owned()))
            }
        };
    };
    if let Some(offset) = offset {
        // What isn't confirmed is answered, which harms nobody.
        let _confirmed = get_json("Telegram", http.get(format!("{url}?limit=1&timeout=0&offset={offset}"))).await;
    }
    Ok(Some(owner))
}

/// Who has sent the code in a private chat, and the offset that confirms it if nothing before it is somebody else's.
fn find_sender(updates: &[Value], code: &PairingCode) -> Option<(TelegramOwner, Option<i64>)> {
    let read = |update: &Value| OwnerUpdate::deserialize(update).ok();
    let position = updates.iter().position(|update| read(update).is_some_and(|update| has_code(&update, code)))?;
    let OwnerUpdate { update_id, message } = read(&updates[position])?;
    let sender = message?.from?;
    let is_theirs = |update: &Value| {
        let from = read(update).and_then(|update| update.message?.from);
        from.is_some_and(|from| from.id == sender.id)
    };
    let offset = updates[..position].iter().all(is_theirs).then_some(update_id + 1);
    Some((TelegramOwner { id: sender.id, name: redact(&sender.first_name) }, offset))
}

/// Whether a person has sent the code in their own chat with the bot: alone, or with the link that starts the bot.
fn has_code(update: &OwnerUpdate, code: &PairingCode) -> bool {
    let Some(OwnerMessage { from: Some(from), chat, text: Some(text) }) = &update.message else { return false };
    let text = text.trim();
    let given = text.strip_prefix("/start").unwrap_or(text).trim().parse();
    !from.is_bot && chat.kind == "private" && given.is_ok_and(|given: PairingCode| given.ct_eq(code))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(number: i64, person: i64, chat: &str, text: &str) -> Value {
        let from = json!({ "id": person, "is_bot": false, "first_name": "Ann\u{202e}" });
        json!({ "update_id": number, "message": { "message_id": 1, "from": from, "chat": { "id": 1, "type": chat }, "text": text } })
    }

    #[test]
    fn sender_of_the_code_is_the_owner() {
        let code: PairingCode = "ABCD-EFGH".parse().unwrap();
        let ann = TelegramOwner { id: 41, name: "Ann".to_owned() };
        for text in ["ABCD-EFGH", " abcdefgh\n", "/start ABCD-EFGH"] {
            let updates = [update(7, 41, "private", "/start"), update(8, 41, "private", text)];
            assert_eq!(find_sender(&updates, &code), Some((ann.clone(), Some(9))), "{text}");
        }
        // What others have written must still be answered.
        let updates = [update(7, 5, "private", "hello"), update(8, 41, "private", "ABCD-EFGH")];
        assert_eq!(find_sender(&updates, &code), Some((ann, None)));
    }

    #[test]
    fn nobody_else_becomes_the_owner() {
        let code: PairingCode = "ABCD-EFGH".parse().unwrap();
        for other in [
            update(7, 5, "private", "hello"),
            update(7, 5, "private", "ABCD-EFGJ"),
            update(7, 5, "group", "ABCD-EFGH"),
            json!({ "update_id": 7, "edited_message": {} }),
            json!({ "update_id": 7, "message": { "chat": { "type": "private" }, "text": "ABCD-EFGH" } }),
            json!("nonsense"),
        ] {
            assert_eq!(find_sender(std::slice::from_ref(&other), &code), None, "{other}");
        }
    }
}
