//! What a file declares, and what is said about its mistakes.

use std::{path::Path, sync::Arc};

use satchel_domain::AllowedPeople;

use crate::{
    declaration::DeclaredKind,
    kind::{AttachmentKind, SourceField},
    parse::{parse_playbook, read_playbook},
    playbook::Playbook,
};

fn parse(text: &str) -> Result<Playbook, String> {
    let file: Arc<Path> = Arc::from(Path::new("playbooks/nightly.yaml"));
    let root = satchel_yaml::parse(text).expect("it is YAML");
    parse_playbook(&file, &Arc::from(Path::new("/conf/playbooks")), &root)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// The problems of one item of `attachments`, which begins in line 4, column 7.
fn problems(item: &str) -> String {
    let text = format!("tasks:\n  - id: t\n    attachments:\n      - {item}\n    agent: a\n    action: b\n");
    parse(&text).expect_err(item)
}

#[test]
fn all_kinds_and_sources_are_read() {
    let playbook = parse(
        "tasks:\n  - id: t\n    agent: { id: a }\n    action: b\n    type: basic\n    allow: everyone\n    attachments:\n      \
         - { type: image, url: http://x/a.png, name: n, mime: image/png, meta: { a: 1, b: [x, {c: '{{ .workflow.id }}'}], d: ~ } }\n      \
         - { type: image, paths: [./assets/**/*.png, ./cover.jpg] }\n      \
         - { type: Document, urls: [http://x/a.pdf, https://x/b.pdf] }\n      \
         - { type: file, path: ./data.csv, optional: true }\n      \
         - { type: url, url: https://example.com }\n      \
         - { type: '{{ .input.kind }}', path: a }\n",
    )
    .unwrap();
    assert_eq!(playbook.id, "nightly");
    let task = &playbook.tasks[0];
    assert_eq!((task.agent.as_str(), task.action.as_str(), task.allow), ("a", "b", AllowedPeople::Everyone));
    let read: Vec<_> = task
        .attachments
        .iter()
        .map(|declaration| {
            let kind = match &declaration.kind {
                DeclaredKind::Fixed(kind) => Some(*kind),
                DeclaredKind::Template(_) => None,
            };
            (kind, declaration.source.field, declaration.source.texts.len(), declaration.optional)
        })
        .collect();
    assert_eq!(
        read,
        [
            (Some(AttachmentKind::Image), SourceField::Url, 1, false),
            (Some(AttachmentKind::Image), SourceField::Paths, 2, false),
            (Some(AttachmentKind::Pdf), SourceField::Urls, 2, false),
            (Some(AttachmentKind::File), SourceField::Path, 1, true),
            (Some(AttachmentKind::Url), SourceField::Url, 1, false),
            (None, SourceField::Path, 1, false),
        ]
    );
    let last = &task.attachments[5];
    assert_eq!(
        (last.item.as_str(), last.position.to_string()),
        ("tasks.t.attachments[5]", "playbooks/nightly.yaml:13:9".into())
    );
    assert_eq!(&*last.root, Path::new("/conf/playbooks"));
}

#[test]
fn each_mistake_says_where_what_and_what_is_allowed() {
    let cases = [
        "{ type: gif, url: http://x/a }",
        "{ url: http://x/a }",
        "{ type: image }",
        "{ type: file }",
        "{ type: image, url: http://x/a, path: ./a.png }",
        "{ type: image, url: http://x/a, urls: [http://x/b], paths: [a] }",
        "{ type: file, url: http://x/a }",
        "{ type: url, path: ./a }",
        "{ type: image, uri: http://x/a }",
        "{ type: image, urls: [] }",
        "{ type: image, paths: [] }",
        "{ type: image, paths: ./a.png }",
        "{ type: image, url: not a url }",
        "{ type: image, url: 'ftp://x/a' }",
        "{ type: image, url: 'https://' }",
        "{ type: image, paths: ['a/[b'] }",
        "{ type: image, paths: ['a/{b'] }",
        "{ type: image, paths: [a.png, '../*.png'] }",
        "{ type: image, paths: ['/etc/*'] }",
        "{ type: image, paths: ['{..,a}/*'] }",
        "{ type: image, path: 5 }",
        "{ type: image, path: '' }",
        "{ type: image, path: a, optional: maybe }",
        "{ type: image, path: a, max_width: wide }",
        "{ type: image, path: a, max_height: 0 }",
        "{ type: image, path: a, max_pages: 2 }",
        "{ type: pdf, path: a, max_width: 100 }",
        "{ type: image, path: a, meta: x }",
        "{ type: image, path: a, name: '{{ .inputs.x }}' }",
        "just text",
    ];
    let found: Vec<String> =
        cases.iter().map(|case| format!("{case}\n  {}", problems(case).replace('\n', "\n  "))).collect();
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn home_directory_in_a_path_is_refused() {
    for (item, key, column) in [
        ("{ type: image, path: '~/a.png' }", "path", 30),
        ("{ type: image, paths: [a.png, '~/b.png'] }", "paths[1]", 39),
        ("{ type: image, paths: ['~/*.png'] }", "paths[0]", 32),
    ] {
        let expected =
            format!("playbooks/nightly.yaml:4:{column}: tasks.t.attachments[0]: `{key}`: `~` isn't expanded");
        assert!(problems(item).starts_with(&expected), "{item}: {}", problems(item));
    }
}

#[test]
fn what_could_be_read_comes_with_the_mistakes() {
    let yaml =
        "agents:\n  - id: cook\n    instructions: Cook.\n    color: red\n    tools: [dice]\n  - instructions: x\n";
    let (file, root) = (Arc::from(Path::new("a.yaml")), satchel_yaml::parse(yaml).expect("it is YAML"));
    let (playbook, problems) = read_playbook(&file, &Arc::from(Path::new("/conf")), &root);
    assert_eq!((playbook.agents.len(), playbook.agents[0].id.as_str(), problems.len()), (1, "cook", 2));
}

#[test]
fn mistakes_of_agents_and_tasks_are_all_reported() {
    let text = "agents:\n  - id: cook\n    instructions: Cook.\n    allow: nobody\n    color: red\n  - id: cook\n    instructions: x\n    \
                actions:\n      - id: a\n        prompt: p\n      - id: a\n        prompt: q\n  - id: 5th\n    instructions: x\n  - instructions: x\n  \
                - id: silent\n  - id: x\n    instructions: x\n    tools: all\ntasks:\n  - id: t\n    type: parallel\n    agent: {}\n    action: a\n    input: [x]\n  \
                - id: u\n    agent: cook\n";
    insta::assert_snapshot!(parse(text).unwrap_err());
    let reserved = parse("agents: [{ id: Default, instructions: x }]").unwrap_err();
    assert!(reserved.contains("`id` is \"Default\", the name of the agent without a declaration"), "{reserved}");
    insta::assert_snapshot!(parse("agents:\n  cook:\n    instructions: x\ntasks: 5\n").unwrap_err());
}

#[test]
fn files_without_declarations_are_empty() {
    for text in ["", "log: debug\n", "agents:\ntasks: []\n"] {
        let playbook = parse(text).unwrap();
        assert!(playbook.agents.is_empty() && playbook.tasks.is_empty(), "{text:?}");
    }
}
