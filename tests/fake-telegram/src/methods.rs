//! The methods of the Bot API that the fake has, by name.

mod edit;
mod inform;
mod members;
mod send;

use serde_json::Value;

use crate::{State, TelegramRules, call::ReceivedCall, drafts, refusal::ApiRefusal};

/// Performs a request. `getUpdates` waits, and is answered elsewhere.
pub(crate) fn perform(state: &mut State, rules: &TelegramRules, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let platform = &mut state.platform;
    match call.method.as_str() {
        "sendmessage" => send::text(platform, rules, call),
        "sendrichmessage" if rules.knows_rich_messages => send::rich(platform, rules, call),
        "sendphoto" | "senddocument" | "sendvoice" | "sendaudio" | "sendvideo" | "sendvideonote" | "sendanimation" => {
            send::file(platform, rules, call)
        }
        "sendmediagroup" => send::album(platform, rules, call),
        "sendmessagedraft" => drafts::show(platform, rules, call),
        "sendchataction" => send::action(platform, call),
        "editmessagetext" => edit::text(platform, rules, call),
        "editmessagecaption" => edit::caption(platform, rules, call),
        "editmessagereplymarkup" => edit::buttons(platform, rules, call),
        "stopmessagelivelocation" => edit::stop_live_location(platform, rules, call),
        "deletemessage" => edit::delete(platform, call),
        "getme" => Ok(inform::me(platform)),
        "getfile" => inform::file(platform, rules, call),
        "getchat" => inform::chat(platform, call),
        "getchatmember" => members::member(platform, call),
        "getchatadministrators" => members::administrators(platform, call),
        "setmycommands" => inform::set_commands(platform, call),
        "getmycommands" => Ok(Value::Array(platform.commands.clone())),
        "deletemycommands" => {
            platform.commands.clear();
            Ok(Value::Bool(true))
        }
        "answercallbackquery" => inform::answer_press(platform, call),
        "setwebhook" => state.inbox.set_webhook(rules, call),
        "deletewebhook" => Ok(state.inbox.delete_webhook(call)),
        "getwebhookinfo" => Ok(state.inbox.webhook_info()),
        // tdlib/telegram-bot-api, `Client.cpp`: the words for a method that a server of its age doesn't have.
        "sendrichmessage" => Err(ApiRefusal::new(404, "Not Found: method not found")),
        // Bot API, Making requests: a method that is none.
        _ => Err(ApiRefusal::new(404, "Not Found")),
    }
}
