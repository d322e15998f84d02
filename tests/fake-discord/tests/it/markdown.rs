//! What a person sees of a message, by Discord's own grammar.

use satchel_fake_discord::{MarkKind, read_markdown};
use serde_json::json;

use crate::{Bot, CHANNEL};

fn check(cases: &[(&str, &str)]) {
    for (content, outline) in cases {
        assert_eq!(read_markdown(content).outline, *outline, "{content:?}");
    }
}

#[test]
fn marks_are_read_without_regard_to_words() {
    check(&[
        ("**b** *i* _i_ __u__ ~~s~~ ||h||", "[b:b] [i:i] [i:i] [u:u] [s:s] [spoiler:h]"),
        ("***both*** and **a *b* c**", "[i:[b:both]] and [b:a [i:b] c]"),
        ("2*3*4 and src/*.py, lib/*.rs", "2[i:3]4 and src/[i:.py, lib/].rs"),
        ("2 * 3 * 4 and 2 ** 3 ** 4", "2 * 3 * 4 and 2 [b: 3 ] 4"),
        ("이것은 **\"중요\"**합니다.", "이것은 [b:\"중요\"]합니다."),
        ("snake_case_name", "snake_case_name"),
        ("/shared/_drafts_/a and __init__.py", "/shared/[i:drafts]/a and [u:init].py"),
        (
            "gimmick_: <https://a.example/gimmick_/>",
            "gimmick[i:: <[link https://a.example/gimmick:https://a.example/gimmick]]/>",
        ),
        ("a ~ b ~20~ a || b", "a ~ b ~20~ a || b"),
        ("**a\n\nb**", "[b:a\n\nb]"),
        ("**a***b*", "[b:a*]b*"),
        ("\\*a\\* \\_\\_b\\_\\_ C:\\dir 1 \\\\ 2", "*a* __b__ C:\\dir 1 \\ 2"),
        ("¯\\_(ツ)_/¯", "¯\\_(ツ)_/¯"),
    ]);
}

#[test]
fn code_keeps_its_characters() {
    check(&[
        ("`rm *_a_*` and ``a`b``", "[code:rm *_a_*] and [code:a`b]"),
        ("` ``` ` and `` ` ``", "[code:```] and [code:`]"),
        ("``a`", "[code:`a]"),
        ("```rust\nlet a = *b;\n```", "[pre rust:let a = *b;]"),
        ("```\nrust\na```b", "[pre:rust\na]\nb"),
        ("````md\n```\nx\n```\n````", "[pre:`md]\nx\n[pre:`]"),
        ("*a `b*c`", "[i:a `b]c`"),
    ]);
}

#[test]
fn lines_begin_headings_quotes_and_lists() {
    check(&[
        ("# One\n## Two ##\n#### Four", "[h1:One]\n[h2:Two]\n#### Four"),
        ("# About C#\n#1 thing", "[h1:About C]\n#1 thing"),
        ("-# small\ntext", "[small:small]\ntext"),
        ("> a\n> \n> b\nc", "[quote:a\n\nb\n]c"),
        ("> a\n>b", "[quote:a\n]>b"),
        ("> > a\n> > b", "[quote:> a\n> b]"),
        ("a\n>>> b\n\nc **d**", "a\n[quote:b\n\nc [b:d]]"),
        ("> ```\n> x\n>   y\n> ```", "[quote:[pre:x\n  y]]"),
        ("- a\n- b\n  - c\n    more\n- # d\ne", "• a\n• b\n  • c\nmore\n• # d\ne"),
        ("3. a\n4. b\n\n9. c", "3. a\n4. b\n9. c"),
        ("a\n* b\n2024. c", "a\n• b\n• c"),
        ("a - b * c 1. d", "a - b * c 1. d"),
        ("\\- a\n2024\\. b", "- a\n2024. b"),
    ]);
}

#[test]
fn only_links_that_hide_nothing_are_links() {
    check(&[
        (
            "https://a.example/_a_/__b__?c=*d*, on",
            "[link https://a.example/_a_/__b__?c=*d*:https://a.example/_a_/__b__?c=*d*], on",
        ),
        ("https://a.example。次は *x*", "[link https://a.example。次は:https://a.example。次は] [i:x]"),
        ("<https://a.example/_a_>", "[link https://a.example/_a_:https://a.example/_a_]"),
        ("[a *b*](https://a.example/x_(y))", "[link https://a.example/x_(y):a [i:b]]"),
        ("[a](<https://a.example>) [b]", "[link https://a.example:a] [b]"),
        ("[a](/etc) [b](mailto:c@d.example)", "[a](/etc) [b](mailto:c@d.example)"),
        ("[see https://a.example](https://b.example)", "[see https://a.example](https://b.example)"),
        ("[a 🎉](https://a.example)", "[a 🎉](https://a.example)"),
        ("[\\*a\\*](https://a.example)", "[link https://a.example:\\*a\\*]"),
        ("\\[a](https://a.example)", "[a]([link https://a.example:https://a.example])"),
        (
            "<@42> <@&7> <#9> <:a_b:1> <t:170:R> @here <b>",
            "[mention:<@42>] [mention:<@&7>] [mention:<#9>] [mention:<:a_b:1>] [mention:<t:170:R>] [mention:@here] <b>",
        ),
    ]);
}

#[tokio::test]
async fn a_transcript_shows_what_is_seen() {
    let bot = Bot::start().await;
    bot.send(json!({ "content": "see **[this](https://a.example)**" })).await.expect("it is taken");
    let transcript = bot.fake.transcript();
    let seen = transcript.visible(CHANNEL).next().expect("it was sent").seen();
    assert_eq!((seen.text.as_str(), seen.links()), ("see this", vec!["https://a.example".to_owned()]));
    let bold = seen.marks.iter().find(|mark| mark.kind == MarkKind::Bold).expect("it is bold");
    assert_eq!(&seen.text[bold.range.clone()], "this");
}
