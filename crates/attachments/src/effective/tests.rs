//! Expansion, merge and the two phases, over files in memory.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use satchel_ports::{BlobHint, ByteStream, DeclaredFileError, DeclaredFiles, FileEntry, OpenedFile};
use serde_json::json;

use super::*;
use crate::{
    order::{Playbooks, ResolvedTask},
    parse::parse_playbook,
    playbook::Playbook,
};

/// Files by their paths, and where links lead.
#[derive(Default)]
struct MemoryFiles {
    files: Vec<&'static str>,
    links: BTreeMap<&'static str, &'static str>,
}

#[async_trait]
impl DeclaredFiles for MemoryFiles {
    async fn list(&self, root: &Path, directory: &str, deep: bool) -> Result<Vec<FileEntry>, DeclaredFileError> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let inside = self.files.iter().filter_map(|file| Some((file, file.strip_prefix(&prefix)?)));
        let mut listed: Vec<FileEntry> = inside
            .filter(|(_, rest)| deep || !rest.contains('/'))
            .map(|(file, _)| FileEntry { path: (*file).to_owned(), canonical: root.join(self.target(file)) })
            .collect();
        listed.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    async fn canonical_path(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        let path = path.to_str()?.trim_start_matches("./");
        self.files.contains(&path).then(|| root.join(self.target(path)))
    }

    async fn open(&self, _: &Path, path: &Path) -> Result<OpenedFile, DeclaredFileError> {
        Err(DeclaredFileError::Missing(path.to_owned()))
    }

    async fn store(&self, _: ByteStream, _: &BlobHint) -> Result<OpenedFile, DeclaredFileError> {
        Err(DeclaredFileError::QuotaExceeded { limit: 0 })
    }
}

impl MemoryFiles {
    fn target<'a>(&'a self, file: &'a str) -> &'a str {
        self.links.get(file).copied().unwrap_or(file)
    }
}

fn assets() -> MemoryFiles {
    let files = vec![
        "assets/b.png",
        "assets/a.png",
        "assets/deep/c.png",
        "assets/a.jpg",
        "cover.jpg",
        "batch/1.jpg",
        "batch/2.png",
        "screenshots/latest.jpg",
        "in/cover.png",
        "in/thumbnails/x.jpg",
        "in/thumbnails/y.jpg",
        "alias.png",
    ];
    MemoryFiles { files, links: BTreeMap::from([("alias.png", "assets/a.png")]) }
}

fn playbook(text: &str) -> Playbook {
    let file: Arc<Path> = Arc::from(Path::new("/conf/demo.yaml"));
    let root = satchel_yaml::parse(text).expect("it is YAML");
    parse_playbook(&file, &Arc::from(Path::new("/conf")), &root).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn playbooks(text: &str) -> Playbooks {
    Playbooks::new(vec![playbook(text)]).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// One task whose declarations, and those of its agent and action, are given in flow style.
fn demo(task: &str, agent: &str, action: &str) -> Playbooks {
    playbooks(&format!(
        "agents:\n  - id: a\n    instructions: x\n    attachments: [{agent}]\n    actions:\n      - id: go\n        prompt: p\n        \
         attachments: [{action}]\ntasks:\n  - id: t\n    agent: a\n    action: go\n    attachments: [{task}]\n  - id: gen\n    agent: a\n    action: go\n"
    ))
}

fn context() -> TemplateContext {
    let input = json!({ "image_url": "https://foo.com/in.png", "assets_dir": "in", "kind": "image" });
    let input = input.as_object().expect("it is a map").clone();
    TemplateContext::new().with_workflow("demo", "0190", input.clone()).with_values("input", input)
}

async fn load(task: ResolvedTask<'_>, context: &TemplateContext) -> Result<EffectiveList, String> {
    let problems =
        |problems: Vec<DeclarationProblem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    EffectiveList::load(&task.scopes(), context, &assets()).await.map_err(problems)
}

async fn load_demo(task: &str, agent: &str, action: &str) -> Result<Vec<String>, String> {
    let playbooks = demo(task, agent, action);
    Ok(lines(&load(playbooks.task("t").expect("it is declared"), &context()).await?))
}

/// One line for each entry.
fn lines(list: &EffectiveList) -> Vec<String> {
    let line = |entry: &EffectiveEntry| match entry {
        EffectiveEntry::Item(item) => {
            let name = item.name.as_ref().map(|name| format!(" name={name}")).unwrap_or_default();
            let meta = if item.meta.is_empty() { String::new() } else { format!(" meta={}", json!(*item.meta)) };
            format!("{} {} {}{name}{meta}", item.scope.name(), item.kind, item.source)
        }
        EffectiveEntry::Deferred(deferred) => {
            format!("{} deferred {}", deferred.scope.name(), deferred.declaration.source.texts[0].template.source())
        }
        EffectiveEntry::Unmatched(unmatched) => format!("{} unmatched {}", unmatched.scope.name(), unmatched.pattern),
    };
    list.entries().iter().map(line).collect()
}

#[tokio::test]
async fn plural_sources_expand_in_authors_order() {
    let lines = load_demo(
        "{ type: image, paths: ['./cover.jpg', './assets/*.png', '**/x.jpg'], name: n, meta: { k: v } }, \
         { type: pdf, urls: ['https://b.com/2.pdf', 'https://a.com/1.pdf'] }",
        "",
        "",
    );
    let meta = r#" name=n meta={"k":"v"}"#;
    assert_eq!(
        lines.await.unwrap(),
        [
            format!("task image ./cover.jpg{meta}"),
            format!("task image assets/a.png{meta}"),
            format!("task image assets/b.png{meta}"),
            format!("task image in/thumbnails/x.jpg{meta}"),
            "task pdf https://b.com/2.pdf".to_owned(),
            "task pdf https://a.com/1.pdf".to_owned(),
        ]
    );
}

#[tokio::test]
async fn globs_know_stars_alternatives_and_classes() {
    for (pattern, expected) in [
        ("assets/*.png", &["assets/a.png", "assets/b.png"][..]),
        ("assets/**/*.png", &["assets/a.png", "assets/b.png", "assets/deep/c.png"]),
        ("./assets/{a,b}.{png,jpg}", &["assets/a.jpg", "assets/a.png", "assets/b.png"]),
        ("assets/[ab].png", &["assets/a.png", "assets/b.png"]),
        ("assets/?.jpg", &["assets/a.jpg"]),
        ("*/1.jpg", &["batch/1.jpg"]),
        ("{batch,screenshots}/*.jpg", &["batch/1.jpg", "screenshots/latest.jpg"]),
        ("./assets/.//deep/*.png", &["assets/deep/c.png"]),
        ("ass\\ets/*.jpg", &["assets/a.jpg"]),
    ] {
        let lines = load_demo(&format!("{{ type: image, paths: ['{pattern}'] }}"), "", "").await.unwrap();
        let expected: Vec<String> = expected.iter().map(|path| format!("task image {path}")).collect();
        assert_eq!(lines, expected, "{pattern}");
    }
}

#[tokio::test]
async fn glob_without_match_fails_unless_optional() {
    let error = load_demo("{ type: image, paths: ['nothing/*.png'] }", "", "").await.unwrap_err();
    assert_eq!(
        error,
        "/conf/demo.yaml:13:42: tasks.t.attachments[0]: no file matches \"nothing/*.png\" beneath /conf; `optional: true` allows that"
    );
    let lines =
        load_demo("{ type: image, paths: ['nothing/*.png', 'cover.jpg'], optional: true }", "", "").await.unwrap();
    assert_eq!(lines, ["task unmatched nothing/*.png", "task image cover.jpg"]);
}

#[tokio::test]
async fn scopes_are_merged_by_canonical_resource() {
    let lines = load_demo(
        "{ type: image, path: ./assets/a.png, name: first, meta: { from: task } }, { type: image, url: 'https://foo.com/1.png', name: one }",
        "{ type: file, path: assets/a.png }, { type: image, url: 'HTTPS://Foo.com:443/1.png#top', meta: { from: agent } }",
        "{ type: image, path: alias.png, name: last }, { type: image, url: 'https://foo.com/1.png?size=2' }",
    );
    assert_eq!(
        lines.await.unwrap(),
        [
            "agent file assets/a.png",
            r#"agent image https://foo.com/1.png name=one meta={"from":"agent"}"#,
            r#"task image ./assets/a.png name=last meta={"from":"task"}"#,
            "action image https://foo.com/1.png?…",
        ],
        "the key is the kind with the URL or the path, never the name"
    );
}

#[tokio::test]
async fn duplicate_that_is_needed_makes_optional_one_needed() {
    let playbooks = demo("{ type: file, path: cover.jpg, optional: true }", "{ type: file, path: cover.jpg }", "");
    let list = load(playbooks.task("t").unwrap(), &context()).await.unwrap();
    let [EffectiveEntry::Item(item)] = list.entries() else { panic!("{list:?}") };
    assert!(!item.optional);
}

#[tokio::test]
async fn deferred_items_keep_their_place() {
    let playbooks = demo(
        "{ type: image, path: cover.jpg }, { type: image, path: '{{ .tasks.gen.output.path }}', name: 'made:{{ .workflow.exec_id }}' }, \
         { type: image, paths: ['{{ .tasks.gen.output.dir }}/*.png', 'batch/1.jpg'] }",
        "{ type: image, path: assets/a.png, name: agents }",
        "",
    );
    let pending = context().with_pending_task("gen");
    let list = load(playbooks.task("t").unwrap(), &pending).await.unwrap();
    assert_eq!(
        lines(&list),
        [
            "agent image assets/a.png name=agents",
            "task image cover.jpg",
            "task deferred {{ .tasks.gen.output.path }}",
            "task deferred {{ .tasks.gen.output.dir }}/*.png",
        ]
    );
    let done = pending.with_task_output("gen", json!({ "path": "batch/2.png", "dir": "assets" }));
    let list = list.complete(&done, &assets()).await.unwrap();
    assert_eq!(
        lines(&list),
        [
            "agent image assets/a.png name=agents",
            "task image cover.jpg",
            "task image batch/2.png name=made:0190",
            "task image assets/b.png",
            "task image batch/1.jpg",
        ],
        "expanded and merged in its place"
    );
}

/// What stands between two of the same resource is known only later, and the last one wins then, too.
#[tokio::test]
async fn last_name_wins_across_phases() {
    let playbooks = demo(
        "{ type: image, path: assets/a.png, name: first }, { type: image, path: '{{ .tasks.gen.output.path }}', name: middle }",
        "",
        "{ type: image, path: assets/a.png, name: last }",
    );
    let pending = context().with_pending_task("gen");
    let list = load(playbooks.task("t").unwrap(), &pending).await.unwrap();
    let done = pending.with_task_output("gen", json!({ "path": "assets/a.png" }));
    let list = list.complete(&done, &assets()).await.unwrap();
    assert_eq!(lines(&list), ["task image assets/a.png name=last"]);
}

#[tokio::test]
async fn own_inputs_are_deferred_with_their_tasks() {
    let playbooks = playbooks(
        "agents: [{ id: a, instructions: x, actions: [{ id: go, prompt: p }] }]\ntasks:\n  - { id: gen, agent: a, action: go }\n  \
         - id: t\n    agent: a\n    action: go\n    input: { made: '{{ .tasks.gen.output.path }}', city: '{{ .env.NOPE }}' }\n    \
         attachments: [{ type: image, path: '{{ .input.made | default(\"cover.jpg\") }}', name: '{{ .input.city }}' }]\n",
    );
    let task = playbooks.task("t").unwrap();
    let values = |city: &str| json!({ "city": city, "NOPE": "Berlin" }).as_object().unwrap().clone();
    // Whoever runs the task can't change what it gives itself.
    let given = TemplateContext::new().with_values("input", values("Rome")).with_values("env", values("Rome"));
    let pending = given.with_pending_task("gen");
    let list = load(task, &task.with_task_input(pending.clone()).unwrap()).await.unwrap();
    assert_eq!(lines(&list), ["task deferred {{ .input.made | default(\"cover.jpg\") }}"]);
    let done = pending.with_task_output("gen", json!({ "path": "batch/2.png" }));
    let list = list.complete(&task.with_task_input(done).unwrap(), &assets()).await.unwrap();
    assert_eq!(lines(&list), ["task image batch/2.png name=Berlin"]);
    let missing = task.with_task_input(TemplateContext::new().with_pending_task("gen")).unwrap_err();
    assert!(missing.message.contains("`input.city`: `{{ .env.NOPE }}`: `env.NOPE` is not given"), "{missing}");
}

/// Output of the first phase and of tasks is data: it is rendered in neither phase.
#[tokio::test]
async fn nothing_is_rendered_twice() {
    let playbooks = demo(
        "{ type: file, path: '{{ .input.evil }}', name: '{{ .input.evil }}' }, { type: file, path: '{{ .tasks.gen.output.path }}' }",
        "",
        "",
    );
    let evil = "{{ .tasks.gen.output.secret }}";
    let input = json!({ "evil": evil }).as_object().unwrap().clone();
    let pending = TemplateContext::new().with_values("input", input).with_pending_task("gen");
    let list = load(playbooks.task("t").unwrap(), &pending).await.unwrap();
    let done = pending.with_task_output("gen", json!({ "path": "{{ .workflow.id }}", "secret": "s3cret" }));
    let list = list.complete(&done, &assets()).await.unwrap();
    assert_eq!(lines(&list), [format!("task file {evil} name={evil}"), "task file {{ .workflow.id }}".to_owned()]);
}

#[tokio::test]
async fn templated_type_is_checked_after_rendering() {
    let lines = load_demo("{ type: '{{ .input.kind }}', path: cover.jpg }", "", "").await.unwrap();
    assert_eq!(lines, ["task image cover.jpg"]);
    let error = load_demo("{ type: '{{ .input.assets_dir }}', path: cover.jpg }", "", "").await.unwrap_err();
    assert!(error.contains("`type` is \"in\"; allowed are image, pdf, audio"), "{error}");
    let error = load_demo("{ type: '{{ .input.kind | replace(\"image\", \"url\") }}', path: cover.jpg }", "", "").await;
    assert!(error.unwrap_err().contains("`type: url` takes `url`, not `path`"));
}

#[tokio::test]
async fn eight_fields_are_templates() {
    let lines = load_demo(
        "{ type: '{{ .input.kind }}', url: '{{ .input.image_url }}', name: '{{ .workflow.id }}', mime: 'image/{{ .input.assets_dir }}', meta: { a: ['{{ .workflow.exec_id }}'] } }, \
         { type: image, path: '{{ .input.assets_dir }}/cover.png' }, { type: image, urls: ['{{ .input.image_url }}2'] }, \
         { type: image, paths: ['{{ .input.assets_dir }}/thumbnails/*.jpg'] }",
        "",
        "",
    );
    assert_eq!(
        lines.await.unwrap(),
        [
            r#"task image https://foo.com/in.png name=demo meta={"a":["0190"]}"#,
            "task image in/cover.png",
            "task image https://foo.com/in.png2",
            "task image in/thumbnails/x.jpg",
            "task image in/thumbnails/y.jpg",
        ]
    );
}

#[tokio::test]
async fn rendered_mistakes_name_field_and_key() {
    for (item, message) in [
        (
            "{ type: image, url: '{{ .input.nope }}' }",
            "`url`: `{{ .input.nope }}`: `input.nope` is not given; there is image_url, assets_dir, kind",
        ),
        ("{ type: image, urls: ['https://a', '{{ .input.nope }}'] }", "`urls[1]`: "),
        ("{ type: image, url: '{{ .input.kind }}' }", "`url`: this is not a URL"),
        ("{ type: image, path: '{{ \"\" }}' }", "`path` is empty"),
        ("{ type: image, paths: ['{{ \"{a,..}\" }}/*'] }", "goes up with `..`"),
        ("{ type: image, paths: ['{{ \"../\" }}*'] }", "`paths[0]`: \"..\" comes from a value"),
        ("{ type: file, path: 'reports/{{ \"../satchel.yaml\" }}' }", "`path`: \"..\" comes from a value"),
        (
            "{ type: image, path: x, meta: { a: { b: '{{ .env.X }}' } } }",
            "`meta.a.b`: `{{ .env.X }}`: `env.X` is not given",
        ),
        ("{ type: image, path: x, name: '{{ .input.nope }}' }", "`name`: "),
        ("{ type: image, path: x, mime: '{{ .input.nope }}' }", "`mime`: "),
    ] {
        let error = load_demo(item, "", "").await.expect_err(item);
        assert!(error.starts_with("/conf/demo.yaml:13:") && error.contains(message), "{item}: {error}");
    }
}

#[test]
fn tasks_run_after_those_whose_output_they_need() {
    let playbooks = playbooks(
        "agents:\n  - id: a\n    instructions: x\n    actions:\n      - id: go\n        prompt: p\n      - id: sum\n        prompt: '{{ .tasks.one.output.text }}'\n\
         tasks:\n  - { id: three, agent: a, action: sum, attachments: [{ type: file, path: '{{ .tasks.two.output.path }}' }] }\n  \
         - { id: two, agent: a, action: go, input: { x: '{{ .tasks.one.output.text }}' } }\n  - { id: one, agent: a, action: go }\n",
    );
    let order = |id: &str| playbooks.run_order(id).iter().map(|task| task.task.id.clone()).collect::<Vec<_>>();
    assert_eq!(order("three"), ["one", "two", "three"]);
    assert_eq!(order("two"), ["one", "two"]);
    assert_eq!(order("one"), ["one"]);
    assert!(order("none").is_empty());
}

/// Each task needs the two before it, so the ways through them are too many to be followed one by one.
#[test]
fn many_ways_through_tasks_are_checked_at_once() {
    let mut yaml = "agents: [{ id: a, instructions: x, actions: [{ id: go, prompt: p }] }]\ntasks:\n  - { id: t0, agent: a, action: go }\n  - { id: t1, agent: a, action: go }\n".to_owned();
    for index in 2..60 {
        yaml += &format!(
            "  - {{ id: t{index}, agent: a, action: go, input: {{ x: '{{{{ .tasks.t{}.output.text }}}}{{{{ .tasks.t{}.output.text }}}}' }} }}\n",
            index - 1,
            index - 2
        );
    }
    let playbooks = playbooks(&yaml);
    assert_eq!(playbooks.run_order("t59").len(), 60);
}

#[tokio::test]
async fn directory_that_cannot_be_listed_fails_its_globs() {
    let mut files = satchel_ports::MockDeclaredFiles::new();
    files.expect_list().returning(|_, directory, _| match directory {
        "secret" => Err(DeclaredFileError::Io {
            operation: "list",
            path: "secret".into(),
            source: std::io::ErrorKind::PermissionDenied.into(),
        }),
        _ => Ok(vec![FileEntry { path: format!("{directory}/a.png"), canonical: "/conf/a.png".into() }]),
    });
    let load = async |task: &str| {
        let playbooks = demo(task, "", "");
        let task = playbooks.task("t").unwrap();
        EffectiveList::load(&task.scopes(), &context(), &files).await.map(|list| lines(&list))
    };
    let optional = "{ type: image, paths: ['secret/*.png'], optional: true }, { type: image, paths: ['open/*.png'] }";
    assert_eq!(load(optional).await.unwrap(), ["task unmatched secret/*.png", "task image open/a.png"]);
    let problems = load("{ type: image, paths: ['secret/*.png'] }").await.unwrap_err();
    assert!(problems[0].message.contains("failed to list secret: permission denied"), "{}", problems[0]);
}

#[test]
fn names_that_lead_nowhere_are_reported() {
    let fail = |text: &str| {
        let problems =
            Playbooks::new(vec![playbook(text), playbook("agents: [{ id: twin, instructions: x }]")]).unwrap_err();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(fail(
        "agents:\n  - { id: twin, instructions: x, actions: [{ id: go, prompt: p }] }\ntasks:\n  - { id: a, agent: nobody, action: go }\n  \
         - { id: b, agent: twin, action: walk }\n  - { id: c, agent: twin, action: go, attachments: [{ type: file, path: '{{ .tasks.z.output.path }}' }] }\n"
    ));
    let cycle = "agents:\n  - { id: a, instructions: x, actions: [{ id: go, prompt: p }] }\ntasks:\n  \
                 - { id: one, agent: a, action: go, input: { x: '{{ .tasks.two.output.text }}' } }\n  \
                 - { id: two, agent: a, action: go, input: { x: '{{ .tasks.three.output.text }}' } }\n  \
                 - { id: three, agent: a, action: go, input: { x: '{{ .tasks.two.output.text }}' } }\n  \
                 - { id: self, agent: a, action: go, input: { x: '{{ .tasks.self.output.text }}' } }\n";
    let problems = Playbooks::new(vec![playbook(cycle)]).unwrap_err();
    assert_eq!(problems[0].message, "needs its own output: two → three → two");
}

/// The examples of the design that the format comes from.
#[tokio::test]
async fn examples_of_the_design_are_read_and_merged() {
    let playbooks = playbooks(include_str!("design_examples.yaml"));
    let mut text = String::new();
    for task in playbooks.tasks() {
        let pending = playbooks.run_order(&task.task.id).iter().fold(context(), |context, needed| {
            if needed.task.id == task.task.id { context } else { context.with_pending_task(&needed.task.id) }
        });
        let list = load(task, &pending).await.unwrap();
        text.push_str(&format!("{}\n  {}\n", task.task.id, lines(&list).join("\n  ")));
        if list.entries().iter().any(|entry| matches!(entry, EffectiveEntry::Deferred(_))) {
            let done = pending.with_task_output("generate-image", json!({ "path": "assets/deep/c.png" }));
            text.push_str(&format!(
                "{}, completed\n  {}\n",
                task.task.id,
                lines(&list.complete(&done, &assets()).await.unwrap()).join("\n  ")
            ));
        }
    }
    insta::assert_snapshot!(text);
}
