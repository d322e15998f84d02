//! What of an edited message counts as edited.

use super::*;

/// Catches: an update that is taken for an edit because the message that is answered was edited, its author may talk by now, or the
/// process no longer knows which item of the album came first.
#[test]
fn only_what_the_sender_wrote_makes_an_edit() {
    let digest = |kind: &str, more: Value| read(&update(kind, message(private(), more))).content_digest;
    let answering = |quoted: &str| {
        let replied = json!({ "message_id": 3, "date": 1, "chat": private(), "from": bob(), "text": quoted });
        json!({ "photo": photo(), "caption": "like this?", "reply_to_message": replied, "media_group_id": "1" })
    };
    let original = digest("message", answering("my plan"));
    assert!(original.is_some());
    let mut edits = [answering("our plan"), answering("my plan")];
    edits[1].as_object_mut().unwrap().remove("reply_to_message");
    for mut edit in edits {
        edit["edit_date"] = json!(1_700_000_060);
        edit["sender_tag"] = json!("Cook");
        edit["photo"][1]["file_id"] = json!("the same one");
        assert_eq!(digest("edited_message", edit), original);
    }
    let mut replaced = answering("my plan");
    replaced["photo"][1]["file_unique_id"] = json!("another one");
    assert_ne!(digest("edited_message", replaced), original);
}
