//! What replanning promises: it ends, and no file or word is lost on the way.

use std::collections::VecDeque;

use proptest::prelude::*;
use satchel_domain::{AttachmentId, part::Button};

use super::*;
use crate::{
    plan::plan,
    samples::{self, file, item},
    tables,
};

fn refused(reason: &str) -> FailureReason {
    FailureReason::Refused { reason: reason.to_owned() }
}

fn children(content: &PartContent, refusal: Refusal) -> Vec<PartContent> {
    match replan(content, &refusal, &refused("no"), &tables::telegram()) {
        ReplanOutcome::Children(children) => children.into_iter().map(|child| child.content).collect(),
        ReplanOutcome::GiveUp(_) | ReplanOutcome::SendNew => Vec::new(),
    }
}

fn photos(count: u64) -> Vec<FileItem> {
    (1..=count).map(|n| item(file(n, &format!("{n}.jpg"), "image/jpeg", 1_000), FileForm::Photo)).collect()
}

#[test]
fn refused_photo_becomes_document_then_gives_up() {
    let photo = photos(1).remove(0);
    let document = FileItem { form: FileForm::Document, ..photo.clone() };
    for refusal in
        [Refusal::UnsupportedKind, Refusal::TooLarge { limit: None }, Refusal::Other, Refusal::Item { index: 0 }]
    {
        let again = children(&PartContent::File(photo.clone()), refusal);
        assert_eq!(again, [PartContent::File(document.clone())]);
    }
    let given_up =
        |refusal| replan(&PartContent::File(document.clone()), &refusal, &refused("no"), &tables::telegram());
    assert_eq!(
        given_up(Refusal::TooLarge { limit: Some(5) }),
        ReplanOutcome::GiveUp(FailureReason::TooLarge { limit: 5 })
    );
    assert_eq!(
        given_up(Refusal::TooLarge { limit: None }),
        ReplanOutcome::GiveUp(FailureReason::TooLarge { limit: 50_000_000 })
    );
    assert_eq!(given_up(Refusal::Other), ReplanOutcome::GiveUp(FailureReason::Refused { reason: "no".to_owned() }));
}

#[test]
fn refused_album_splits_and_failing_file_becomes_document() {
    let forms = |parts: Vec<PartContent>| parts.iter().map(|part| part.files()[0].form).collect::<Vec<_>>();
    let album = PartContent::Album { items: photos(3) };
    assert_eq!(
        forms(children(&album, Refusal::Item { index: 1 })),
        [FileForm::Photo, FileForm::Document, FileForm::Photo]
    );
    assert_eq!(children(&album, Refusal::Item { index: 99 }).len(), 3);
    let halves = children(&PartContent::Album { items: photos(5) }, Refusal::TooLarge { limit: None });
    assert_eq!(halves.iter().map(|half| half.files().len()).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn files_over_learned_limit_fail_without_splitting_others() {
    let mut items = photos(4);
    items[1].attachment.bytes = 6_000;
    let capabilities = ChannelCapabilities { file_bytes: 5_000, ..tables::discord() };
    let too_large = Some(FailureReason::TooLarge { limit: 5_000 });
    let refusal = Refusal::TooLarge { limit: None };
    let album = PartContent::Album { items: items.clone() };
    let bundle = PartContent::Text { text: "hi".to_owned(), markup: Markup::Rich, files: items };
    for (content, before) in [(album, 0), (bundle, 1)] {
        let ReplanOutcome::Children(children) = replan(&content, &refusal, &refused("no"), &capabilities) else {
            panic!("it goes on")
        };
        let shown: Vec<_> = children[before..].iter().map(|part| (part.content.files().len(), &part.failure)).collect();
        assert_eq!(shown, [(1, &None), (1, &too_large), (2, &None)]);
    }
}

#[test]
fn oversized_bundle_becomes_text_then_files() {
    let bundle = PartContent::Text { text: "hi".to_owned(), markup: Markup::Rich, files: photos(2) };
    let parts = children(&bundle, Refusal::TooLarge { limit: None });
    assert_eq!(parts, [PartContent::from_text("hi"), PartContent::Album { items: photos(2) }]);
}

#[test]
fn bad_markup_becomes_plain_text_within_limit() {
    let text = "**word** ".repeat(500);
    let parts = children(&PartContent::from_text(text.trim()), Refusal::BadMarkup);
    assert_eq!(parts.len(), 2);
    for part in &parts {
        assert!(matches!(part, PartContent::Text { markup: Markup::Plain, text, .. } if text.len() <= 4096));
        assert!(children(part, Refusal::BadMarkup).is_empty());
    }
}

#[test]
fn forbidden_voice_becomes_file_then_text() {
    let voice = |in_text, as_file| PartContent::Voice {
        text: "hi".to_owned(),
        in_text,
        prepared: None,
        as_file,
        caption: String::new(),
    };
    assert_eq!(children(&voice(true, false), Refusal::VoiceForbidden), [voice(true, true)]);
    assert!(children(&voice(true, true), Refusal::UnsupportedKind).is_empty());
    let words = PartContent::Text { text: "hi".to_owned(), markup: Markup::Plain, files: Vec::new() };
    assert_eq!(children(&voice(false, true), Refusal::UnsupportedKind), [words]);
}

#[test]
fn notice_with_refused_markup_becomes_plain_text() {
    let notice = PartContent::Notice { text: "0 of 1 files sent".to_owned() };
    let plain = PartContent::Text { text: "0 of 1 files sent".to_owned(), markup: Markup::Plain, files: Vec::new() };
    assert_eq!(children(&notice, Refusal::BadMarkup), [plain]);
}

/// Platforms say no more than "Bad Request" about a button that they don't take.
#[test]
fn question_with_refused_buttons_becomes_plain_text() {
    let buttons = vec![Button { label: "Yes".to_owned(), command: "/yes 7".to_owned() }];
    let question = PartContent::question("Delete it? /yes 7 or /no 7", buttons);
    let text = "Delete it? /yes 7 or /no 7".to_owned();
    let plain = PartContent::Text { text, markup: Markup::Plain, files: Vec::new() };
    for refusal in [Refusal::Other, Refusal::BadMarkup, Refusal::UnsupportedKind, Refusal::TooLarge { limit: None }] {
        assert_eq!(children(&question, refusal), std::slice::from_ref(&plain));
    }
}

#[test]
fn missing_edit_target_leads_to_new_send() {
    let content = PartContent::from_text("hi");
    assert_eq!(replan(&content, &Refusal::TargetGone, &refused("gone"), &tables::telegram()), ReplanOutcome::SendNew);
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        proptest::option::of(any::<u64>()).prop_map(|limit| Refusal::TooLarge { limit }),
        Just(Refusal::UnsupportedKind),
        Just(Refusal::BadMarkup),
        Just(Refusal::VoiceForbidden),
        (0usize..12).prop_map(|index| Refusal::Item { index }),
        Just(Refusal::Other),
    ]
}

fn letters(content: &PartContent) -> String {
    let shown = match content {
        PartContent::Text { text, .. } | PartContent::Notice { text } | PartContent::Question { text, .. } => {
            text.as_str()
        }
        PartContent::Voice { text: words, .. } => words,
        _ => "",
    };
    let captions = content.files().iter().map(|item| item.caption.as_str());
    std::iter::once(shown).chain(captions).flat_map(str::chars).filter(|c| c.is_alphanumeric()).collect()
}

fn sorted(mut letters: Vec<char>) -> Vec<char> {
    letters.sort_unstable();
    letters
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn refusals_end_and_lose_nothing_on_the_way(
        response in samples::response(),
        capabilities in samples::capabilities(),
        refusals in prop::collection::vec(refusal(), 1..20),
    ) {
        let parts = plan(&response, &capabilities).parts;
        let files = |contents: &mut dyn Iterator<Item = &PartContent>| -> Vec<AttachmentId> {
            let mut ids: Vec<_> = contents.flat_map(PartContent::files).map(|item| item.attachment.id).collect();
            ids.sort_unstable();
            ids
        };
        let before = files(&mut parts.iter().map(|part| &part.content));
        let words_before = sorted(parts.iter().flat_map(|part| letters(&part.content).chars().collect::<Vec<_>>()).collect());
        let most = 40 + 20 * parts.iter().map(|part| 1 + part.content.files().len() + letters(&part.content).len()).sum::<usize>();
        let mut waiting: VecDeque<PartContent> = parts.into_iter().map(|part| part.content).collect();
        let mut given_up = Vec::new();
        let mut steps = 0;
        while let Some(content) = waiting.pop_front() {
            match replan(&content, &refusals[steps % refusals.len()], &refused("no"), &capabilities) {
                ReplanOutcome::Children(children) => {
                    prop_assert!(!children.is_empty());
                    children.into_iter().rev().for_each(|child| waiting.push_front(child.content));
                }
                ReplanOutcome::GiveUp(_) => given_up.push(content),
                ReplanOutcome::SendNew => prop_assert!(false, "nothing was edited"),
            }
            steps += 1;
            prop_assert!(steps < most, "no end after {steps} steps");
        }
        prop_assert_eq!(files(&mut given_up.iter()), before);
        let words_after = sorted(given_up.iter().flat_map(|content| letters(content).chars().collect::<Vec<_>>()).collect());
        prop_assert_eq!(words_after, words_before);
    }
}

#[test]
fn refused_blocks_become_lines_and_a_refused_sample_says_so() {
    let blocks = |text: &str| PartContent::Text { text: text.to_owned(), markup: Markup::Blocks, files: Vec::new() };
    let table = "| a | b |\n|---|---|\n| 1 | 2 |";
    let replanned = |content: &PartContent, refusal: Refusal| {
        let failure = FailureReason::Refused { reason: "RICH_MESSAGE_DEPTH_INVALID".to_owned() };
        match replan(content, &refusal, &failure, &tables::telegram()) {
            ReplanOutcome::Children(parts) => parts.into_iter().map(|part| part.content).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    for refusal in [Refusal::BadMarkup, Refusal::TooLarge { limit: None }, Refusal::Other] {
        assert_eq!(replanned(&blocks(table), refusal), [PartContent::from_text(table)]);
    }
    let long = replanned(&blocks(&format!("{table}\n\n{}", "Some words. ".repeat(800))), Refusal::BadMarkup);
    assert!(long.len() > 1 && long.iter().all(|part| matches!(part, PartContent::Text { markup: Markup::Rich, .. })));
    let sample = PartContent::Question { text: table.to_owned(), markup: Markup::Blocks, buttons: Vec::new() };
    assert_eq!(replanned(&sample, Refusal::BadMarkup), [PartContent::from_text(NO_BLOCKS_TEXT)]);
}
