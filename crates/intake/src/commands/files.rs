//! The commands about the files of a conversation.

use std::fmt::Write;

use satchel_domain::{Attachment, ConversationId, OutgoingResponse, Part, Visibility, filename::to_inline_code, size};
use satchel_ports::{
    Archive, Ledger, LedgerError,
    ledger::{AttachmentKey, AttachmentQuery, OutboxQuery},
};

use super::FindCommand;
use crate::pairing::CommandContext;

/// How many files a page has.
const PAGE_SIZE: u32 = 30;

/// How much of a name is shown, in characters.
pub(super) const MAX_NAME_CHARS: usize = 150;

/// How many files one command names.
const MAX_NUMBERS: usize = 20;

/// Lists a page of the files, counted from 1, the newest first.
pub(super) async fn list_files(
    archive: &dyn Archive,
    conversation: &ConversationId,
    page: u64,
) -> Result<OutgoingResponse, LedgerError> {
    let skipped = (page - 1).saturating_mul(u64::from(PAGE_SIZE));
    let (listed, has_more) = visible_files(archive, conversation, skipped).await?;
    if listed.is_empty() {
        return Ok(OutgoingResponse::from_text(match page {
            1 => "No files here yet. Send me one.".to_owned(),
            _ => format!("There is no page {page}. `/files` lists the newest files."),
        }));
    }
    let mut text = match page {
        1 => "Your files, newest first:\n\n".to_owned(),
        _ => format!("Your files, page {page}:\n\n"),
    };
    for attachment in &listed {
        let _ = writeln!(text, "- {}", describe_file(attachment));
    }
    text.push_str("\nTo get one back, send `/resend` and its number.");
    if has_more {
        let _ = write!(text, "\nOlder ones: `/files {}`", page + 1);
    }
    Ok(OutgoingResponse::from_text(text))
}

/// Lists a page of the files with these words in their names, the newest first.
pub(super) async fn list_named_files(
    archive: &dyn Archive,
    conversation: &ConversationId,
    command: &FindCommand,
) -> Result<OutgoingResponse, LedgerError> {
    let FindCommand { text: searched, page } = command;
    let words: Vec<&str> = searched.split_whitespace().collect();
    let named = find_named(archive, conversation, &words).await?;
    let quoted = to_inline_code(searched, MAX_NAME_CHARS);
    let skipped = (page - 1).saturating_mul(PAGE_SIZE as usize);
    let listed = named.get(skipped..).unwrap_or_default();
    if listed.is_empty() {
        return Ok(OutgoingResponse::from_text(match page {
            1 => format!("No file here has {quoted} in its name. `/files` lists them all."),
            _ => format!("There is no page {page} of files with {quoted} in their names."),
        }));
    }
    let mut text = match page {
        1 => format!("Files with {quoted} in their names, newest first:\n\n"),
        _ => format!("Files with {quoted} in their names, page {page}:\n\n"),
    };
    for attachment in listed.iter().take(PAGE_SIZE as usize) {
        let _ = writeln!(text, "- {}", describe_file(attachment));
    }
    text.push_str("\nTo get one back, send `/resend` and its number.");
    if listed.len() > PAGE_SIZE as usize {
        let older = to_inline_code(&format!("/files {searched} /{}", page + 1), usize::MAX);
        let _ = write!(text, "\nOlder ones: {older}");
    }
    Ok(OutgoingResponse::from_text(text))
}

/// Reads the files that people may see and that have all words in their names, in upper or lower case, the newest first.
pub(super) async fn find_named(
    archive: &dyn Archive,
    conversation: &ConversationId,
    words: &[&str],
) -> Result<Vec<Attachment>, LedgerError> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let query = AttachmentQuery {
        conversation: Some(conversation.clone()),
        visibility: Some(Visibility::Deliver),
        // The longest word leaves the fewest files to read.
        name_contains: words.iter().max_by_key(|word| word.len()).cloned(),
        ..AttachmentQuery::default()
    };
    let mut named = archive.attachments(&query).await?;
    named.retain(|file| {
        let name = file.filename.as_str().to_lowercase();
        words.iter().all(|word| name.contains(word))
    });
    Ok(named)
}

/// Reads a page of the files that people may see, and whether there are more behind them.
async fn visible_files(
    archive: &dyn Archive,
    conversation: &ConversationId,
    skipped: u64,
) -> Result<(Vec<Attachment>, bool), LedgerError> {
    let query = AttachmentQuery {
        conversation: Some(conversation.clone()),
        visibility: Some(Visibility::Deliver),
        offset: skipped,
        limit: Some(PAGE_SIZE + 1),
        ..AttachmentQuery::default()
    };
    let mut listed = archive.attachments(&query).await?;
    let has_more = listed.len() > PAGE_SIZE as usize;
    listed.truncate(PAGE_SIZE as usize);
    Ok((listed, has_more))
}

/// Sends files again, by their numbers, or one by its name.
pub(super) async fn resend_files(
    archive: &dyn Archive,
    conversation: &ConversationId,
    numbers: &[String],
) -> Result<OutgoingResponse, LedgerError> {
    if numbers.is_empty() {
        return Ok(OutgoingResponse::from_text(
            "Which file? `/resend 17` sends #17 again, `/resend plan.pdf` the one of that name; `/files` lists them all.",
        ));
    }
    if numbers.iter().all(|argument| parse_number(argument).is_none()) {
        return resend_named_file(archive, conversation, numbers).await;
    }
    if numbers.len() > MAX_NUMBERS {
        return Ok(too_many_numbers("/resend", numbers));
    }
    let ResolvedFiles { mut attachments, unknown_text: unknown } =
        resolve_numbers(archive, conversation, numbers, Resolvable::Delivered).await?;
    attachments.iter_mut().for_each(|attachment| attachment.visibility = Visibility::Deliver);
    Ok(OutgoingResponse { text: unknown, voice: None, attachments })
}

/// Sends the newest file of a name, or else the only one that has all words in its name.
async fn resend_named_file(
    archive: &dyn Archive,
    conversation: &ConversationId,
    words: &[String],
) -> Result<OutgoingResponse, LedgerError> {
    let name = words.join(" ");
    let quoted = to_inline_code(&name, MAX_NAME_CHARS);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut named = find_named(archive, conversation, &words).await?;
    let has_name = |file: &Attachment| file.filename.as_str().to_lowercase() == name.to_lowercase();
    let of_name = named.iter().filter(|file| has_name(file)).count();
    if of_name > 0 {
        named.retain(has_name);
    }
    let text = match (of_name, named.len()) {
        (_, 0) => Some(format!("No file here has {quoted} in its name. `/files` lists them all.")),
        (_, 1) => None,
        (0, _) => {
            let mut text = format!("Several files have {quoted} in their names:\n\n");
            for file in named.drain(..).take(PAGE_SIZE as usize) {
                let _ = writeln!(text, "- {}", describe_file(&file));
            }
            text.push_str("\nTo get one, send `/resend` and its number.");
            Some(text)
        }
        (count, _) => {
            named.truncate(1);
            Some(format!("This is the newest of {count} files of that name: `/files` and the name lists them."))
        }
    };
    Ok(OutgoingResponse { text, voice: None, attachments: named })
}

/// Reads the number of a file as people write it.
fn parse_number(argument: &str) -> Option<u64> {
    argument.trim_matches([',', '#']).parse().ok()
}

/// Revokes all links to files; repeated, it revokes those that were made since, too.
pub(super) async fn revoke_file_links(
    ledger: &Ledger,
    context: &CommandContext<'_>,
    numbers: &[String],
    has_links: bool,
) -> Result<OutgoingResponse, LedgerError> {
    let conversation = context.conversation;
    if !has_links {
        return Ok(OutgoingResponse::from_text(match context.is_by_owner() {
            true => {
                "File links are off here, so there is nothing to revoke. You can turn them on with `web.listen` and \
                 `web.public_url`."
            }
            false => {
                "File links are off here, so there is nothing to revoke. Please ask the person who runs this bot to turn them on."
            }
        }));
    }
    if numbers.is_empty() {
        return Ok(OutgoingResponse::from_text("Which file? `/unlink 17` revokes every link to #17."));
    }
    if numbers.len() > MAX_NUMBERS {
        return Ok(too_many_numbers("/unlink", numbers));
    }
    let ResolvedFiles { attachments, unknown_text: unknown } =
        resolve_numbers(&*ledger.archive, conversation, numbers, Resolvable::All).await?;
    let mut lines = Vec::new();
    for attachment in &attachments {
        let Attachment { id, number, filename, .. } = attachment;
        // The API links any file, so the links to one that a tool keeps to itself end, too; but its name isn't shown.
        let file = match is_delivered(&*ledger.archive, attachment).await? {
            true => format!("#{number} {}", to_inline_code(filename.as_str(), MAX_NAME_CHARS)),
            false => format!("#{number}"),
        };
        lines.push(match ledger.storage.revoke_links(*id).await {
            Ok(_) => format!("All links to {file} are revoked."),
            Err(error) => {
                tracing::error!(
                    chat.id = %conversation, attachment.id = %id, error = &error as &dyn std::error::Error,
                    "failed to revoke the links to a file"
                );
                format!("I couldn't revoke the links to {file}; they may still work. Please try again.")
            }
        });
    }
    lines.extend(unknown);
    Ok(OutgoingResponse::from_text(lines.join("\n\n")))
}

/// A file on a line of a list.
#[must_use]
pub fn describe_file(attachment: &Attachment) -> String {
    let Attachment { number, filename, mime, bytes, .. } = attachment;
    format!("#{number} {} {mime} {}", to_inline_code(filename.as_str(), MAX_NAME_CHARS), size::format_bytes(*bytes))
}

/// The files of some numbers, each once.
struct ResolvedFiles {
    attachments: Vec<Attachment>,
    /// The text about numbers that are unknown or forgotten.
    unknown_text: Option<String>,
}

/// Which files a number may mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resolvable {
    /// Those that people see, or that something they got has carried.
    Delivered,
    /// Those that a tool keeps to itself too.
    All,
}

async fn resolve_numbers(
    archive: &dyn Archive,
    conversation: &ConversationId,
    numbers: &[String],
    resolvable: Resolvable,
) -> Result<ResolvedFiles, LedgerError> {
    let mut attachments: Vec<Attachment> = Vec::new();
    let (mut unknown, mut forgotten) = (Vec::new(), Vec::new());
    for argument in numbers {
        let found = match parse_number(argument) {
            Some(number) => archive.attachment(conversation, AttachmentKey::Number(number)).await?,
            None => None,
        };
        let is_resolvable = match &found {
            Some(file) => resolvable == Resolvable::All || is_delivered(archive, file).await?,
            None => false,
        };
        match found.filter(|_| is_resolvable) {
            Some(attachment) if attachment.is_forgotten() => forgotten.push(format!("#{}", attachment.number)),
            Some(attachment) if attachments.iter().any(|other| other.id == attachment.id) => {}
            Some(attachment) => attachments.push(attachment),
            None => unknown.push(to_inline_code(argument, MAX_NAME_CHARS)),
        }
    }
    let mut lines = Vec::new();
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        lines.push(format!("There is no file {unknown} here. `/files` shows each file's number."));
    }
    if !forgotten.is_empty() {
        lines.push(format!("{} was removed for good, so I can't bring it back.", forgotten.join(", ")));
    }
    let unknown = (!lines.is_empty()).then(|| lines.join("\n\n"));
    Ok(ResolvedFiles { attachments, unknown_text: unknown })
}

/// Whether a file is for people. A file that a tool kept to itself is once it was part of a reply, delivered or not.
async fn is_delivered(archive: &dyn Archive, file: &Attachment) -> Result<bool, LedgerError> {
    if file.visibility == Visibility::Deliver {
        return Ok(true);
    }
    let query = OutboxQuery {
        conversation: Some(file.conversation.clone()),
        file: Some(file.id),
        include_delivered: true,
        ..OutboxQuery::default()
    };
    let carries_file = |part: &Part| part.operation.files().iter().any(|item| item.attachment.id == file.id);
    Ok(archive.parts(&query).await?.iter().any(carries_file))
}

fn too_many_numbers(command: &str, numbers: &[String]) -> OutgoingResponse {
    let text = format!("`{command}` takes at most {MAX_NUMBERS} numbers at once; you gave {}.", numbers.len());
    OutgoingResponse::from_text(text)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use satchel_domain::{
        AttachmentId, AttachmentSource, Filename, LinkRevocation, MediaInfo, PartContent, PartId, Sender, Sha256,
        Timestamp, TurnId,
        part::{FileForm, FileItem},
    };
    use satchel_ports::{MockArchive, MockLedger};
    use uuid::Uuid;

    use super::*;
    use crate::access::AccessPolicy;

    fn conversation() -> ConversationId {
        "console:main".parse().unwrap()
    }

    fn numbers(given: &str) -> Vec<String> {
        given.split(' ').map(str::to_owned).collect()
    }

    fn file(number: u64, name: &str) -> Attachment {
        Attachment {
            id: AttachmentId(Uuid::from_u128(u128::from(number))),
            number: NonZeroU64::new(number).unwrap(),
            conversation: conversation(),
            source: AttachmentSource::User,
            filename: Filename::from_untrusted(name),
            mime: "image/jpeg".into(),
            bytes: 245_000,
            sha256: Sha256([0; 32]),
            media: MediaInfo::default(),
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Deliver,
            link_revocation: None,
        }
    }

    /// A conversation with the file #17.
    fn with_17() -> MockArchive {
        let mut ledger = MockArchive::new();
        ledger
            .expect_attachment()
            .returning(|_, key| Ok((key == AttachmentKey::Number(17)).then(|| file(17, "a.jpg"))));
        ledger
    }

    fn ledger_with_17() -> MockLedger {
        MockLedger { archive: with_17(), ..MockLedger::default() }
    }

    #[tokio::test]
    async fn resend_brings_known_files_and_names_the_unknown() {
        let answer = resend_files(&with_17(), &conversation(), &numbers("#17 17 99 x`y")).await.unwrap();
        assert_eq!(answer.attachments.len(), 1);
        assert_eq!(answer.attachments[0].visibility, Visibility::Deliver);
        assert!(answer.text.unwrap().contains("no file `99`, `xy` here"));
    }

    /// The attack: a number that `/files` leaves out brings what a tool has kept to itself.
    #[tokio::test]
    async fn internal_file_is_resent_only_once_delivered() {
        for (carried, is_resent) in [(None, false), (Some(4), false), (Some(17), true)] {
            let internal = Attachment { visibility: Visibility::Internal, ..file(17, "notes.json") };
            let mut archive = MockArchive::new();
            archive.expect_attachment().returning(move |_, _| Ok(Some(internal.clone())));
            archive.expect_parts().times(1).returning(move |query| {
                assert_eq!(query.file, Some(AttachmentId(Uuid::from_u128(17))));
                assert!(query.include_delivered && query.conversation == Some(conversation()));
                let part = |number| {
                    let item = FileItem {
                        attachment: file(number, "notes.json"),
                        form: FileForm::Document,
                        caption: String::new(),
                    };
                    let (id, turn) = (PartId(Uuid::from_u128(1)), TurnId(Uuid::nil()));
                    Part::new(id, conversation(), turn, 0, PartContent::File(item), Timestamp(0))
                };
                Ok(carried.map(part).into_iter().collect())
            });
            let answer = resend_files(&archive, &conversation(), &numbers("17")).await.unwrap();
            let unknown = "There is no file `17` here. `/files` shows each file's number.";
            assert_eq!(
                (answer.attachments.len(), answer.text.as_deref()),
                match is_resent {
                    true => (1, None),
                    false => (0, Some(unknown)),
                }
            );
            assert!(answer.attachments.iter().all(|file| file.visibility == Visibility::Deliver));
        }
    }

    #[tokio::test]
    async fn files_are_listed_with_number_name_type_size() {
        let mut ledger = MockArchive::new();
        ledger.expect_attachments().returning(|_| Ok(vec![file(3, "*b*.jpg")]));
        let text = list_files(&ledger, &conversation(), 1).await.unwrap().text.unwrap();
        assert!(text.contains("- #3 `*b*.jpg` image/jpeg 245 KB\n"), "{text}");
    }

    #[tokio::test]
    async fn older_files_are_on_further_pages() {
        // Every second file is none that people see.
        let files: Vec<Attachment> = (1..=1_240_u64)
            .rev()
            .map(|number| {
                let visibility = if number.is_multiple_of(2) { Visibility::Deliver } else { Visibility::Internal };
                Attachment { visibility, ..file(number, "a.jpg") }
            })
            .collect();
        let mut ledger = MockArchive::new();
        ledger.expect_attachments().returning(move |query| {
            let asked = files.iter().filter(|file| query.visibility.is_none_or(|asked| file.visibility == asked));
            let page = asked.skip(query.offset as usize).take(query.limit.unwrap_or(u32::MAX) as usize);
            Ok(page.cloned().collect())
        });
        let page = async |page| list_files(&ledger, &conversation(), page).await.unwrap().text.unwrap();
        let (first, tenth, last) = (page(1).await, page(10).await, page(21).await);
        assert!(first.contains("#1240 ") && first.contains("#1182 ") && !first.contains("#1180 "), "{first}");
        assert!(first.ends_with("Older ones: `/files 2`"), "{first}");
        assert!(
            tenth.starts_with("Your files, page 10:") && tenth.contains("#700 ") && tenth.contains("#642 "),
            "{tenth}"
        );
        assert!(last.contains("#40 ") && last.contains("#2 ") && !last.contains("Older"), "{last}");
        assert_eq!(page(22).await, "There is no page 22. `/files` lists the newest files.");
    }

    /// A conversation with these files, the oldest first.
    fn archive_with(names: &'static [&'static str]) -> MockArchive {
        let mut files: Vec<Attachment> = (1..).zip(names).map(|(number, name)| file(number, name)).collect();
        files.reverse();
        let mut archive = MockArchive::new();
        archive.expect_attachments().returning(move |query| {
            let contained = query.name_contains.clone().unwrap_or_default();
            let has_name = |file: &&Attachment| file.filename.as_str().to_lowercase().contains(&contained);
            Ok(files.iter().filter(has_name).cloned().collect())
        });
        archive
    }

    #[tokio::test]
    async fn file_is_resent_by_its_name() {
        let archive = archive_with(&["plan.pdf", "Beach photo.jpg", "Plan B.pdf", "plan.pdf", "old beach.png"]);
        let resend = async |given: &str| {
            let answer = resend_files(&archive, &conversation(), &numbers(given)).await.unwrap();
            let numbers: Vec<u64> = answer.attachments.iter().map(|file| file.number.get()).collect();
            (numbers, answer.text.unwrap_or_default())
        };
        assert_eq!(resend("BEACH photo.jpg").await, (vec![2], String::new()));
        assert_eq!(resend("photo beach").await, (vec![2], String::new()), "the words in any order");
        let newest = "This is the newest of 2 files of that name: `/files` and the name lists them.";
        assert_eq!(resend("plan.pdf").await, (vec![4], newest.to_owned()));
        let (sent, text) = resend("beach").await;
        assert_eq!(sent, [] as [u64; 0]);
        assert!(text.starts_with("Several files have `beach` in their names:\n\n- #5 `old beach.png`"), "{text}");
        assert!(text.contains("- #2 `Beach photo.jpg`") && text.ends_with("send `/resend` and its number."), "{text}");
        let missing = "No file here has `rent` in its name. `/files` lists them all.";
        assert_eq!(resend("rent").await, (vec![], missing.to_owned()));
    }

    #[tokio::test]
    async fn files_are_listed_by_words_of_their_names() {
        let archive = archive_with(&["plan.pdf", "Beach photo.jpg", "Plan B.pdf"]);
        let list = async |given: &str| {
            let command = FindCommand::parse(given);
            list_named_files(&archive, &conversation(), &command).await.unwrap().text.unwrap()
        };
        let text = list("PLAN pdf").await;
        let expected = "Files with `PLAN pdf` in their names, newest first:\n\n- #3 `Plan B.pdf` image/jpeg 245 KB\n\
                        - #1 `plan.pdf` image/jpeg 245 KB\n\nTo get one back, send `/resend` and its number.";
        assert_eq!(text, expected);
        assert_eq!(list("rent").await, "No file here has `rent` in its name. `/files` lists them all.");
        assert_eq!(list("plan /2").await, "There is no page 2 of files with `plan` in their names.");
        let many = archive_with(&["plan.pdf"; 31]);
        let text = list_named_files(&many, &conversation(), &FindCommand::parse("plan")).await.unwrap().text.unwrap();
        assert!(text.ends_with("Older ones: `/files plan /2`"), "{text}");
        let last = list_named_files(&many, &conversation(), &FindCommand::parse("plan /2")).await.unwrap();
        assert_eq!(last.text.unwrap().matches("\n- #").count(), 1);
    }

    #[tokio::test]
    async fn unlink_revokes_existing_links_and_reports_others() {
        let of_17 = |file: &AttachmentId| *file == AttachmentId(Uuid::from_u128(17));
        let revocation = LinkRevocation { count: 1, planned_count: 1 };
        let mut ledger = ledger_with_17();
        ledger.storage.expect_revoke_links().withf(of_17).times(1).returning(move |_| Ok(Some(revocation)));
        let ledger = Ledger::from(ledger);
        let unlink = async |given: &str, ledger: &Ledger| {
            let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
            let (conversation, sender, access) = (conversation(), Sender::new("1", "Ada"), AccessPolicy::default());
            let asked = CommandContext {
                turn: TurnId(Uuid::nil()),
                repeated: false,
                conversation: &conversation,
                group: false,
                sender: &sender,
                access: &access,
                now: Timestamp(0),
            };
            revoke_file_links(ledger, &asked, &given, true).await.unwrap().text.unwrap()
        };
        let told = unlink("#17 17 99", &ledger).await;
        assert!(told.starts_with("All links to #17 `a.jpg` are revoked.\n\nThere is no file `99` here."), "{told}");
        assert!(unlink("", &ledger).await.starts_with("Which file? `/unlink 17`"));
        assert!(unlink(&"17 ".repeat(21), &ledger).await.contains("at most 20 numbers"));
        let mut failing = ledger_with_17();
        failing.storage.expect_revoke_links().returning(|_| Err(LedgerError::Full));
        let told = unlink("17", &failing.into()).await;
        assert!(told.starts_with("I couldn't revoke the links to #17 `a.jpg`"), "{told}");
    }

    /// The attack: a number that `/files` leaves out tells the name of what a tool has kept to itself.
    #[tokio::test]
    async fn unlink_names_no_internal_file() {
        let mut ledger = MockLedger::default();
        let internal = Attachment { visibility: Visibility::Internal, ..file(17, "notes.json") };
        ledger.archive.expect_attachment().returning(move |_, _| Ok(Some(internal.clone())));
        ledger.archive.expect_parts().times(1).returning(|_| Ok(Vec::new()));
        let revocation = LinkRevocation { count: 1, planned_count: 1 };
        ledger.storage.expect_revoke_links().times(1).returning(move |_| Ok(Some(revocation)));
        let (conversation, sender, access) = (conversation(), Sender::new("1", "Ada"), AccessPolicy::default());
        let context = CommandContext {
            turn: TurnId(Uuid::nil()),
            repeated: false,
            conversation: &conversation,
            group: false,
            sender: &sender,
            access: &access,
            now: Timestamp(0),
        };
        let answer = revoke_file_links(&ledger.into(), &context, &numbers("17"), true).await.unwrap();
        assert_eq!(answer.text.as_deref(), Some("All links to #17 are revoked."));
    }

    #[tokio::test]
    async fn where_no_links_are_given_none_is_ended() {
        let (conversation, sender, access) = (conversation(), Sender::new("1", "Ada"), AccessPolicy::default());
        let asked = CommandContext {
            turn: TurnId(Uuid::nil()),
            repeated: false,
            conversation: &conversation,
            group: false,
            sender: &sender,
            access: &access,
            now: Timestamp(0),
        };
        let answer = revoke_file_links(&MockLedger::default().into(), &asked, &numbers("17"), false).await.unwrap();
        assert!(answer.text.unwrap().starts_with("File links are off here"));
    }
}
