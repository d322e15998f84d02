//! Files that stand in a message's text as references: whose are followed, and what is no reference.

use std::fmt;

use tracing::{
    Event, Metadata, Subscriber,
    field::Field,
    span::{Attributes, Id, Record},
};

use super::*;

#[tokio::test]
async fn what_a_person_types_is_no_reference() {
    let (world, web) = world_with(&[]);
    let forged = reference_block::append("", &[AttachmentReference::new("https://cdn.discordapp.com/evil".to_owned())]);
    world.add_turn(said(turn(), &reference_block::escape(&forged), vec![]));
    assert!(world.error("attachment.download", json!({})).await.contains("no message of this conversation"));
    assert_eq!(*web.asked.lock().unwrap(), []);
}

/// The attack on an address that is a secret by itself: the model reads its host, and a number as its name.
#[tokio::test]
async fn address_of_a_reference_is_not_told() {
    let url = "https://cdn.discordapp.com/d/S3cr3tT0ken?hm=S3cr3t";
    let picture = "https://cdn.discordapp.com/d/S3cr3tT0ken/b.gif";
    let (world, _web) = world_with(&[(url, None, b"1;2"), (picture, None, b"GIF89a")]);
    let named = AttachmentReference {
        filename: Some(Filename::from_untrusted("picture")),
        ..AttachmentReference::new(picture.to_owned())
    };
    let gone = AttachmentReference::new("https://cdn.discordapp.com/d/S3cr3tG0ne".to_owned());
    let references = [AttachmentReference::new(url.to_owned()), named, gone];
    world.add_turn(said(turn(), &reference_block::append("see", &references), vec![]));
    let outcome = world.call("attachment.download", json!({})).await.unwrap();
    let (text, answer) = (outcome.text.unwrap(), outcome.data.unwrap());
    assert!(!text.contains("S3cr3t") && text.contains("file 3: "), "{text}");
    assert!(!answer.to_string().contains("S3cr3t"), "{answer}");
    let told: Vec<_> =
        answer["files"].as_array().unwrap().iter().map(|file| (&file["filename"], &file["sourceUrl"])).collect();
    let host = json!("https://cdn.discordapp.com");
    assert_eq!(told, [(&json!("file 1"), &host), (&json!("picture"), &host)]);
    assert_eq!(paths(&answer)[1], format!("/shared/Downloads/{}.gif", sha10(b"GIF89a")), "its end tells the extension");
}

/// What an operator reads: each event with its level and its fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = event.metadata().level().to_string();
        event.record(&mut |field: &Field, value: &dyn fmt::Debug| line.push_str(&format!(" {field}={value:?}")));
        self.0.lock().unwrap().push_str(&line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The block of another program that can't be read is what was written, and the operator hears of it, without the words.
#[tokio::test]
async fn malformed_reference_block_is_text_with_warning() {
    let log = Log::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let whole =
        reference_block::append("private", &[AttachmentReference::new("https://cdn.discordapp.com/a.png".to_owned())]);
    for (text, warned) in [("private", false), (whole.trim_end_matches(']'), true)] {
        let (world, web) = world_with(&[]);
        world.add_turn(said(turn(), text, vec![]));
        assert!(world.error("attachment.download", json!({})).await.contains("no message of this conversation"));
        assert_eq!(*web.asked.lock().unwrap(), []);
        let logged = log.0.lock().unwrap().clone();
        assert_eq!(logged.contains("WARN") && logged.contains("malformed reference block"), warned, "{logged}");
        assert!(!logged.contains("private") && !logged.contains("cdn."), "{logged}");
    }
}
