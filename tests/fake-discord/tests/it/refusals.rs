//! What is refused, in Discord's own words.

use serde_json::{Value, json};

use crate::{ADA, Bot, CHANNEL, button};

#[tokio::test]
async fn strangers_unknown_routes_and_wrong_methods_are_refused() {
    let bot = Bot::start().await;
    let url = format!("{}/api/v10/users/@me", bot.fake.api_url());
    let answer = async |agent: &str, token: &str| {
        let request = reqwest::Client::new().get(&url).header("user-agent", agent).header("authorization", token);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json::<Value>().await.expect("JSON"))
    };
    let agent = "DiscordBot (https://example.org, 0.1)";
    let token = format!("Bot {}", bot.fake.token());
    let unauthorized = (401, json!({ "message": "401: Unauthorized", "code": 0 }));
    assert_eq!(answer(agent, "Bot wrong").await, unauthorized);
    assert_eq!(answer(agent, bot.fake.token()).await, unauthorized, "a token without its type is none");
    let blocked = (403, json!({ "message": "internal network error", "code": 40_333 }));
    assert_eq!(answer("satchel/0.1", &token).await, blocked);
    assert_eq!(answer(agent, &token).await.1["username"], "satchel");
    assert_eq!(bot.get("/users/5").await, Err("404 0 404: Not Found".to_owned()));
    assert_eq!(bot.ask("PUT", "/users/@me", json!({})).await, Err("405 0 405: Method Not Allowed".to_owned()));
    let other = reqwest::get(format!("{}/api/v9/gateway", bot.fake.api_url())).await.expect("an answer");
    assert_eq!(other.status(), 400);
    assert_eq!(reqwest::get(bot.fake.api_url()).await.expect("an answer").status(), 404);
}

#[tokio::test]
async fn empty_overlong_or_misaddressed_texts_are_refused() {
    let bot = Bot::start().await;
    let clef = "𝄞"; // one character, two UTF-16 units
    let empty = "400 50006 Cannot send an empty message";
    for (message, expected) in [
        (json!({ "content": "" }), empty),
        (json!({ "content": " \n\t " }), empty),
        (json!({}), empty),
        (json!({ "content": null }), empty),
        (json!({ "content": clef.repeat(2001) }), "400 50035 Invalid Form Body; content: BASE_TYPE_MAX_LENGTH"),
        (json!({ "content": 5 }), "400 50035 Invalid Form Body; content: STRING_TYPE_CONVERT"),
        (json!({ "content": "a", "nonce": "n".repeat(26) }), "400 50035 Invalid Form Body; nonce: NONCE_TYPE_TOO_LONG"),
        (
            json!({ "content": "a".repeat(2001), "nonce": "n".repeat(26) }),
            "400 50035 Invalid Form Body; content: BASE_TYPE_MAX_LENGTH; nonce: NONCE_TYPE_TOO_LONG",
        ),
        (
            json!({ "content": "a", "message_reference": { "message_id": "77" } }),
            "400 50035 Invalid Form Body; message_reference: REPLIES_UNKNOWN_MESSAGE",
        ),
        (
            json!({ "content": "a", "message_reference": {} }),
            "400 50035 Invalid Form Body; message_reference.message_id: BASE_TYPE_REQUIRED",
        ),
    ] {
        assert_eq!(bot.send(message.clone()).await, Err(expected.to_owned()), "{message}");
    }
    let nowhere = bot.ask("POST", "/channels/5/messages", json!({ "content": "a" })).await;
    assert_eq!(nowhere, Err("404 10003 Unknown Channel".to_owned()));
    let no_id = bot.ask("POST", "/channels/general/messages", json!({ "content": "a" })).await;
    assert_eq!(no_id, Err("400 50035 Invalid Form Body; channel_id: NUMBER_TYPE_COERCE".to_owned()));
    let path = format!("/channels/{CHANNEL}/messages");
    let broken = super::taken(bot.request("POST", &path).header("content-type", "application/json").body("{")).await;
    assert_eq!(broken, Err("400 50109 The request body contains invalid JSON.".to_owned()));
    let untyped = super::taken(bot.request("POST", &path).body("content=a")).await;
    assert_eq!(untyped, Err("400 50035 Invalid Form Body; : CONTENT_TYPE_INVALID".to_owned()));
    assert!(bot.fake.transcript().texts(CHANNEL).is_empty(), "nothing arrived");

    let most = bot.send(json!({ "content": clef.repeat(2000) })).await.expect("2000 characters");
    assert_eq!(most["content"].as_str().map(|text| text.chars().count()), Some(2000));
    let anyway = json!({ "message_id": "77", "fail_if_not_exists": false });
    let sent = bot.send(json!({ "content": " a \n", "message_reference": anyway, "nonce": "n".repeat(25) })).await;
    let sent = sent.expect("it goes as no reply");
    assert_eq!(sent.get("message_reference"), None);
    assert_eq!(sent["content"], "a", "the blanks at its ends are gone");
}

#[tokio::test]
async fn missing_and_foreign_messages_refuse_edits_and_deletes() {
    let bot = Bot::start().await;
    let theirs = bot.fake.person_says(CHANNEL, ADA, "hello").to_string();
    let own = bot.send(json!({ "content": "one" })).await.expect("sent");
    let at = |id: &str| json!({ "id": id });
    let foreign = "403 50005 Cannot edit a message authored by another user";
    assert_eq!(bot.edit(&at(&theirs), json!({ "content": "two" })).await, Err(foreign.to_owned()));
    let unknown = Err("404 10008 Unknown Message".to_owned());
    assert_eq!(bot.edit(&at("77"), json!({ "content": "two" })).await, unknown);
    assert_eq!(
        bot.edit(&own, json!({ "content": "" })).await,
        Err("400 50006 Cannot send an empty message".to_owned())
    );
    let long = bot.edit(&own, json!({ "content": "a".repeat(2001) })).await;
    assert_eq!(long, Err("400 50035 Invalid Form Body; content: BASE_TYPE_MAX_LENGTH".to_owned()));
    let edited = bot.edit(&own, json!({ "content": "two" })).await.expect("edited");
    assert!(edited["edited_timestamp"].is_string(), "{edited}");
    let again = bot.edit(&own, json!({ "content": "two" })).await.expect("an edit that changes nothing is taken");
    assert!(again["edited_timestamp"].as_str() > edited["edited_timestamp"].as_str(), "and is another one");

    let delete = async |id: &Value| bot.ask("DELETE", &super::message_path(id), Value::Null).await;
    assert_eq!(delete(&at(&theirs)).await, Err("403 50013 Missing Permissions".to_owned()));
    let said = bot.fake.person_says(bot.direct, ADA, "hello");
    let direct = bot.ask("DELETE", &format!("/channels/{}/messages/{said}", bot.direct), Value::Null).await;
    assert_eq!(direct, Err("403 50003 Cannot execute action on a DM channel".to_owned()));
    assert_eq!(delete(&own).await, Ok(Value::Null));
    assert_eq!(delete(&own).await, unknown);
    assert_eq!(bot.edit(&own, json!({ "content": "three" })).await, unknown);
}

#[tokio::test]
async fn buttons_keep_to_their_limits() {
    let bot = Bot::start().await;
    let rows = |count: usize| {
        let row = |index: usize| button("Yes", &format!("yes {index}"))[0].clone();
        json!({ "content": "a", "components": (0..count).map(row).collect::<Vec<_>>() })
    };
    let of = |buttons: Vec<Value>| json!({ "content": "a", "components": [{ "type": 1, "components": buttons }] });
    let plain = |index: usize| json!({ "type": 2, "style": 2, "label": "a", "custom_id": index.to_string() });
    let first = "400 50035 Invalid Form Body; components.0.components";
    for (message, expected) in [
        (rows(6), "400 50035 Invalid Form Body; components: BASE_TYPE_BAD_LENGTH".to_owned()),
        (of((0..6).map(plain).collect()), format!("{first}: BASE_TYPE_BAD_LENGTH")),
        (of(Vec::new()), format!("{first}: BASE_TYPE_BAD_LENGTH")),
        (of(vec![plain(1), plain(1)]), format!("{first}.1.custom_id: COMPONENT_CUSTOM_ID_DUPLICATED")),
        (
            of(vec![json!({ "type": 2, "style": 1, "label": "a", "custom_id": "c".repeat(101) })]),
            format!("{first}.0.custom_id: BASE_TYPE_MAX_LENGTH"),
        ),
        (
            of(vec![json!({ "type": 2, "style": 1, "label": "l".repeat(81), "custom_id": "c" })]),
            format!("{first}.0.label: BASE_TYPE_MAX_LENGTH"),
        ),
        (of(vec![json!({ "type": 2, "style": 1, "label": "a" })]), format!("{first}.0.custom_id: BASE_TYPE_REQUIRED")),
        (
            of(vec![json!({ "type": 2, "style": 1, "custom_id": "c" })]),
            format!("{first}.0.label: BUTTON_COMPONENT_INVALID_EMOJI_OR_LABEL"),
        ),
        (
            of(vec![json!({ "type": 2, "style": 9, "label": "a", "custom_id": "c" })]),
            format!("{first}.0.style: BASE_TYPE_CHOICES"),
        ),
    ] {
        assert_eq!(bot.send(message.clone()).await, Err(expected), "{message}");
    }
    bot.send(rows(5)).await.expect("five rows");
    bot.send(of((0..5).map(plain).collect())).await.expect("five buttons");
    let longest = json!({ "type": 2, "style": 1, "label": "l".repeat(80), "custom_id": "c".repeat(100) });
    let sent = bot.send(of(vec![longest])).await.expect("the longest button");
    assert_eq!(sent["components"][0]["components"][0]["custom_id"], "c".repeat(100));
    let without = bot.edit(&sent, json!({ "components": [] })).await.expect("taken away");
    assert_eq!(without["components"], json!([]));
    assert_eq!(without["content"], "a", "what an edit leaves out stays");
}

#[tokio::test]
async fn mentions_notify_as_far_as_they_are_allowed() {
    let bot = Bot::start().await;
    let bea = bot.fake.person(1002, "Bea");
    let said = bot.fake.person_says(CHANNEL, bea, "hello").to_string();
    let content = format!("@everyone <@{ADA}> <@&{}>", super::GUILD + 1);
    let reference = json!({ "message_id": said });
    let send = async |allowed: Value| {
        let mut message = json!({ "content": content, "message_reference": reference });
        if !allowed.is_null() {
            message["allowed_mentions"] = allowed;
        }
        let sent = bot.send(message).await?;
        let pings = bot.fake.transcript().message(super::id(&sent["id"])).expect("it stands there").pings.clone();
        Ok::<_, String>((format!("{pings:?}"), sent["mentions"].as_array().map_or(0, Vec::len)))
    };
    let role = super::GUILD + 1;
    let all = format!("[Everyone, Person({ADA}), Person({bea}), Role({role})]");
    assert_eq!(send(Value::Null).await, Ok((all, 2)), "nothing said is all allowed");
    let none = Ok(("[]".to_owned(), 0));
    assert_eq!(send(json!({ "parse": [] })).await, none);
    assert_eq!(send(json!({ "parse": [], "replied_user": false })).await, none);
    assert_eq!(send(json!({ "parse": [], "replied_user": true })).await, Ok((format!("[Person({bea})]"), 1)));
    assert_eq!(send(json!({ "users": [ADA.to_string()] })).await, Ok((format!("[Person({ADA})]"), 1)));
    assert_eq!(send(json!({ "parse": ["everyone"] })).await, Ok(("[Everyone]".to_owned(), 0)));
    let both = send(json!({ "parse": ["users"], "users": [ADA.to_string()] })).await;
    let exclusive = "400 50035 Invalid Form Body; allowed_mentions: MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE";
    assert_eq!(both, Err(exclusive.to_owned()));
    let unknown = send(json!({ "parse": ["anybody"] })).await;
    assert_eq!(unknown, Err("400 50035 Invalid Form Body; allowed_mentions.parse.0: BASE_TYPE_CHOICES".to_owned()));
}
