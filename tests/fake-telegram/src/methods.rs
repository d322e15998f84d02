//! The methods of the Bot API that the fake has, by name.

mod edit;
mod inform;
mod members;
mod send;

use serde_json::Value;

use crate::{State, TelegramRules, call::ReceivedCall, refusal::Refusal};

/// Performs a request. `getUpdates` waits, and is answered elsewhere.
pub(crate) fn perform(state: &mut State, rules: &TelegramRules, call: &ReceivedCall) -> Result<Value, Refusal> {
    let world = &mut state.world;
    match call.method.as_str() {
        "sendmessage" => send::text(world, rules, call),
        "sendphoto" | "senddocument" | "sendvoice" | "sendaudio" | "sendvideo" | "sendvideonote" | "sendanimation" => {
            send::file(world, rules, call)
        }
        "sendmediagroup" => send::album(world, rules, call),
        "sendchataction" => send::action(world, call),
        "editmessagetext" => edit::text(world, rules, call),
        "editmessagecaption" => edit::caption(world, rules, call),
        "editmessagereplymarkup" => edit::buttons(world, rules, call),
        "stopmessagelivelocation" => edit::stop_live_location(world, rules, call),
        "deletemessage" => edit::delete(world, call),
        "getme" => Ok(inform::me(world)),
        "getfile" => inform::file(world, rules, call),
        "getchat" => inform::chat(world, call),
        "getchatmember" => members::member(world, call),
        "getchatadministrators" => members::administrators(world, call),
        "setmycommands" => inform::set_commands(world, call),
        "getmycommands" => Ok(Value::Array(world.commands.clone())),
        "deletemycommands" => {
            world.commands.clear();
            Ok(Value::Bool(true))
        }
        "answercallbackquery" => inform::answer_press(world, call),
        "setwebhook" => state.inbox.set_webhook(rules, call),
        "deletewebhook" => Ok(state.inbox.delete_webhook(call)),
        "getwebhookinfo" => Ok(state.inbox.webhook_info()),
        // Bot API, Making requests: a method that is none.
        _ => Err(Refusal::new(404, "Not Found")),
    }
}
