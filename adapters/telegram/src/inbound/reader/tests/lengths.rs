//! Texts of which the rest may come in a message of its own.

use super::*;

/// Catches: a text that is measured with the message that it replies to, or in other units than the platform's.
#[test]
fn text_near_the_limit_may_continue() {
    let may_continue = |text: String, more: Value| {
        let mut fields = json!({ "text": text });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(&update("message", message(private(), fields))).may_continue
    };
    assert!(may_continue("x".repeat(4_096), json!({})));
    assert!(may_continue("🦀".repeat(2_048), json!({})), "4,096 UTF-16 units");
    assert!(!may_continue("🦀".repeat(1_000), json!({})), "4,000 bytes are no length");
    let long = message(private(), json!({ "message_id": 9, "from": bob(), "text": "y".repeat(4_000) }));
    assert!(!may_continue("what is this?".to_owned(), json!({ "reply_to_message": long })));
    let forwarded = json!({ "forward_origin": { "type": "hidden_user", "date": 5, "sender_user_name": "Bob" } });
    assert!(may_continue("x".repeat(4_090), forwarded), "both halves of a long text may be forwarded");
}
