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
/// all before the code is how they have started the bot: then that and the code are confirmed, so that the bot doesn't answer
/// a code. A confirmed message is gone.
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
        // The bot answers an unconfirmed message, which harms nobody.
        let _confirmed = get_json("Telegram", http.get(format!("{url}?limit=1&timeout=0&offset={offset}"))).await;
    }
    Ok(Some(owner))
}

/// Who has sent the code in a private chat, and the offset that confirms it if nothing is lost by that.
fn find_sender(updates: &[Value], code: &PairingCode) -> Option<(TelegramOwner, Option<i64>)> {
    let read = |update: &Value| OwnerUpdate::deserialize(update).ok();
    let position = updates.iter().position(|update| read(update).is_some_and(|update| has_code(&update, code)))?;
    let OwnerUpdate { update_id, message } = read(&updates[position])?;
    let sender = message?.from?;
    let is_no_loss = |update: &Value| read(update).is_some_and(|update| starts_bot(&update, sender.id));
    let offset = updates[..position].iter().all(is_no_loss).then_some(update_id + 1);
    Some((TelegramOwner { id: sender.id, name: redact(&sender.first_name) }, offset))
}

/// Whether a person has sent the code in their own chat with the bot: alone, or with the link that starts the bot.
fn has_code(update: &OwnerUpdate, code: &PairingCode) -> bool {
    let Some((_, text)) = private_text(update) else { return false };
    let given = text.strip_prefix("/start").unwrap_or(text).trim().parse();
    given.is_ok_and(|given: PairingCode| given.ct_eq(code))
}

/// Whether an update only says that this person has started the bot, by its button or by a link with a code.
fn starts_bot(update: &OwnerUpdate, person: i64) -> bool {
    let Some((from, text)) = private_text(update) else { return false };
    let mut words = text.split_whitespace();
    let is_start = words.next() == Some("/start");
    let has_other_words =
        words.next().is_some_and(|code| code.parse::<PairingCode>().is_err()) || words.next().is_some();
    from.id == person && is_start && !has_other_words
}

/// The text of a person in their own chat with the bot, and who they are.
fn private_text(update: &OwnerUpdate) -> Option<(&OwnerSender, &str)> {
    let OwnerMessage { from: Some(from), chat, text: Some(text) } = update.message.as_ref()? else { return None };
    (!from.is_bot && chat.kind == "private").then_some((from, text.trim()))
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
    }

    /// Catches: a message or a file that nobody has answered, and that Telegram no longer has.
    #[test]
    fn nothing_but_the_start_of_the_bot_is_confirmed_with_the_code() {
        let code: PairingCode = "ABCD-EFGH".parse().unwrap();
        let ann = TelegramOwner { id: 41, name: "Ann".to_owned() };
        let photo = json!({ "update_id": 7, "message": {
            "from": { "id": 41, "is_bot": false, "first_name": "Ann" },
            "chat": { "id": 1, "type": "private" },
            "photo": [{ "file_id": "x" }],
        } });
        let edit = json!({ "update_id": 7, "edited_message": update(7, 41, "private", "/start")["message"] });
        for waiting in [
            photo,
            edit,
            update(7, 41, "group", "/start"),
            update(7, 41, "private", "hello"),
            update(7, 41, "private", "ABCD-EFGJ"),
            update(7, 41, "private", "/start me up"),
            update(7, 41, "private", "/started"),
            update(7, 5, "private", "hello"),
            update(7, 5, "private", "/start"),
            json!("nonsense"),
        ] {
            let updates = [waiting, update(8, 41, "private", "ABCD-EFGH")];
            assert_eq!(find_sender(&updates, &code), Some((ann.clone(), None)), "{}", updates[0]);
        }
        for start in ["/start", " /start\n", "/start ABCD-EFGH", "/start abcdefgj"] {
            let updates = [update(7, 41, "private", start), update(8, 41, "private", "ABCD-EFGH")];
            let first_has_code = start == "/start ABCD-EFGH";
            let confirmed = if first_has_code { 8 } else { 9 };
            assert_eq!(find_sender(&updates, &code), Some((ann.clone(), Some(confirmed))), "{start}");
        }
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
