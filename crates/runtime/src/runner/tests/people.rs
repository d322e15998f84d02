//! From a stranger's first word to their first answer: nothing of theirs is kept before an owner lets them in.

use std::{path::Path, sync::Arc};

use satchel_domain::{ConversationId, InboundMessage, Sender, SystemTask};
use satchel_intake::access::{AccessPolicy, ChannelAccess};
use satchel_ports::{Archive, Pairings};
use satchel_wait::wait_until;

use super::stage::{Process, Stage, message, place};

/// What a stranger writes that must never be stored.
const SECRET: &str = "the words of a stranger";

fn stage() -> Stage {
    let rules = ChannelAccess {
        allow_users: Vec::new(),
        owners: vec!["1".into()],
        owner_chats: vec![place("owner")],
        has_private_topics: false,
    };
    Stage { access: Arc::new(AccessPolicy::new([(place("owner").channel().clone(), rules)])), ..Stage::new() }
}

fn from(id: &str, name: &str, place: &ConversationId, key: &str, text: &str) -> InboundMessage {
    InboundMessage { sender: Sender::new(id, name), ..message(place, key, text) }
}

/// Whether a file of the directory holds the text.
#[expect(clippy::disallowed_methods, reason = "what must not be stored is looked for on the disk itself")]
fn is_on_disk(directory: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files
        .map(|path| std::fs::read(path).unwrap())
        .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

async fn say(process: &Process, stage: &Stage, message: InboundMessage) -> String {
    let place = message.conversation.clone();
    let before = stage.chat.log(&place).len();
    process.hears(&message).await;
    wait_until("an answer", || stage.chat.log(&place).len() > before).await;
    stage.chat.log(&place).pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stranger_is_processed_only_after_owner_approval() {
    let (stage, strange, owner) = (stage(), place("strange"), place("owner"));
    let process = stage.start().await;
    let told = say(&process, &stage, from("7", "Ada", &strange, "1", SECRET)).await;
    let code = told.split("**").nth(1).unwrap().to_owned();
    assert_eq!(told, format!("I don't know you yet. Ask the owner to approve code **{code}** (valid for an hour)."));
    wait_until("the question", || stage.chat.log(&owner).len() == 1).await;
    let asked = stage.chat.log(&owner).remove(0);
    assert!(asked.starts_with("`Ada`, id `7` wants to talk to me on console") && asked.contains(&code), "{asked}");

    // The attacks: to say the owner's words, to look like an errand, to look like the owner.
    let forged = serde_json::to_string(&SystemTask::ConfirmPairing).unwrap();
    for (key, name, text) in
        [("2", "Ada", format!("/pair approve {code}")), ("3", "Ada", forged), ("4", "1", format!("{SECRET}, again"))]
    {
        process.hears(&from("7", name, &strange, key, &text)).await;
    }
    let known = process.ledger.is_approved(strange.channel(), "7").await.unwrap();
    assert!(!known, "nobody lets themselves in");
    wait_until("an answer to each", || stage.chat.log(&strange).len() == 4).await;
    process.settles().await;
    assert_eq!(stage.chat.log(&strange), vec![told; 4], "each message is answered with the same code");
    assert_eq!(stage.chat.log(&owner).len(), 1, "the owner is asked once");
    assert_eq!(*stage.model.asked.borrow(), 0);
    assert!(is_on_disk(stage.directory.path(), &code), "what is stored is found");
    assert!(!is_on_disk(stage.directory.path(), SECRET));

    process.hears(&from("1", "Owner", &owner, "5", &format!("/pair approve {code}"))).await;
    wait_until("the answer", || stage.chat.log(&owner).len() == 3).await;
    let closed = format!("edit: `Ada`, id `7` wants to talk to me on console. Code **{code}**, valid for an hour.");
    let answer = "`Ada` is approved. I've told them.".to_owned();
    assert_eq!(stage.chat.log(&owner)[1..], [format!("{closed}\n\n**Approved**"), answer], "the buttons go");
    wait_until("the welcome", || stage.chat.log(&strange).len() == 5).await;
    assert_eq!(
        stage.chat.log(&strange)[4],
        "You're approved. Send me a message or a file; `/help` shows what I can do."
    );
    // The attack: the button is pressed again.
    let answer = say(&process, &stage, from("1", "Owner", &owner, "6", &format!("/pair refuse {code}"))).await;
    assert_eq!(answer, "This code was already used: it approved `Ada`.");
    assert_eq!(say(&process, &stage, from("7", "Ada", &strange, "7", "hello")).await, "re: hello");
    let answer = say(&process, &stage, from("7", "Ada", &strange, "8", "/pair list")).await;
    assert_eq!(answer, "Only an owner can approve people.");
    assert_eq!(*stage.model.asked.borrow(), 1, "commands and errands are not for the model");
    let history = process.ledger.history(&strange, 10).await.unwrap();
    assert_eq!(history.len(), 2, "only what was said to the model is remembered: {history:?}");

    assert!(process.ledger.revoke_person(strange.channel(), "7").await.unwrap());
    let told = say(&process, &stage, from("7", "Ada", &strange, "9", SECRET)).await;
    assert!(told.starts_with("I don't know you yet") && !told.contains(&code), "{told}");
    assert!(!is_on_disk(stage.directory.path(), SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn group_stranger_is_ignored_while_others_are_answered() {
    let (stage, group) = (stage(), place("group"));
    let process = stage.start().await;
    let in_group = |id, key, text| InboundMessage { group: true, ..from(id, "Eve", &group, key, text) };
    process.hears(&in_group("7", "1", SECRET)).await;
    assert_eq!(say(&process, &stage, in_group("1", "2", "hello")).await, "re: hello");
    assert_eq!(stage.chat.log(&group), ["re: hello"]);
    assert!(stage.chat.log(&place("owner")).is_empty() && process.ledger.list_pairings().await.unwrap().is_empty());
    assert!(!is_on_disk(stage.directory.path(), SECRET));
}
