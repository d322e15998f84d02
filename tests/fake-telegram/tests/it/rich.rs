//! Rich messages: what is taken, what is refused, and what a person sees of them.

use satchel_fake_telegram::{TelegramRules, parse_rich_html};
use serde_json::{Value, json};

use crate::Bot;

const TABLE: &str =
    "<table><tr><th>Name</th><th align=\"right\">Age</th></tr><tr><td>Ada</td><td align=\"right\">36</td></tr></table>";

fn rich(html: &str) -> Value {
    json!({ "rich_message": { "html": html, "skip_entity_detection": true } })
}

#[tokio::test]
async fn rich_message_comes_back_with_its_blocks_and_is_seen_as_lines() {
    let bot = Bot::start().await;
    let html = format!(
        "<h2>Crew &amp; more</h2>{TABLE}<ol start=\"2\"><li>two<ul><li><input type=\"checkbox\" checked>done</li></ul></li></ol>\
         <blockquote><p>a<br>b</p></blockquote><p>It is <tg-math>x_1</tg-math>, see <a href=\"https://x.org/\">this</a>.</p>"
    );
    let sent = bot.here("sendRichMessage", rich(&html)).await.expect("sent");
    assert_eq!((sent.get("text"), sent["rich_message"]["blocks"][0]["type"].as_str()), (None, Some("heading")));
    let transcript = bot.fake.transcript();
    let message = transcript.visible(bot.chat).next().expect("it stands there");
    let content = message.rich().expect("blocks");
    assert_eq!(content.kinds(), ["heading", "table", "list", "blockquote", "paragraph"]);
    assert_eq!(content.links(), ["https://x.org/"]);
    let seen = "Crew & more\n| Name | Age |\n| Ada | 36 |\n2. two\n   • ☑ done\n> a\n> b\nIt is x_1, see this.";
    assert_eq!((content.text().as_str(), transcript.texts(bot.chat)), (seen, vec![seen]));
}

#[tokio::test]
async fn edit_turns_a_text_into_blocks_and_back() {
    let bot = Bot::start().await;
    let sent = bot.here("sendMessage", json!({ "text": "one" })).await.expect("sent");
    let edit = async |content: Value| {
        let mut parameters = content;
        parameters["message_id"] = sent["message_id"].clone();
        bot.here("editMessageText", parameters).await
    };
    let edited = edit(rich(TABLE)).await.expect("edited");
    assert_eq!((&edited["rich_message"]["blocks"][0]["type"], edited.get("text")), (&json!("table"), None));
    let equal = edit(rich(TABLE)).await.expect_err("nothing changed");
    assert!(equal.contains("message is not modified"), "{equal}");
    let mut both = rich(TABLE);
    both["text"] = json!("a");
    assert_eq!(
        edit(both).await,
        Err("400 Bad Request: exactly one of text and rich message must be specified".to_owned())
    );
    let plain = edit(json!({ "text": "two" })).await.expect("edited");
    assert_eq!((&plain["text"], plain.get("rich_message")), (&json!("two"), None));
}

#[test]
fn what_telegram_does_not_take_is_refused_in_its_words() {
    let unreadable = |reason: &str| format!("can't parse entities: {reason}");
    let nested = |levels: usize| format!("{}a{}", "<blockquote>".repeat(levels), "</blockquote>".repeat(levels));
    let columns = |count: usize| format!("<table><tr>{}</tr></table>", "<td>a</td>".repeat(count));
    for (html, expected) in [
        (String::new(), "RICH_MESSAGE_CONTENT_REQUIRED".to_owned()),
        ("<h1> </h1>".to_owned(), "RICH_MESSAGE_CONTENT_REQUIRED".to_owned()),
        ("<pre><code></code></pre>".to_owned(), "RICH_MESSAGE_CONTENT_REQUIRED".to_owned()),
        ("<p>a</p>".repeat(501), "RICH_MESSAGE_BLOCKS_TOO_MANY".to_owned()),
        (format!("<ul>{}</ul>", "<li>a</li>".repeat(250)), "RICH_MESSAGE_BLOCKS_TOO_MANY".to_owned()),
        (format!("<p>{}</p>", "a".repeat(32_769)), "RICH_MESSAGE_TEXT_TOO_LONG".to_owned()),
        (nested(16), "RICH_MESSAGE_DEPTH_INVALID".to_owned()),
        (columns(21), "RICH_MESSAGE_TABLE_COLS_TOO_MANY".to_owned()),
        ("<p><a href=\"mailto:nobody\">a</a></p>".to_owned(), "RICH_MESSAGE_EMAIL_INVALID".to_owned()),
        ("<p><a href=\"nowhere\">a</a></p>".to_owned(), "RICH_MESSAGE_URL_INVALID".to_owned()),
        ("<p><ul><li>a</li></ul></p>".to_owned(), unreadable("Tag \"ul\" isn't allowed within text")),
        ("<table><tr><td><p>a</p></td></tr></table>".to_owned(), unreadable("Tag \"p\" isn't allowed within text")),
        ("<div>a</div>".to_owned(), unreadable("Unsupported start tag \"div\" at byte offset 0")),
        ("<p>a &copy; b</p>".to_owned(), unreadable("Unsupported entity \"&copy;\"")),
        ("<p>a".to_owned(), unreadable("Can't find end tag corresponding to start tag \"p\"")),
        ("a</b>".to_owned(), unreadable("Unexpected end tag at byte offset 1")),
    ] {
        let refused = parse_rich_html(&html).expect_err(&html).description;
        assert_eq!(refused, format!("Bad Request: {expected}"), "{html}");
    }
    for html in [nested(15), columns(20), format!("<p>{}</p>", "ä".repeat(32_768)), "<p>a</p>".repeat(500)] {
        parse_rich_html(&html).expect("it stays within the limits");
    }
}

#[tokio::test]
async fn older_server_knows_no_rich_messages() {
    let bot = Bot::with(TelegramRules { knows_rich_messages: false, ..TelegramRules::default() }).await;
    let answer = bot.here("sendRichMessage", rich(TABLE)).await;
    assert_eq!(answer, Err("404 Not Found: method not found".to_owned()));
    let sent = bot.here("sendMessage", json!({ "text": "one" })).await.expect("sent");
    let mut edit = rich(TABLE);
    edit["message_id"] = sent["message_id"].clone();
    assert_eq!(bot.here("editMessageText", edit).await, Err("400 Bad Request: message text is empty".to_owned()));
}

#[tokio::test]
async fn rich_message_is_looked_up_and_answered_as_a_text_is() {
    let bot = Bot::start().await;
    let buttons = json!({ "inline_keyboard": [[{ "text": "I can", "callback_data": "/rich on" }]] });
    let mut sample = rich(TABLE);
    sample["reply_markup"] = buttons;
    let sent = bot.here("sendRichMessage", sample).await.expect("sent");
    let id = sent["message_id"].as_i64().expect("an id");
    let looked_up = bot.here("stopMessageLiveLocation", json!({ "message_id": id })).await;
    assert_eq!(looked_up, Err("400 Bad Request: there is no live location in the message to edit".to_owned()));
    bot.fake.person_presses(1001, id, "I can");
    assert_eq!(bot.fake.transcript().chats[&bot.chat].presses[0].label, "I can");
}
