//! What is sent to a topic of a private chat, and to one that was closed or deleted meanwhile.

use satchel_domain::Button;
use satchel_fake_kit::{Fault, FaultTiming, RequestPhase};
use satchel_fake_telegram::{ApiRefusal, PersonMessage, TelegramMessage};

use super::*;

struct TopicHarness {
    stage: OutboundHarness,
    forum: i64,
    topic: i64,
    /// What a person has written in the topic.
    said: i64,
}

impl TopicHarness {
    async fn new() -> Self {
        let stage = OutboundHarness::new().await;
        let forum = stage.telegram.forum("Family", &[stage.chat]);
        let topic = stage.telegram.topic(forum, "Taxes");
        let said =
            stage.telegram.person_sends(forum, stage.chat, PersonMessage::text("@satchel_fake_bot?").in_topic(topic));
        Self { stage, forum, topic, said }
    }

    /// The same in a private chat.
    async fn private() -> Self {
        let stage = OutboundHarness::new().await;
        stage.telegram.enable_private_topics();
        let (chat, topic) = (stage.chat, stage.telegram.private_topic(stage.chat, "Taxes"));
        let said = stage.telegram.person_sends(chat, chat, PersonMessage::text("hello").in_topic(topic));
        Self { stage, forum: chat, topic, said }
    }

    /// A part of a reply to the person's message.
    fn reply(&self, content: PartContent) -> PostRequest {
        PostRequest {
            conversation: conversation(&format!("{}/{}", self.forum, self.topic)),
            reply_to: Some(MessageRef(self.said.to_string())),
            ..self.stage.part(content)
        }
    }

    /// One part of each kind.
    async fn parts(&self) -> Vec<PostRequest> {
        let stage = &self.stage;
        let item = stage.item(&photo(1), FileForm::Photo).await;
        let buttons = vec![Button { label: "Allow".to_owned(), command: "/allow 7".to_owned() }];
        let contents = [
            text("hello"),
            PartContent::Notice { text: "0 of 1 file sent".to_owned() },
            PartContent::question("May I?", buttons),
            stage.voice(false).await,
            PartContent::File(item.clone()),
            PartContent::Album { items: vec![item, stage.item(&photo(2), FileForm::Photo).await] },
        ];
        contents.into_iter().map(|content| self.reply(content)).collect()
    }

    /// The bot's messages in the forum.
    fn sent(&self) -> Vec<TelegramMessage> {
        self.stage.telegram.transcript().visible(self.forum).cloned().collect()
    }
}

/// Catches: a reply and its notice that vanish, because every send to a topic that is gone is refused.
#[tokio::test]
async fn every_part_for_a_deleted_topic_goes_to_its_chat() {
    let harness = TopicHarness::new().await;
    harness.stage.telegram.delete_topic(harness.forum, harness.topic);
    for part in harness.parts().await {
        let (calls, before) = (harness.stage.telegram.calls().len(), harness.sent().len());
        let sent = harness.stage.channel.post(&part).await.unwrap();
        let arrived = harness.sent().split_off(before);
        assert_eq!(arrived.iter().map(|message| message.id.to_string()).collect::<Vec<_>>(), ids(&sent));
        assert!(arrived.iter().all(|message| message.thread.is_none()), "{:?}", part.content);
        let calls = harness.stage.telegram.calls().split_off(calls);
        let calls: Vec<_> = calls.iter().filter(|call| call.method != "sendchataction").collect();
        let [refused, outside] = calls.as_slice() else { panic!("it is sent once outside: {calls:?}") };
        assert!(refused.parameters.contains_key("message_thread_id"));
        assert!(!outside.parameters.contains_key("message_thread_id"));
        let answers = outside.parameters["reply_parameters"].to_string();
        assert!(answers.contains(&harness.said.to_string()) && answers.contains("allow_sending_without_reply"));
    }
}

#[tokio::test]
async fn every_part_for_a_closed_topic_goes_to_its_chat() {
    let harness = TopicHarness::new().await;
    harness.stage.telegram.close_topic(harness.forum, harness.topic);
    for part in harness.parts().await {
        let before = harness.sent().len();
        let sent = harness.stage.channel.post(&part).await.unwrap();
        let arrived = harness.sent().split_off(before);
        assert_eq!(arrived.iter().map(|message| message.id.to_string()).collect::<Vec<_>>(), ids(&sent));
        let threads: Vec<_> = arrived.iter().map(|message| (message.thread, message.reply_to)).collect();
        assert!(threads.iter().all(|place| *place == (None, None)), "a reply would go to the topic: {threads:?}");
    }
    harness.stage.telegram.reopen_topic(harness.forum, harness.topic);
    harness.stage.channel.post(&harness.reply(text("again"))).await.unwrap();
    assert_eq!(harness.sent().last().unwrap().thread, Some(harness.topic), "it is tried again each time");
}

/// Catches: a reply, a file or a sign of activity that a person looks for in vain in the topic of their chat.
#[tokio::test]
async fn every_part_goes_to_its_topic_of_a_private_chat_until_that_is_deleted() {
    let harness = TopicHarness::private().await;
    let (stage, topic) = (&harness.stage, harness.topic);
    let shown = stage.telegram.on_nth("sendChatAction", 1, RequestPhase::Performed);
    let conversation = conversation(&format!("{}/{topic}", stage.chat));
    stage.channel.show_activity(&conversation, satchel_ports::Activity::Writing).await;
    shown.await.unwrap();
    for part in harness.parts().await {
        stage.channel.post(&part).await.unwrap();
    }
    let places: Vec<_> = harness.sent().iter().map(|message| (message.thread, message.reply_to)).collect();
    assert_eq!(places, vec![(Some(topic), Some(harness.said)); 7]);
    let calls = stage.telegram.calls();
    let mut actions = calls.iter().filter(|call| call.method == "sendchataction").peekable();
    assert!(actions.peek().is_some());
    assert!(actions.all(|action| action.parameters["message_thread_id"] == topic));

    stage.telegram.delete_topic(stage.chat, topic);
    for part in harness.parts().await {
        stage.channel.post(&part).await.unwrap();
    }
    let places: Vec<_> = harness.sent().iter().map(|message| (message.thread, message.reply_to)).collect();
    assert_eq!(places, vec![(None, None); 7], "they are read in the chat");
}

/// Telegram may find the topic by the message in it while the Bot API's server doesn't find it by its number.
#[tokio::test]
async fn reply_reaches_a_topic_that_the_server_does_not_find() {
    let harness = TopicHarness::new().await;
    let refusal = ApiRefusal::new(400, "Bad Request: message thread not found");
    harness.stage.telegram.script_next("sendMessage", refusal);
    harness.stage.channel.post(&harness.reply(text("hello"))).await.unwrap();
    let sent = harness.sent().remove(0);
    assert_eq!((sent.thread, sent.reply_to), (Some(harness.topic), Some(harness.said)));
}

#[tokio::test]
async fn send_without_a_reply_is_repeated_once() {
    let harness = TopicHarness::new().await;
    harness.stage.telegram.delete_topic(harness.forum, harness.topic);
    let reminder = PostRequest { reply_to: None, ..harness.reply(text("water the plants")) };
    harness.stage.channel.post(&reminder).await.unwrap();
    assert_eq!(harness.stage.telegram.transcript().texts(harness.forum), ["water the plants"]);
    assert_eq!(harness.stage.telegram.requests("sendMessage"), 2);

    let refusal = ApiRefusal::new(400, "Bad Request: TOPIC_CLOSED");
    harness.stage.telegram.script("sendMessage", FaultTiming::From(3), refusal);
    let closed = SendError::Forbidden { reason: "the topic is closed".to_owned() };
    assert_eq!(harness.stage.channel.post(&reminder).await, Err(closed.clone()), "the general topic may be closed too");
    assert_eq!(harness.stage.telegram.requests("sendMessage"), 4);
    let general = PostRequest {
        conversation: conversation(&harness.forum.to_string()),
        ..harness.reply(text("there is no topic to leave"))
    };
    assert_eq!(harness.stage.channel.post(&general).await, Err(closed));
    assert_eq!(harness.stage.telegram.requests("sendMessage"), 5);
}

#[tokio::test]
async fn doubt_outside_a_deleted_topic_is_doubt() {
    let harness = TopicHarness::new().await;
    harness.stage.telegram.delete_topic(harness.forum, harness.topic);
    harness.stage.telegram.script("sendMessage", FaultTiming::Nth(2), Fault::AcceptAndDrop);
    let answer = harness.stage.channel.post(&harness.reply(text("hello"))).await;
    assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
}

#[tokio::test]
async fn streamed_reply_of_a_deleted_topic_goes_on_in_its_chat() {
    let harness = TopicHarness::new().await;
    let in_topic = harness.stage.channel.post(&harness.reply(text("The first"))).await.unwrap();
    harness.stage.telegram.delete_topic(harness.forum, harness.topic);
    let whole = harness.reply(text("The first half and the second"));
    let edited = harness.stage.channel.edit(&in_topic[0], &whole).await;
    let refusal = satchel_domain::delivery::Refusal::TargetGone;
    assert!(matches!(&edited, Err(SendError::Refused { refusal: found, .. }) if *found == refusal), "{edited:?}");

    let outside = harness.stage.channel.post(&harness.reply(text("The first"))).await.unwrap();
    harness.stage.channel.edit(&outside[0], &whole).await.unwrap();
    assert_eq!(harness.stage.telegram.transcript().texts(harness.forum), ["The first half and the second"]);
}

fn ids(messages: &[MessageRef]) -> Vec<String> {
    messages.iter().map(|message| message.0.clone()).collect()
}
