//! The text of a completion while it is streamed: put together from the model's messages as the finished reply is, so that
//! both agree.

use satchel_domain::{
    filename::is_visually_empty,
    fold::join_texts,
    markdown::{start_paragraph, trim_blank_edges},
};

/// What was streamed of a reply.
#[derive(Debug, Default)]
pub(super) struct StreamedText {
    /// All that was streamed.
    written: String,
    /// The messages before the one that grows.
    finished: Vec<String>,
    /// The number of the message that grows.
    message: Option<u32>,
    current: String,
    /// How much of it was streamed, without the blank lines before it.
    current_len: usize,
}

impl StreamedText {
    /// Takes what the model has written, and returns what is to be streamed. White space at the end of a message waits for
    /// more, and so does what may repeat the message before: then the reply has it once.
    pub(super) fn push(&mut self, message: u32, delta: &str) -> String {
        let mut new = String::new();
        if self.message != Some(message) {
            new = self.finish_message();
            self.message = Some(message);
        }
        self.current.push_str(delta);
        let current = trim_blank_edges(&self.current);
        let may_repeat = self.current_len == 0 && self.previous().starts_with(current);
        if !is_visually_empty(current) && !may_repeat {
            let more = match self.current_len {
                0 => self.opening(current),
                streamed => current[streamed..].to_owned(),
            };
            self.current_len = current.len();
            self.written.push_str(&more);
            new.push_str(&more);
        }
        new
    }

    /// Returns what remains of the finished reply. Streamed text can't be taken back: where the reply doesn't continue it,
    /// as after a crash or with another model, the rest starts with the message that grew.
    pub(super) fn finish(&self, reply: &str) -> String {
        if let Some(rest) = reply.strip_prefix(&self.written) {
            return rest.to_owned();
        }
        let current = trim_blank_edges(&self.current);
        if self.current_len > 0
            && let Some(rest) = text_after_block_start(reply, current)
        {
            return rest.to_owned();
        }
        let finished = join_texts(self.finished.iter().map(String::as_str));
        let rest = reply.strip_prefix(&finished).unwrap_or(reply);
        match trim_blank_edges(rest) {
            "" => String::new(),
            rest => self.separator() + rest,
        }
    }

    /// Ends a message. Returns what was held back of it.
    fn finish_message(&mut self) -> String {
        self.finished.push(std::mem::take(&mut self.current));
        self.current_len = 0;
        let joined = join_texts(self.finished.iter().map(String::as_str));
        let held_back = joined.strip_prefix(&self.written).unwrap_or_default().to_owned();
        self.written.push_str(&held_back);
        held_back
    }

    /// The last message that says something before the one that grows.
    fn previous(&self) -> &str {
        let previous = self.finished.iter().rev().find(|text| !is_visually_empty(text));
        previous.map_or("", |text| trim_blank_edges(text))
    }

    /// The first of a message, set apart from what was streamed; of one that begins with the message before, what follows.
    fn opening(&self, current: &str) -> String {
        let previous = self.previous();
        let rest = current.strip_prefix(previous).filter(|_| !previous.is_empty() && self.written.ends_with(previous));
        match rest.filter(|rest| is_after_block(rest)) {
            Some(rest) => rest.to_owned(),
            None => self.separator() + current,
        }
    }

    /// What stands between what was streamed and another paragraph.
    fn separator(&self) -> String {
        start_paragraph(&self.written).split_off(self.written.len())
    }
}

/// Whether a text continues with a blank line.
fn is_after_block(rest: &str) -> bool {
    rest.chars().take_while(|c| c.is_whitespace()).filter(|c| *c == '\n').nth(1).is_some()
}

/// The text after the first paragraph that begins so.
fn text_after_block_start<'a>(text: &'a str, block: &str) -> Option<&'a str> {
    let is_start = |at: usize| text[..at].trim_end().is_empty() || text[..at].trim_end_matches(' ').ends_with("\n\n");
    let (at, _) = text.match_indices(block).find(|(at, _)| is_start(*at))?;
    Some(&text[at + block.len()..])
}

#[cfg(test)]
mod tests {
    use satchel_domain::{Ending, fold};

    use super::*;

    /// Streams messages in pieces of so many characters, and then the rest of the reply.
    fn stream(messages: &[&str], size: usize, reply: &str) -> String {
        let mut streamed = StreamedText::default();
        let mut text = String::new();
        for (number, message) in (0..).zip(messages) {
            for delta in message.chars().collect::<Vec<_>>().chunks(size) {
                text.push_str(&streamed.push(number, &delta.iter().collect::<String>()));
            }
        }
        text + &streamed.finish(reply)
    }

    #[test]
    fn stream_agrees_with_the_reply() {
        for messages in [
            &["Hello."][..],
            &["Milk, bread.", "Saved."],
            &["\n Looking… \n", "", "\u{200B}", " Found it.\n\n- a ", "Done.\n"],
            &["Run:\n```sh\nls", "It ran."],
            &["Milk", "Milk\n\nSaved."],
            &["Milk", "Milk", "Milk and bread.", "Mil"],
            &["Let me look…", "Let me look…", "Let me", "Here."],
            &["Milk\nBread", "Milk\nBread and more"],
            &["Milk, bread.", ""],
        ] {
            let texts: Vec<String> = messages.iter().map(|text| (*text).to_owned()).collect();
            let reply = fold::with_interim_texts(fold::fold(&texts, &[], &Ending::Done), &texts).text.unwrap();
            let with_link = format!("{reply}\n\n[a](b)");
            for size in [1, 2, 3, 100] {
                assert_eq!(stream(messages, size, &reply), reply, "{messages:?} by {size}");
                assert_eq!(stream(messages, size, &with_link), with_link, "{messages:?} by {size}");
            }
        }
    }

    #[test]
    fn white_space_is_not_written_twice() {
        for written in ["Hello. ", "\nHello. ", "Hello.\n\n"] {
            assert_eq!(stream(&[written], 1, "Hello.\n\n[a](b)"), "Hello.\n\n[a](b)", "{written:?}");
        }
        assert_eq!(stream(&[], 1, "Hello."), "Hello.");
        assert_eq!(stream(&["Hi"], 1, "Hello."), "Hi\n\nHello.", "another reply follows as a whole");
        assert_eq!(stream(&["Hi"], 1, ""), "Hi");
    }

    /// Streamed text stays, and no part of the message that grew is streamed again.
    #[test]
    fn reply_that_differs_follows_from_the_last_message() {
        for (messages, reply, expected) in [
            // The last message has the first one in its middle, or the reply is the last text alone.
            (
                &["Milk", "Looking…", "Here:\n\nMilk"][..],
                "Looking…\n\nHere:\n\nMilk\n\n[a](b)",
                "Milk\n\nLooking…\n\nHere:\n\nMilk\n\n[a](b)",
            ),
            (&["Let me look.", "Hel"][..], "Hello.", "Let me look.\n\nHello."),
            // After a crash the model has started the message again.
            (&["Milk", "SavSaved."][..], "Milk\n\nSaved.", "Milk\n\nSavSaved.\n\nSaved."),
        ] {
            assert_eq!(stream(messages, 2, reply), expected);
        }
    }
}
