//! The command `/find`: the files of this conversation with a name, and what was said here and by whom.

mod speaker;

use std::fmt::Write;

use satchel_calendar::Zone;
use satchel_domain::{Attachment, OutgoingResponse, Visibility, filename::to_inline_code, markdown};
use satchel_ports::{
    Ledger, LedgerError,
    ledger::{AttachmentQuery, ConversationSearch, ExcerptPiece, SearchHit, SearchTerms},
};

use self::speaker::find_speaker;
use super::files::{MAX_NAME_CHARS, describe_file, find_named};
use crate::pairing::CommandContext;

/// How many matches a page has.
const PAGE_SIZE: usize = 8;

/// The last page; whoever looks further needs another word.
const MAX_PAGE: usize = 20;

/// How many files are named above the matches, and of each of them.
const MAX_FILES: usize = 6;

const FIND_HELP: &str = "\
What shall I look for? `/find rent contract` finds files, messages and replies of this conversation that have both words; the \
first two letters of a word are enough.";

/// What stands behind `/find`, or behind `/files` to list those with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindCommand {
    pub(super) text: String,
    /// Which page of the matches, from 1.
    pub(super) page: usize,
}

impl FindCommand {
    /// Reads the words, and the page behind them: `/find rent /2`.
    pub(super) fn parse(text: &str) -> Self {
        let page_of = |word: &str| word.strip_prefix('/')?.parse().ok().filter(|page| *page > 0);
        match text.rsplit_once(char::is_whitespace) {
            Some((text, last)) if page_of(last).is_some() => {
                Self { text: text.trim().to_owned(), page: page_of(last).unwrap_or(1) }
            }
            _ => Self { text: text.to_owned(), page: 1 },
        }
    }
}

/// Finds what has all words: first the files with them in their names, then what was said, the newest first.
pub(super) async fn find(
    command: &FindCommand,
    ledger: &Ledger,
    context: &CommandContext<'_>,
    zone: &Zone,
) -> Result<OutgoingResponse, LedgerError> {
    let FindCommand { text: searched, page } = command;
    if searched.is_empty() {
        return Ok(OutgoingResponse::from_text(FIND_HELP));
    }
    let terms = match SearchTerms::parse(searched) {
        Ok(terms) => terms,
        Err(error) => return Ok(OutgoingResponse::from_text(format!("I can't look for that: {error}."))),
    };
    let last = page.saturating_mul(PAGE_SIZE);
    if *page > MAX_PAGE {
        return Ok(OutgoingResponse::from_text(format!("There are at most {MAX_PAGE} pages. Please add a word.")));
    }
    let search = ConversationSearch {
        channel: context.conversation.channel().clone(),
        conversation: Some(context.conversation.clone()),
        terms,
        before: None,
        limit: u32::try_from(last + 1).unwrap_or(u32::MAX),
    };
    let words: Vec<&str> = search.terms.iter().collect();
    let named_files = find_named(&*ledger.archive, context.conversation, &words).await?;
    let results = ledger.conversations.search_conversations(&search).await?;
    let has_more = results.hits.len() > last;
    let shown = results.hits.get(last - PAGE_SIZE..last.min(results.hits.len())).unwrap_or_default();
    let (said, has_files) = describe_hits(shown, &named_files, ledger, context, zone).await?;
    let quoted = to_inline_code(searched, MAX_NAME_CHARS);
    let files = if *page == 1 { describe_named_files(&named_files, searched) } else { String::new() };
    let mut text = match (files.is_empty(), said.is_empty(), *page) {
        (true, true, 1) => format!("Nothing here has {quoted}."),
        (true, true, _) => format!("There is no page {page} for {quoted}."),
        (true, false, 1) => format!("Found {quoted}, newest first:\n\n{said}"),
        (true, false, _) => format!("Found {quoted}, page {page}:\n\n{said}"),
        (false, true, _) => format!("Files with {quoted} in their names:\n\n{files}"),
        (false, false, _) => {
            format!("Files with {quoted} in their names:\n\n{files}\nWhat was said, newest first:\n\n{said}")
        }
    };
    if has_files || !files.is_empty() {
        text.push_str("\nTo get a file back, send `/resend` and its number.");
    }
    if has_more {
        let _ =
            write!(text, "\nOlder ones: {}", to_inline_code(&format!("/find {searched} /{}", page + 1), usize::MAX));
    }
    if results.unindexed > 0 {
        let _ = write!(text, "\n{} older turns are not indexed yet; please try again in a while.", results.unindexed);
    }
    Ok(OutgoingResponse::from_text(text.trim_end()))
}

/// The first of the files with the words in their names, each on a line.
fn describe_named_files(named_files: &[Attachment], searched: &str) -> String {
    let mut text = String::new();
    for file in named_files.iter().take(MAX_FILES) {
        let _ = writeln!(text, "- {}", describe_file(file));
    }
    if named_files.len() > MAX_FILES {
        let all = to_inline_code(&format!("/files {searched}"), usize::MAX);
        let _ = writeln!(text, "- … and {} more: {all}", named_files.len() - MAX_FILES);
    }
    text
}

/// What was said, by whom and when, each with its files, and whether there are any. A match in nothing but a file's name is left
/// out where the file is listed already.
async fn describe_hits(
    hits: &[SearchHit],
    named_files: &[Attachment],
    ledger: &Ledger,
    context: &CommandContext<'_>,
    zone: &Zone,
) -> Result<(String, bool), LedgerError> {
    let (mut text, mut has_files) = (String::new(), false);
    for hit in hits {
        let record = match hit.turn {
            Some(turn) => ledger.archive.turn(turn).await?,
            None => None,
        };
        let speaker = record.and_then(|record| find_speaker(&hit.excerpt, &record, context));
        let files = files_of(ledger, hit).await?;
        if speaker.is_none() && files.iter().any(|file| named_files.iter().any(|named| named.id == file.id)) {
            continue;
        }
        has_files |= !files.is_empty();
        write_hit(&mut text, hit, speaker.as_deref(), &files, zone);
    }
    Ok((text, has_files))
}

/// The files that came with the messages of a match, or were made there.
async fn files_of(ledger: &Ledger, hit: &SearchHit) -> Result<Vec<Attachment>, LedgerError> {
    let query =
        AttachmentQuery { turn: hit.turn, conversation: Some(hit.conversation.clone()), ..AttachmentQuery::default() };
    let mut files = ledger.archive.attachments(&query).await?;
    files.retain(|file| file.visibility == Visibility::Deliver);
    files.sort_by_key(|file| file.number);
    Ok(files)
}

fn write_hit(text: &mut String, hit: &SearchHit, speaker: Option<&str>, files: &[Attachment], zone: &Zone) {
    let excerpt: String = hit.excerpt.iter().map(format_piece).collect();
    let speaker = speaker.map(|speaker| format!(", {speaker}")).unwrap_or_default();
    let _ = writeln!(
        text,
        "- {}{speaker}: {}",
        zone.format_minute(hit.at),
        excerpt.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    for file in files.iter().take(MAX_FILES) {
        let _ = writeln!(text, "  #{} {}", file.number, to_inline_code(file.filename.as_str(), MAX_NAME_CHARS));
    }
    if files.len() > MAX_FILES {
        let _ = writeln!(text, "  … and {} more files", files.len() - MAX_FILES);
    }
}

fn format_piece(piece: &ExcerptPiece) -> String {
    let text = markdown::escape(&piece.text);
    if piece.matched { format!("**{text}**") } else { text }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use std::collections::BTreeMap;

    use satchel_domain::{
        AttachmentId, AttachmentSource, Filename, InboundMessage, InboxId, MediaInfo, Sender, Sha256, Timestamp, TurnId,
    };
    use satchel_ports::{
        MockLedger,
        ledger::{QueuedMessage, SearchResults, TurnRecord},
    };
    use uuid::Uuid;

    use super::*;
    use crate::access::AccessPolicy;

    fn file(number: u64, visibility: Visibility) -> Attachment {
        Attachment {
            id: AttachmentId(Uuid::from_u128(u128::from(number))),
            number: NonZeroU64::new(number).unwrap(),
            conversation: "telegram:5".parse().unwrap(),
            source: AttachmentSource::User,
            filename: Filename::from_untrusted("rent.pdf"),
            mime: "application/pdf".into(),
            bytes: 1,
            sha256: Sha256([0; 32]),
            media: MediaInfo::default(),
            description: String::new(),
            created_at: Timestamp(0),
            visibility,
            link_revocation: None,
        }
    }

    /// A turn of a group in which these people said something, and Satchel replied.
    fn record(messages: &[(&str, &str, &str)], reply: &str) -> TurnRecord {
        let queued = |(id, name, text): &(&str, &str, &str)| QueuedMessage {
            id: InboxId(Uuid::nil()),
            turn: TurnId(Uuid::nil()),
            message: InboundMessage {
                text: (*text).to_owned(),
                ..InboundMessage::new("telegram:5".parse().unwrap(), String::new(), Sender::new(*id, *name))
            },
            files: Vec::new(),
            transcriptions: BTreeMap::new(),
            received_at: Timestamp(0),
        };
        TurnRecord {
            id: TurnId(Uuid::nil()),
            conversation: "telegram:5".parse().unwrap(),
            ending: None,
            response: Some(OutgoingResponse::from_text(reply)),
            messages: messages.iter().map(queued).collect(),
            parts: Vec::new(),
            calls: Vec::new(),
            replaced_by: None,
        }
    }

    fn hit(number: usize) -> SearchHit {
        let piece = |text: &str, matched| ExcerptPiece { text: text.into(), matched };
        SearchHit {
            conversation: "telegram:5".parse().unwrap(),
            name: None,
            title: String::new(),
            turn: Some(TurnId(Uuid::from_u128(number as u128))),
            at: Timestamp(60_000),
            excerpt: vec![piece("the *old*\n", false), piece("rent", true), piece(&format!(" {number}"), false)],
        }
    }

    /// The answer to a command where so many matches are, all by the person who searches; the search stays in its
    /// conversation.
    async fn finds(text: &str, hits: usize) -> String {
        let mut ledger = MockLedger::default();
        ledger.archive.expect_turn().returning(|turn| {
            let text = format!("the *old*\nrent {}", turn.0.as_u128());
            Ok(Some(record(&[("1", "Ada", text.as_str())], "I know.")))
        });
        ledger.conversations.expect_search_conversations().returning(move |search| {
            assert_eq!(search.conversation, Some("telegram:5".parse().unwrap()));
            let hits = (1..=hits.min(search.limit as usize)).map(hit).collect();
            Ok(SearchResults { hits, unindexed: 0 })
        });
        ledger.archive.expect_attachments().returning(|query| {
            let is_first = query.turn == Some(TurnId(Uuid::from_u128(1)));
            Ok(if is_first { vec![file(12, Visibility::Deliver), file(13, Visibility::Internal)] } else { Vec::new() })
        });
        answer(text, ledger).await
    }

    /// The answer to Ada.
    async fn answer(text: &str, ledger: MockLedger) -> String {
        let conversation = "telegram:5".parse().unwrap();
        let (sender, access) = (Sender::new("1", "Ada"), AccessPolicy::default());
        let context = CommandContext {
            turn: TurnId(Uuid::nil()),
            repeated: false,
            conversation: &conversation,
            group: false,
            sender: &sender,
            access: &access,
            now: Timestamp(0),
        };
        let zone = Zone::find("UTC").unwrap();
        find(&FindCommand::parse(text), &ledger.into(), &context, &zone).await.unwrap().text.unwrap()
    }

    #[tokio::test]
    async fn matches_are_listed_with_their_files() {
        let expected = "\
Found `rent`, newest first:

- 1970-01-01 00:01, you: the \\*old\\* **rent** 1
  #12 `rent.pdf`
- 1970-01-01 00:01, you: the \\*old\\* **rent** 2

To get a file back, send `/resend` and its number.";
        assert_eq!(finds("rent", 2).await, expected);
        assert_eq!(finds("rent", 0).await, "Nothing here has `rent`.");
        assert!(finds("", 0).await.starts_with("What shall I look for?"));
        assert!(finds("*", 0).await.starts_with("I can't look for that: type a word"));
    }

    /// A conversation with a file, and with turns of which each has the word somewhere else.
    fn ledger_with_file_and_talk() -> MockLedger {
        let mut ledger = MockLedger::default();
        ledger.conversations.expect_search_conversations().returning(|_| {
            let piece = |text: &str, matched| ExcerptPiece { text: text.into(), matched };
            let hit = |number, excerpt| SearchHit { excerpt, ..hit(number) };
            let hits = vec![
                hit(1, vec![piece("when?\nthe ", false), piece("rent", true), piece(" is due\nOk", false)]),
                hit(2, vec![piece("and the ", false), piece("rent", true), piece("\nYes.", false)]),
                hit(3, vec![piece("now?\nThe ", false), piece("rent", true), piece(" is paid.", false)]),
                hit(4, vec![piece("rent", true), piece(".pdf", false)]),
            ];
            Ok(SearchResults { hits, unindexed: 0 })
        });
        ledger.archive.expect_turn().returning(|turn| {
            Ok(Some(match turn.0.as_u128() {
                1 => record(&[("1", "Ada", "when?"), ("2", "Bob*", "the rent is due")], "Ok"),
                2 => record(&[("1", "Ada", "and the rent")], "Yes."),
                3 => record(&[("2", "Bob*", "now?")], "The rent is paid."),
                _ => record(&[("2", "Bob*", "here")], "Thanks."),
            }))
        });
        ledger.archive.expect_attachments().returning(|query| {
            let is_named = query.name_contains.as_deref() == Some("rent");
            let has_file = is_named || query.turn == Some(TurnId(Uuid::from_u128(4)));
            Ok(if has_file { vec![file(12, Visibility::Deliver)] } else { Vec::new() })
        });
        ledger
    }

    #[tokio::test]
    async fn files_come_before_talk_and_each_snippet_says_who_said_it() {
        let expected = "\
Files with `rent` in their names:

- #12 `rent.pdf` application/pdf 1 B

What was said, newest first:

- 1970-01-01 00:01, `Bob*`: when? the **rent** is due Ok
- 1970-01-01 00:01, you: and the **rent** Yes.
- 1970-01-01 00:01, I: now? The **rent** is paid.

To get a file back, send `/resend` and its number.";
        assert_eq!(answer("rent", ledger_with_file_and_talk()).await, expected);
    }

    #[tokio::test]
    async fn older_matches_are_on_further_pages() {
        let first = finds("rent", 17).await;
        assert!(first.contains("rent** 8") && !first.contains("rent** 9"), "{first}");
        assert!(first.ends_with("Older ones: `/find rent /2`"), "{first}");
        let last = finds("rent /3", 17).await;
        assert!(last.starts_with("Found `rent`, page 3:") && last.contains("rent** 17"), "{last}");
        assert!(!last.contains("Older ones"), "{last}");
        assert_eq!(finds("rent /4", 17).await, "There is no page 4 for `rent`.");
        assert!(finds("rent /99999999999999", 17).await.contains("at most 20 pages"));
        assert!(finds("rent /0", 17).await.starts_with("Found `rent /0`"), "a page is counted from one");
    }
}
