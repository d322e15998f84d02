//! What templates yield, what they defer, and what is said about mistakes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn map(value: Value) -> serde_json::Map<String, Value> {
    let Value::Object(map) = value else { panic!("{value} is no map") };
    map
}

fn context() -> TemplateContext {
    let input = json!({
        "image_url": "http://x/a.png", "user-name": "bob", "a": 5, "list": ["one", "two"],
        "evil": "{{ .workflow.id }} {{ .tasks.gen.output.path }}", "nothing": null, "map": {"k": "v"},
    });
    TemplateContext::new()
        .with_workflow("nightly", "0190", map(input.clone()))
        .with_values("input", map(input))
        .with_values("env", map(json!({"CITY": "Berlin"})))
        .with_pending_task("generate-image")
        .with_task_output("gen", json!({"path": "/tmp/a.png", "files": ["f0", "f1"]}))
}

fn render(text: &str) -> Result<RenderedText, TemplateError> {
    Template::parse(text)?.render(&context())
}

fn text(template: &str) -> String {
    match render(template) {
        Ok(RenderedText::Text(text)) => text,
        other => panic!("{template}: {other:?}"),
    }
}

fn error(template: &str) -> String {
    render(template).expect_err(template).to_string()
}

#[test]
fn both_spellings_of_paths_are_rendered() {
    for (template, expected) in [
        ("{{ .workflow.id }}", "nightly"),
        ("{{ workflow.id }}", "nightly"),
        ("{{workflow.id}}", "nightly"),
        ("a {{ .workflow.id }}/{{ .workflow.exec_id }} z", "a nightly/0190 z"),
        ("{{ .input.image_url }}", "http://x/a.png"),
        ("{{ env.CITY }}", "Berlin"),
        ("{{ .input.a }}", "5"),
        ("{{- \" x\" -}} y", " xy"),
    ] {
        assert_eq!(text(template), expected, "{template}");
    }
}

#[test]
fn hyphenated_ids_need_no_quoting() {
    assert_eq!(text("{{ .workflow.input.user-name | upper }}"), "BOB");
    assert_eq!(text("{{ workflow.input.a - 1 }}"), "4");
    assert_eq!(text("{{ workflow.input.a -1 }}"), "4");
    assert_eq!(render("{{ .tasks.generate-image.output.path }}").unwrap(), RenderedText::Deferred);
}

#[test]
fn indexes_and_subscripts_belong_to_paths() {
    assert_eq!(text("{{ .tasks.gen.output.files.1 }}"), "f1");
    assert_eq!(text("{{ tasks[\"gen\"].output.files[0] }}"), "f0");
    assert_eq!(text("{{ (input.list)[1] }}"), "two");
    assert_eq!(text("{{ input.list | first }}"), "one");
    assert_eq!(text("{{ [input.map][0].k }}"), "v");
}

#[test]
fn filters_and_operators_of_minijinja_work() {
    for (template, expected) in [
        ("{{ .input.nope | default(\"x\") }}", "x"),
        ("{{ .input.nope.deep.deeper | default(\"x\") }}", "x"),
        ("{{ .input.nothing | default(\"x\") }}", "x"),
        ("{{ \"yes\" if input.a > 4 else \"no\" }}", "yes"),
        ("{{ \"yes\" if input.nope is defined else \"no\" }}", "no"),
        ("{{ \"yes\" if input.nope is not defined else \"no\" }}", "yes"),
        ("{{ \"a .b {{ c }}\" ~ input.a }}", "a .b {{ c }}5"),
        ("{{ input.list | join(\"-\") }}", "one-two"),
        ("{{ input.image_url | replace(\"http\", \"https\") }}", "https://x/a.png"),
        ("{{ input[\"user-name\"] | length }}", "3"),
        ("{{ 'a' if false else 'x}}y' }}", "x}}y"),
        ("{{ input.map | tojson }}", "{\"k\":\"v\"}"),
        ("{{ \"a b\" | urlencode }}", "a%20b"),
        ("{{ \"one\" in input.list }}", "true"),
    ] {
        assert_eq!(text(template), expected, "{template}");
    }
}

#[test]
fn input_that_looks_like_a_template_stays_inert() {
    let evil = "{{ .workflow.id }} {{ .tasks.gen.output.path }}";
    assert_eq!(text("{{ .input.evil }}"), evil);
    assert_eq!(text("{{ .input.evil }}{{ .input.evil | lower }}"), format!("{evil}{evil}"));
}

#[test]
fn only_texts_that_need_pending_tasks_are_deferred() {
    for deferred in [
        "{{ .tasks.generate-image.output.path }}",
        "x {{ tasks[\"generate-image\"].output.path | upper }}",
        "{{ .workflow.id }}/{{ .tasks.generate-image.output.path }}",
        "{{ tasks | tojson }}",
    ] {
        assert_eq!(render(deferred).unwrap(), RenderedText::Deferred, "{deferred}");
    }
    assert_eq!(text("{{ .tasks.gen.output.path }}"), "/tmp/a.png");
    let later = context().with_task_output("generate-image", json!({"path": "b.png"}));
    let template = Template::parse("{{ .workflow.id }}/{{ .tasks.generate-image.output.path }}").unwrap();
    assert_eq!(template.render(&later).unwrap(), RenderedText::Text("nightly/b.png".to_owned()));
    assert_eq!(template.referenced_tasks().collect::<Vec<_>>(), ["generate-image"]);
}

/// A typo beside the output of a task is found when the file is loaded, not after the task.
#[test]
fn deferred_texts_are_checked_as_far_as_possible() {
    let message = error("{{ .input.typo }}/{{ .tasks.generate-image.output.path }}");
    assert!(message.contains("`input.typo` is not given"), "{message}");
}

#[test]
fn mistakes_name_expression_key_and_what_exists() {
    let cases = [
        "{{ .workflow.input.nope }}",
        "{{ .input.nope.deep }}",
        "{{ .input.nothing }}",
        "{{ .tasks.unknown.output.path }}",
        "{{ inputs.a }}",
        "{{ .input.list }}",
        "{{ .input.map }}",
        "{{ .input.a | shout }}",
        "{{ .input.a is odd }}",
        "{{ range(3) }}",
        "{{ .input.a + }}",
        "{{ \"open }}",
        "{{ .input.a",
        "{% if x %}y{% endif %}",
        "{# note #}",
        "{{ .input.image_url - 1 }}",
        "{{ .input.a * 5 }}",
        "{{ (.input.nope | default(\"x\")) ~ .input.typo }}",
    ];
    let messages: Vec<String> = cases.iter().map(|case| format!("{case}\n  {}", error(case))).collect();
    insta::assert_snapshot!(messages.join("\n"));
}

/// Which tools a model has is known only when it is called; it reads their descriptions anyway.
#[test]
fn tools_are_refused_when_the_text_is_parsed() {
    for template in
        ["{{ .tools.file_read.description }}", "{{ tools[\"attachment.add\"].name }}", "{{ tools | length }}"]
    {
        let message = Template::parse(template).unwrap_err().to_string();
        let expected = "unknown name `tools`; a template knows workflow, input, env, agents, trigger, tasks";
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn go_syntax_is_answered_with_minijinja_form() {
    let cases = [
        "{{ if .input.draft }}draft{{ else }}final{{ end }}",
        "{{ range .input.list }}{{ . }}{{ end }}",
        "{{ with .input.map }}{{ .k }}{{ end }}",
        "{{ template \"x\" }}",
        "{{ upper .input.name }}",
        "{{ .input.name | default \"x\" | toUpper }}",
        "{{ default \"x\" .input.name }}",
        "{{ index .tasks \"generate-image\" }}",
        "{{ eq .input.a 5 }}",
        "{{ printf \"%s\" .input.a }}",
        "{{ $x }}",
        "{{ len (index .input.list 0) }}",
    ];
    let messages: Vec<String> = cases.iter().map(|case| format!("{case}\n  {}", error(case))).collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn bombs_are_refused() {
    let big = context().with_values("input", map(json!({"x": "x".repeat(60_000), "n": 4_000_000_000_u64})));
    let fails = |template: &str| Template::parse(template).unwrap().render(&big).expect_err(template).to_string();
    for template in [
        "{{ input.x | replace(\"x\", input.x) }}",
        "{{ input.x | replace(\"\", input.x) }}",
        "{{ input.x ~ input.x }}",
        "{{ [input.x, input.x] | tojson }}",
        "{{ [input.x, input.x] | join(input.x) }}",
    ] {
        let message = fails(template);
        assert!(message.contains("64 KB"), "{message}");
    }
    for template in
        ["{{ \"x\" * input.n }}", "{{ ([[1] * 100000000] * 100000000) | tojson }}", "{{ input.x|tojson(9999999999) }}"]
    {
        let refused = Template::parse(template).and_then(|template| template.render(&big));
        assert!(refused.is_err(), "{template}");
    }
    for long in ["not ".repeat(100_000) + "true", "1 + ".repeat(100_000) + "1"] {
        let message = Template::parse(&format!("{{{{ {long} }}}}")).unwrap_err().to_string();
        assert!(message.contains("longer than 2 KB") && message.len() < 200, "{message}");
    }
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(Template::parse(&deep).is_err());
}

#[test]
fn text_without_expression_is_itself() {
    for literal in ["", "a", "a { b } c", "}} x", "assets/{a,b}/*.png"] {
        let template = Template::parse(literal).unwrap();
        assert_eq!((template.literal(), text(literal).as_str()), (Some(literal), literal));
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,60}", code in "[-a-z.|()\\[\\]\"' 0-9{}]{0,40}") {
        let _ = Template::parse(&text).map(|template| template.render(&context()));
        let _ = Template::parse(&format!("{{{{{code}}}}}")).map(|template| template.render(&context()));
    }

    /// Whatever an input holds, it comes out as it is.
    #[test]
    fn any_input_comes_out_unchanged(value in "\\PC{1,60}") {
        let context = TemplateContext::new().with_values("input", map(json!({"x": value})));
        let rendered = Template::parse("<{{ .input.x }}>").unwrap().render(&context).unwrap();
        prop_assert_eq!(rendered, RenderedText::Text(format!("<{value}>")));
    }
}
