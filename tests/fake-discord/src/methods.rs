//! What the routes do.

mod channels;
mod commands;
mod create;
mod edit;
mod interactions;

use serde_json::Value;

use crate::{
    DiscordRules, call::ReceivedCall, gateway::FakeGateway, guilds, objects, platform_state::PlatformState, privacy,
    refusal::ApiRefusal,
};

pub(crate) use self::{create::sanitised, edit::remove};

/// What a route answers.
#[derive(Debug)]
pub(crate) enum RouteReply {
    /// 200 with this.
    Json(Value),
    /// 204.
    NoContent,
}

pub(crate) fn dispatch_route(
    platform: &mut PlatformState,
    rules: &DiscordRules,
    hub: &FakeGateway,
    call: &ReceivedCall,
) -> Result<RouteReply, ApiRefusal> {
    let told = match call.route.name.as_str() {
        "GET /gateway" => hub.address(),
        "GET /gateway/bot" => hub.bot_address(),
        "GET /users/@me" => objects::me(platform),
        "GET /applications/@me" | "GET /oauth2/applications/@me" => {
            objects::application(platform, hub.application_flags())
        }
        "POST /users/@me/channels" => channels::open_direct(platform, call)?,
        "GET /applications/{}/commands" => commands::list(platform, call)?,
        "PUT /applications/{}/commands" => commands::set(platform, call)?,
        "GET /channels/{}" => objects::channel(platform, platform.visible_channel(call.id(0))?),
        "GET /guilds/{}" => guilds::get(platform, call)?,
        "POST /channels/{}/typing" => return channels::typing(platform, call),
        "GET /channels/{}/messages" => readable(platform, hub, call, channels::list(platform, call)?),
        "GET /channels/{}/messages/{}" => readable(platform, hub, call, channels::get(platform, call)?),
        "POST /channels/{}/messages" => create::create(platform, rules, call)?,
        "PATCH /channels/{}/messages/{}" => edit::edit(platform, rules, call)?,
        "DELETE /channels/{}/messages/{}" => return edit::delete(platform, call),
        "POST /interactions/{}/{}/callback" => return interactions::answer(platform, rules, call),
        "POST /attachments/refresh-urls" => channels::refresh_links(platform, call)?,
        _ => return Err(ApiRefusal::from_status(404)),
    };
    Ok(RouteReply::Json(told))
}

/// What the application may read of messages that it asked for (Message Content Intent: it "permits your app to receive
/// message content data across the APIs").
fn readable(platform: &PlatformState, hub: &FakeGateway, call: &ReceivedCall, messages: Value) -> Value {
    let of_guild = call.id(0).parse().is_ok_and(|channel| platform.channel(channel).kind.guild().is_some());
    privacy::redacted(messages, objects::reads_content(hub.application_flags()), of_guild)
}
