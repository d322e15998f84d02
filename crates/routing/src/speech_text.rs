//! Markdown as words that can be listened to. Pure.

use std::borrow::Cow;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The longest words that are spoken at once, in characters: some five minutes.
const LONGEST: usize = 4_000;

/// What is said instead of a block of code.
const CODE: &str = "(code)";

/// What is said where a long text ends early; the whole of it is there to be read.
const READ_ON: &str = "The rest is in the text message.";

/// The words as they are spoken: without marks, code and addresses. Long ones are cut at the end of a sentence if they
/// can be read too.
///
/// # Errors
/// When they are too long and stand nowhere else, in words for the person.
pub(crate) fn to_speech_text(words: &str, in_text: bool) -> Result<String, String> {
    let spoken = strip_markdown(words);
    match spoken.chars().count() {
        length if length <= LONGEST => Ok(spoken),
        _ if in_text => Ok(format!("{} {READ_ON}", truncate_at_sentence(&spoken))),
        // The pauses that were put in don't count.
        _ if words.chars().count() <= LONGEST => Ok(spoken),
        length => Err(format!("the text has {length} characters, the limit for one voice message is {LONGEST}")),
    }
}

fn strip_markdown(words: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut spoken = SpeechText::default();
    for event in Parser::new_ext(words, options) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => {
                spoken.push(CODE);
                spoken.muted = true;
            }
            Event::End(TagEnd::CodeBlock) => {
                spoken.muted = false;
                spoken.end_sentence();
            }
            Event::Text(text) | Event::Code(text) => spoken.push(&text),
            Event::SoftBreak => spoken.push(" "),
            Event::HardBreak | Event::Rule => spoken.end_sentence(),
            Event::End(TagEnd::TableCell) => spoken.push(", "),
            Event::End(
                TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableRow | TagEnd::TableHead,
            ) => spoken.end_sentence(),
            _ => {}
        }
    }
    let spoken = spoken.text.lines().map(str::trim).filter(|line| !line.is_empty());
    let spoken = spoken.map(|line| line.split(' ').map(shorten_url).collect::<Vec<_>>().join(" "));
    let spoken = spoken.collect::<Vec<_>>().join("\n");
    // What consists of marks alone is spoken as it stands.
    if spoken.is_empty() { words.trim().to_owned() } else { spoken }
}

#[derive(Default)]
struct SpeechText {
    text: String,
    muted: bool,
}

impl SpeechText {
    fn push(&mut self, words: &str) {
        if !self.muted {
            self.text.push_str(words);
        }
    }

    /// Ends what was said like a sentence, so that an engine pauses there.
    fn end_sentence(&mut self) {
        let kept = self.text.trim_end_matches([' ', ',']).len();
        self.text.truncate(kept);
        match self.text.chars().last() {
            None | Some('\n') => return,
            Some(last) if last.is_alphanumeric() || matches!(last, ')' | '"' | '»' | '”') => self.text.push('.'),
            Some(_) => {}
        }
        self.text.push('\n');
    }
}

/// A word, or of an address only whose it is.
fn shorten_url(word: &str) -> Cow<'_, str> {
    let Some(start) = word.find("https://").or_else(|| word.find("http://")) else { return word.into() };
    let address = word[start..].split_once("://").map_or("", |(_, address)| address);
    let host = address.split(['/', '?', '#', ')']).next().unwrap_or_default();
    let host = host.strip_prefix("www.").unwrap_or(host).trim_end_matches(ENDS);
    let end = &word[word.trim_end_matches(ENDS).len()..];
    format!("{}{host}{end}", &word[..start]).into()
}

/// What ends a sentence or a part of it.
const ENDS: [char; 6] = ['.', ',', ':', ';', '!', '?'];

/// As many whole sentences as are spoken at once; of one endless sentence as many words.
fn truncate_at_sentence(spoken: &str) -> &str {
    let most = spoken.char_indices().nth(LONGEST - READ_ON.len() - 1).map_or(spoken, |(at, _)| &spoken[..at]);
    let is_end = |(at, c): &(usize, char)| {
        let next = spoken[at + c.len_utf8()..].chars().next();
        *c == '\n'
            || (matches!(c, '.' | '!' | '?' | '…') && next.is_none_or(char::is_whitespace))
            || "。！？".contains(*c)
    };
    let after = |(at, c): (usize, char)| at + c.len_utf8();
    let sentence = most.char_indices().rev().find(is_end).map(after);
    let word = || most.char_indices().rev().find(|(_, c)| c.is_whitespace()).map(after);
    most[..sentence.or_else(word).unwrap_or(most.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("Good night.", "Good night.")]
    #[case::marks("**Bring** _bread_ and ~~milk~~ `now`", "Bring bread and milk now.")]
    #[case::blocks(
        "# Today\n\nFirst\nsecond\n\n- bread\n- milk!\n\n1. go",
        "Today.\nFirst second.\nbread.\nmilk!\ngo."
    )]
    #[case::code("Run this:\n\n```sh\nrm -rf /tmp/x\n```\n\nThen wait", "Run this:\n(code).\nThen wait.")]
    #[case::only_code("```\nx\n```", "(code).")]
    #[case::links("See [the page](https://a.example/x?y=z) ![a cat](c.png)", "See the page a cat.")]
    #[case::addresses("At https://www.example.org/long?x=1, or <http://b.example/>.", "At example.org, or b.example.")]
    #[case::table("| a | b |\n|---|---|\n| 1 | 2 |", "a, b.\n1, 2.")]
    #[case::tasks("- [x] done\n- [ ] open", "done.\nopen.")]
    #[case::html("<b>bold</b> words", "bold words.")]
    #[case::marks_alone("***", "***")]
    #[case::other_scripts("## Привет\n\nКак дела?\n\n日本。", "Привет.\nКак дела?\n日本。")]
    fn markdown_becomes_words(#[case] markdown: &str, #[case] spoken: &str) {
        assert_eq!(to_speech_text(markdown, true).unwrap(), spoken);
    }

    #[test]
    fn long_speech_ends_at_sentence_and_mentions_rest() {
        let long = "Это предложение. ".repeat(400);
        let spoken = to_speech_text(&long, true).unwrap();
        assert!(spoken.ends_with("предложение. The rest is in the text message."), "{spoken}");
        assert!(spoken.chars().count() <= LONGEST && spoken.chars().count() > LONGEST - 60);
        let endless = to_speech_text(&"word ".repeat(2_000), true).unwrap();
        assert!(endless.ends_with("word The rest is in the text message."), "{endless}");
        assert!(to_speech_text(&"ы".repeat(9_000), true).unwrap().chars().count() <= LONGEST);
    }

    #[test]
    fn words_that_stand_nowhere_else_are_never_cut() {
        let refused = to_speech_text(&"ы".repeat(4_001), false);
        assert_eq!(refused, Err("the text has 4002 characters, the limit for one voice message is 4000".to_owned()));
        assert_eq!(to_speech_text(&"ы".repeat(4_000), false).map(|words| words.chars().count()), Ok(4_001));
    }

    proptest! {
        #[test]
        fn any_text_is_spoken_within_the_limit(text in "([\\PC\n`*_#|>\\[\\]() ]{0,80}[a-zа-я. ]{0,40}){0,120}") {
            let spoken = to_speech_text(&text, true).unwrap();
            prop_assert!(spoken.chars().count() <= LONGEST);
            prop_assert_eq!(spoken.trim().is_empty(), text.trim().is_empty());
        }
    }
}
