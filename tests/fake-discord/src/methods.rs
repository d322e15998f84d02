//! What the routes do.

mod channels;
mod commands;
mod create;
mod edit;
mod interactions;

use serde_json::Value;

use crate::{
    DiscordRules, call::ReceivedCall, gateway::FakeGateway, guilds, objects, privacy, refusal::Refusal,
    world::PlatformState,
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

pub(crate) fn perform(
    world: &mut PlatformState,
    rules: &DiscordRules,
    hub: &FakeGateway,
    call: &ReceivedCall,
) -> Result<RouteReply, Refusal> {
    let told = match call.route.name.as_str() {
        "GET /gateway" => hub.address(),
        "GET /gateway/bot" => hub.bot_address(),
        "GET /users/@me" => objects::me(world),
        "GET /applications/@me" | "GET /oauth2/applications/@me" => {
            objects::application(world, hub.application_flags())
        }
        "POST /users/@me/channels" => channels::open_direct(world, call)?,
        "GET /applications/{}/commands" => commands::list(world, call)?,
        "PUT /applications/{}/commands" => commands::set(world, call)?,
        "GET /channels/{}" => objects::channel(world, world.visible_channel(call.id(0))?),
        "GET /guilds/{}" => guilds::get(world, call)?,
        "POST /channels/{}/typing" => return channels::typing(world, call),
        "GET /channels/{}/messages" => readable(world, hub, call, channels::list(world, call)?),
        "GET /channels/{}/messages/{}" => readable(world, hub, call, channels::get(world, call)?),
        "POST /channels/{}/messages" => create::create(world, rules, call)?,
        "PATCH /channels/{}/messages/{}" => edit::edit(world, rules, call)?,
        "DELETE /channels/{}/messages/{}" => return edit::delete(world, call),
        "POST /interactions/{}/{}/callback" => return interactions::answer(world, rules, call),
        "POST /attachments/refresh-urls" => channels::refresh_links(world, call)?,
        _ => return Err(Refusal::of_status(404)),
    };
    Ok(RouteReply::Json(told))
}

/// What the application may read of messages that it asked for (Message Content Intent: it "permits your app to receive
/// message content data across the APIs").
fn readable(world: &PlatformState, hub: &FakeGateway, call: &ReceivedCall, messages: Value) -> Value {
    let of_guild = call.id(0).parse().is_ok_and(|channel| world.channel(channel).kind.guild().is_some());
    privacy::redacted(messages, objects::reads_content(hub.application_flags()), of_guild)
}
