//! The command `/find`: what was said in this conversation, and which files came or were made then.

use std::fmt::Write;

use satchel_calendar::Zone;
use satchel_domain::{Attachment, OutgoingResponse, Visibility, filename::to_inline_code, markdown};
use satchel_ports::{
    Ledger, LedgerError,
    ledger::{AttachmentQuery, ConversationSearch, ExcerptPiece, SearchHit, SearchTerms},
};

use super::files::MAX_NAME_CHARS;
use crate::pairing::CommandContext;

/// How many matches a page has.
const PAGE_SIZE: usize = 8;

/// The last page; whoever looks further needs another word.
const MAX_PAGE: usize = 20;

/// How many files of a match are named.
const MAX_FILES: usize = 6;

const FIND_HELP: &str = "\
What shall I look for? `/find rent contract` finds messages, replies and files of this conversation that have both words; the \
first two letters of a word are enough.";

/// What stands behind `/find`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindCommand {
    text: String,
    /// Which page of the matches, from 1.
    page: usize,
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

/// Finds what has all words, the newest first.
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
    let results = ledger.conversations.search_conversations(&search).await?;
    let has_more = results.hits.len() > last;
    let mut text = String::new();
    for hit in results.hits.iter().take(last).skip(last - PAGE_SIZE) {
        write_hit(&mut text, hit, &files_of(ledger, hit).await?, zone);
    }
    let named = to_inline_code(searched, MAX_NAME_CHARS);
    let heading = match (text.is_empty(), *page) {
        (true, 1) => format!("Nothing here has {named}."),
        (true, _) => format!("There is no page {page} for {named}."),
        (false, 1) => format!("Found {named}, newest first:\n\n"),
        (false, _) => format!("Found {named}, page {page}:\n\n"),
    };
    let has_files = text.contains("\n  #");
    let mut text = heading + &text;
    if has_files {
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

/// The files that came with the messages of a match, or were made there.
async fn files_of(ledger: &Ledger, hit: &SearchHit) -> Result<Vec<Attachment>, LedgerError> {
    let query =
        AttachmentQuery { turn: hit.turn, conversation: Some(hit.conversation.clone()), ..AttachmentQuery::default() };
    let mut files = ledger.archive.attachments(&query).await?;
    files.retain(|file| file.visibility == Visibility::Deliver);
    files.sort_by_key(|file| file.number);
    Ok(files)
}

fn write_hit(text: &mut String, hit: &SearchHit, files: &[Attachment], zone: &Zone) {
    let excerpt: String = hit.excerpt.iter().map(format_piece).collect();
    let _ = writeln!(
        text,
        "- {}: {}",
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

    use satchel_domain::{AttachmentId, AttachmentSource, Filename, MediaInfo, Sender, Sha256, Timestamp, TurnId};
    use satchel_ports::{MockLedger, ledger::SearchResults};
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

    /// The answer to a command where so many matches are; the search stays in its conversation.
    async fn finds(text: &str, hits: usize) -> String {
        let conversation = "telegram:5".parse().unwrap();
        let mut ledger = MockLedger::default();
        ledger.conversations.expect_search_conversations().returning(move |search| {
            assert_eq!(search.conversation, Some("telegram:5".parse().unwrap()));
            let hits = (1..=hits.min(search.limit as usize)).map(hit).collect();
            Ok(SearchResults { hits, unindexed: 0 })
        });
        ledger.archive.expect_attachments().returning(|query| {
            let is_first = query.turn == Some(TurnId(Uuid::from_u128(1)));
            Ok(if is_first { vec![file(12, Visibility::Deliver), file(13, Visibility::Internal)] } else { Vec::new() })
        });
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

- 1970-01-01 00:01: the \\*old\\* **rent** 1
  #12 `rent.pdf`
- 1970-01-01 00:01: the \\*old\\* **rent** 2

To get a file back, send `/resend` and its number.";
        assert_eq!(finds("rent", 2).await, expected);
        assert_eq!(finds("rent", 0).await, "Nothing here has `rent`.");
        assert!(finds("", 0).await.starts_with("What shall I look for?"));
        assert!(finds("*", 0).await.starts_with("I can't look for that: type a word"));
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
