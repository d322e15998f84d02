//! Converts Markdown to text for speech synthesis. Pure.

use std::borrow::Cow;

use satchel_markup::{Block, BlockKind, Document, Inline, InlineKind, TableRow, TexFormula};

/// The longest text of one voice message, in characters: about five minutes.
const MAX_SPEECH_CHARS: usize = 4_000;

/// The replacements for a code block, for a formula that plain characters can't say, and for what is hidden until it is
/// pressed.
const CODE_TEXT: &str = "(code)";
const FORMULA_TEXT: &str = "(formula)";
const SPOILER_TEXT: &str = "(hidden)";

/// The sentence that ends a truncated voice message.
const TRUNCATION_NOTE: &str = "The rest is in the text message.";

/// The words as they are spoken: without marks, code and addresses. Long ones are cut at the end of a sentence if they
/// can be read too.
///
/// # Errors
/// When they are too long and stand nowhere else, in words for the person.
pub(crate) fn to_speech_text(markdown: &str, in_text: bool) -> Result<String, String> {
    let speech = strip_markdown(markdown, in_text);
    match speech.chars().count() {
        length if length <= MAX_SPEECH_CHARS => Ok(speech),
        _ if in_text => Ok(format!("{} {TRUNCATION_NOTE}", truncate_at_sentence(&speech))),
        // The pauses that were put in don't count.
        _ if markdown.chars().count() <= MAX_SPEECH_CHARS => Ok(speech),
        length => {
            Err(format!("the text has {length} characters, the limit for one voice message is {MAX_SPEECH_CHARS}"))
        }
    }
}

fn strip_markdown(markdown: &str, in_text: bool) -> String {
    let mut speech = SpeechText { text: String::new(), in_text };
    speech.push_blocks(&Document::parse(markdown).blocks);
    let lines = speech.text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| line.split(' ').map(shorten_url).collect::<Vec<_>>().join(" "));
    let speech = lines.collect::<Vec<_>>().join("\n");
    // What consists of marks alone is spoken as it stands.
    if speech.is_empty() { markdown.trim().to_owned() } else { speech }
}

struct SpeechText {
    text: String,
    /// Whether it can be read too.
    in_text: bool,
}

impl SpeechText {
    fn push_blocks(&mut self, blocks: &[Block<'_>]) {
        for block in blocks {
            self.push_block(block);
        }
    }

    fn push_block(&mut self, block: &Block<'_>) {
        match &block.kind {
            BlockKind::Paragraph(content) | BlockKind::Heading { content, .. } | BlockKind::Html(content) => {
                self.push_inlines(content);
            }
            BlockKind::Quote { blocks, .. } | BlockKind::Footnote { blocks, .. } => self.push_blocks(blocks),
            BlockKind::List(items) => {
                for item in items {
                    self.push_blocks(&item.blocks);
                }
            }
            BlockKind::Code(_) => self.text.push_str(CODE_TEXT),
            BlockKind::Table(table) => {
                for row in [&table.head].into_iter().chain(&table.rows) {
                    self.push_row(row);
                }
            }
            BlockKind::Formula(formula) => self.push_formula(formula),
            BlockKind::Rule => {}
        }
        self.end_sentence();
    }

    fn push_row(&mut self, row: &TableRow<'_>) {
        for cell in &row.cells {
            self.push_inlines(&cell.content);
            self.text.push_str(", ");
        }
        self.end_sentence();
    }

    fn push_inlines(&mut self, content: &[Inline<'_>]) {
        for inline in content {
            match &inline.kind {
                InlineKind::Text(text) => self.push_without_tags(text),
                InlineKind::Code(code) => self.text.push_str(code),
                InlineKind::Emphasis(content)
                | InlineKind::Strong(content)
                | InlineKind::Struck(content)
                | InlineKind::Link { content, .. }
                | InlineKind::Image { content, .. } => self.push_inlines(content),
                // A listener can't choose to hear it, but can read it.
                InlineKind::Spoiler(_) if self.in_text => self.text.push_str(SPOILER_TEXT),
                InlineKind::Spoiler(content) => self.push_inlines(content),
                InlineKind::Address { text, .. } => self.text.push_str(text),
                InlineKind::Formula(formula) => self.push_formula(formula),
                InlineKind::Break { is_hard: true } => self.end_sentence(),
                InlineKind::Break { is_hard: false } => self.text.push(' '),
                InlineKind::FootnoteReference(_) => {}
            }
        }
    }

    fn push_formula(&mut self, formula: &TexFormula<'_>) {
        self.text.push_str(formula.unicode.as_deref().unwrap_or(FORMULA_TEXT));
    }

    /// Adds a text without the tags of HTML in it.
    fn push_without_tags(&mut self, text: &str) {
        let mut rest = text;
        while let Some((before, tag)) = rest.split_once('<') {
            self.text.push_str(before);
            let end = tag.find(['<', '>']).filter(|end| is_tag(&tag[..*end]) && tag[*end..].starts_with('>'));
            if end.is_none() {
                self.text.push('<');
            }
            rest = end.map_or(tag, |end| &tag[end + 1..]);
        }
        self.text.push_str(rest);
    }

    /// Ends what was said like a sentence, so that an engine pauses there.
    fn end_sentence(&mut self) {
        let trimmed_len = self.text.trim_end_matches([' ', ',']).len();
        self.text.truncate(trimmed_len);
        match self.text.chars().last() {
            None | Some('\n') => return,
            Some(last) if last.is_alphanumeric() || matches!(last, ')' | '"' | '»' | '”') => self.text.push('.'),
            Some(_) => {}
        }
        self.text.push('\n');
    }
}

/// Whether what is between `<` and `>` is a tag or a comment.
fn is_tag(inside: &str) -> bool {
    let name = inside.trim_start_matches('/');
    let behind = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-');
    inside.starts_with("!--")
        || (name.starts_with(|first: char| first.is_ascii_alphabetic())
            && (behind.is_empty() || behind.starts_with([' ', '/', '\t'])))
}

/// A word, or of an address only whose it is.
fn shorten_url(word: &str) -> Cow<'_, str> {
    let Some(start) = word.find("https://").or_else(|| word.find("http://")) else { return word.into() };
    let address = word[start..].split_once("://").map_or("", |(_, address)| address);
    let host = address.split(['/', '?', '#', ')']).next().unwrap_or_default();
    let host = host.strip_prefix("www.").unwrap_or(host).trim_end_matches(TRAILING_PUNCTUATION);
    let end = &word[word.trim_end_matches(TRAILING_PUNCTUATION).len()..];
    format!("{}{host}{end}", &word[..start]).into()
}

/// What ends a sentence or a part of it.
const TRAILING_PUNCTUATION: [char; 6] = ['.', ',', ':', ';', '!', '?'];

/// As many whole sentences as are spoken at once; of one endless sentence as many words.
fn truncate_at_sentence(speech: &str) -> &str {
    let prefix =
        speech.char_indices().nth(MAX_SPEECH_CHARS - TRUNCATION_NOTE.len() - 1).map_or(speech, |(at, _)| &speech[..at]);
    let is_end = |(at, c): &(usize, char)| {
        let next = speech[at + c.len_utf8()..].chars().next();
        *c == '\n'
            || (matches!(c, '.' | '!' | '?' | '…') && next.is_none_or(char::is_whitespace))
            || "。！？".contains(*c)
    };
    let end_of = |(at, c): (usize, char)| at + c.len_utf8();
    let sentence_end = prefix.char_indices().rev().find(is_end).map(end_of);
    let word_end = || prefix.char_indices().rev().find(|(_, c)| c.is_whitespace()).map(end_of);
    prefix[..sentence_end.or_else(word_end).unwrap_or(prefix.len())].trim_end()
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
    #[case::sums("So \\( x_1 \\leq 2*3 \\) and `__init__.py`", "So x₁ ≤ 2∗3 and __init__.py.")]
    #[case::no_tags("1 < 2 and a<b, i.e. x > y", "1 < 2 and a<b, i.e. x > y.")]
    #[case::html_lines("<div>\nA note\n</div>", "A note.")]
    #[case::products("2*3*4 = 24, src/*.py and __init__.py", "2*3*4 = 24, src/*.py and __init__.py.")]
    #[case::formula("So \\[ \\begin{pmatrix} a & b \\end{pmatrix} \\] holds", "So (formula) holds.")]
    #[case::spoiler("It was ||the *butler*||", "It was (hidden).")]
    #[case::footnotes("Bread[^1]\n\n[^1]: Of yesterday", "Bread.\nOf yesterday.")]
    #[case::cells_beyond_headings("| a | b |\n|---|---|\n| 1 | 2 | 3 |", "a, b.\n1, 2, 3.")]
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
        assert!(spoken.chars().count() <= MAX_SPEECH_CHARS && spoken.chars().count() > MAX_SPEECH_CHARS - 60);
        let endless = to_speech_text(&"word ".repeat(2_000), true).unwrap();
        assert!(endless.ends_with("word The rest is in the text message."), "{endless}");
        assert!(to_speech_text(&"ы".repeat(9_000), true).unwrap().chars().count() <= MAX_SPEECH_CHARS);
    }

    #[test]
    fn words_that_stand_nowhere_else_are_never_cut() {
        let refused = to_speech_text(&"ы".repeat(4_001), false);
        assert_eq!(refused, Err("the text has 4002 characters, the limit for one voice message is 4000".to_owned()));
        assert_eq!(to_speech_text(&"ы".repeat(4_000), false).map(|words| words.chars().count()), Ok(4_001));
        assert_eq!(to_speech_text("It was ||the butler||", false), Ok("It was the butler.".to_owned()));
    }

    proptest! {
        #[test]
        fn any_text_is_spoken_within_the_limit(text in "([\\PC\n`*_#|>\\[\\]() ]{0,80}[a-zа-я. ]{0,40}){0,120}") {
            let spoken = to_speech_text(&text, true).unwrap();
            prop_assert!(spoken.chars().count() <= MAX_SPEECH_CHARS);
            prop_assert_eq!(spoken.trim().is_empty(), text.trim().is_empty());
        }
    }
}
