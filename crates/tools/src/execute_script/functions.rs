//! The functions of a script, and the resolution of its calls. Pure.

use satchel_domain::script::SCRIPT_TOOL;
use satchel_ports::{ToolSpec, script_host::FunctionCall};
use serde_json::{Map, Value, json};

use super::ScriptRules;
use crate::registry::provider_name;

/// The functions that are about tools and files, besides the tools themselves.
const BUILTIN_NAMES: [&str; 5] = ["tools_list", "tools_get", "tools_execute", "attachment_get", "attachment_read"];

/// Names that belong to the language or to its evaluator. A tool that is called like one is reached by `tools_execute`.
const RESERVED_NAMES: [&str; 4] = ["attachment_create", "print", "wake_llm", "fail"];

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ScriptFunction<'a> {
    /// A tool, with its arguments.
    Tool(&'a ToolSpec, Value),
    Builtin(BuiltinFunction<'a>),
}

/// A function of a script's own.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BuiltinFunction<'a> {
    /// All tools, in short.
    List,
    /// One tool, at length; `None` for one that there isn't.
    Describe(Option<&'a ToolSpec>),
    /// What is known of a file, by its id.
    Metadata(String),
    /// A file's text, by its id.
    Text(String),
}

/// The tools that a script may call. None may run scripts: one that calls itself has no end.
pub(super) fn permitted_tools(specs: &[ToolSpec], rules: &ScriptRules) -> Vec<ToolSpec> {
    let is_allowed = |spec: &&ToolSpec| {
        let is_listed = |names: &Vec<String>| names.iter().any(|name| matches_name(spec, name));
        spec.name != SCRIPT_TOOL && !rules.deny_all_tools && rules.allowed_tools.as_ref().is_none_or(is_listed)
    };
    specs.iter().filter(is_allowed).cloned().collect()
}

/// The names of all functions.
pub(super) fn function_names(allowed: &[ToolSpec]) -> Vec<String> {
    let is_free = |name: &String| !BUILTIN_NAMES.contains(&name.as_str()) && !RESERVED_NAMES.contains(&name.as_str());
    let tools = allowed.iter().map(|spec| provider_name(&spec.name)).filter(is_free);
    BUILTIN_NAMES.iter().map(|name| (*name).to_owned()).chain(tools).collect()
}

/// Resolves a call to a tool or a built-in function.
///
/// # Errors
/// When there is no such function or tool, or the arguments don't fit, in words for the script.
pub(super) fn resolve_call(allowed: &[ToolSpec], call: FunctionCall) -> Result<ScriptFunction<'_>, String> {
    let FunctionCall { function, mut positional, mut named } = call;
    let builtin = match function.as_str() {
        "tools_list" => {
            expect_no_arguments(&function, &positional, &named)?;
            BuiltinFunction::List
        }
        "tools_get" => {
            let name = expect_one_text(&function, "name", positional, named)?;
            BuiltinFunction::Describe(allowed.iter().find(|spec| matches_name(spec, &name)))
        }
        "attachment_get" => BuiltinFunction::Metadata(expect_one_text(&function, "id", positional, named)?),
        "attachment_read" => BuiltinFunction::Text(expect_one_text(&function, "id", positional, named)?),
        "tools_execute" => {
            let tool_name =
                if positional.is_empty() { named.shift_remove("tool_name") } else { Some(positional.remove(0)) };
            let Some(Value::String(name)) = tool_name else {
                return Err("tools_execute: the first argument must be a tool's name".to_owned());
            };
            let spec = allowed
                .iter()
                .find(|spec| matches_name(spec, &name))
                .ok_or_else(|| unknown_tool_error(&name, allowed))?;
            return Ok(ScriptFunction::Tool(spec, tool_arguments(spec, positional, named)?));
        }
        name => {
            let spec = allowed.iter().find(|spec| provider_name(&spec.name) == name);
            let spec = spec.ok_or_else(|| unknown_tool_error(name, allowed))?;
            return Ok(ScriptFunction::Tool(spec, tool_arguments(spec, positional, named)?));
        }
    };
    Ok(ScriptFunction::Builtin(builtin))
}

/// A tool in short.
pub(super) fn summarize_tool(spec: &ToolSpec) -> Value {
    json!({ "name": spec.name, "function": provider_name(&spec.name), "description": spec.description })
}

/// A tool at length.
pub(super) fn describe_tool(spec: &ToolSpec) -> Value {
    let mut description = summarize_tool(spec);
    description["parameters"] = spec.parameters.clone();
    description["tier"] = json!(spec.tier);
    description
}

fn matches_name(spec: &ToolSpec, name: &str) -> bool {
    spec.name == name || provider_name(&spec.name) == name
}

fn unknown_tool_error(name: &str, allowed: &[ToolSpec]) -> String {
    let tool_names: Vec<&str> = allowed.iter().map(|spec| spec.name.as_str()).collect();
    let excerpt: String = name.escape_debug().take(100).collect();
    match tool_names.as_slice() {
        [] => format!("there is no tool `{excerpt}`; this script may call none"),
        tool_names => format!("there is no tool `{excerpt}`; there are: {}", tool_names.join(", ")),
    }
}

/// A tool's arguments: those without a name stand for its parameters in their order.
fn tool_arguments(spec: &ToolSpec, positional: Vec<Value>, mut named: Map<String, Value>) -> Result<Value, String> {
    let parameters: Vec<&String> =
        spec.parameters["properties"].as_object().map(|all| all.keys().collect()).unwrap_or_default();
    if positional.len() > parameters.len() {
        let (count, max_count) = (positional.len(), parameters.len());
        return Err(format!(
            "{}: {count} arguments without a name were given, and it takes at most {max_count}",
            spec.name
        ));
    }
    for (parameter, value) in parameters.into_iter().zip(positional) {
        if named.insert(parameter.clone(), value).is_some() {
            return Err(format!("{}: `{parameter}` was given twice", spec.name));
        }
    }
    Ok(Value::Object(named))
}

fn expect_no_arguments(function: &str, positional: &[Value], named: &Map<String, Value>) -> Result<(), String> {
    match positional.is_empty() && named.is_empty() {
        true => Ok(()),
        false => Err(format!("{function} takes no more arguments")),
    }
}

/// The one argument, by its name or without.
fn expect_one_text(
    function: &str,
    name: &str,
    mut positional: Vec<Value>,
    mut named: Map<String, Value>,
) -> Result<String, String> {
    let argument = if positional.is_empty() { named.shift_remove(name) } else { Some(positional.remove(0)) };
    expect_no_arguments(function, &positional, &named)?;
    match argument {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{function}: `{name}` must be a string")),
        None => Err(format!("{function}: `{name}` is missing")),
    }
}

#[cfg(test)]
mod tests {
    use satchel_ports::SafetyTier;

    use super::*;

    fn spec(name: &str, parameters: &[&str]) -> ToolSpec {
        let properties: Map<String, Value> = parameters.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        ToolSpec {
            name: name.to_owned(),
            description: "does things".to_owned(),
            parameters: json!({ "properties": properties }),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        }
    }

    fn specs() -> Vec<ToolSpec> {
        vec![spec("attachment.get", &["id"]), spec("file_write", &["path", "content"]), spec("print", &[])]
    }

    fn call(function: &str, positional: &[Value], named: Value) -> FunctionCall {
        let Value::Object(named) = named else { panic!("{named}") };
        FunctionCall { function: function.to_owned(), positional: positional.to_vec(), named }
    }

    #[test]
    fn script_gets_builtins_and_permitted_tools_never_itself() {
        let all = [specs(), vec![spec(SCRIPT_TOOL, &["script"])]].concat();
        let rules = ScriptRules::default();
        assert_eq!(permitted_tools(&all, &rules), specs());
        let own = BUILTIN_NAMES.map(str::to_owned);
        assert_eq!(
            function_names(&specs()),
            [own.as_slice(), &["file_write".to_owned()]].concat(),
            "own names come first"
        );
        let some =
            ScriptRules { allowed_tools: Some(vec!["attachment_get".into(), SCRIPT_TOOL.into()]), ..rules.clone() };
        assert_eq!(permitted_tools(&all, &some), [spec("attachment.get", &["id"])]);
        let none = ScriptRules { deny_all_tools: true, ..some };
        assert_eq!((permitted_tools(&all, &none), function_names(&[]).len()), (vec![], BUILTIN_NAMES.len()));
    }

    #[test]
    fn a_tool_takes_arguments_with_and_without_names() {
        let specs = specs();
        let expected = ScriptFunction::Tool(&specs[1], json!({"path": "/shared/a", "content": "x"}));
        for asked in [
            call("file_write", &[json!("/shared/a"), json!("x")], json!({})),
            call("file_write", &[json!("/shared/a")], json!({"content": "x"})),
            call("tools_execute", &[json!("file_write"), json!("/shared/a")], json!({"content": "x"})),
            call("tools_execute", &[], json!({"tool_name": "file_write", "path": "/shared/a", "content": "x"})),
        ] {
            assert_eq!(resolve_call(&specs, asked), Ok(expected.clone()));
        }
        for (asked, words) in [
            (call("file_write", &[json!(1)], json!({"path": 2})), "file_write: `path` was given twice"),
            (call("file_write", &[json!(1), json!(2), json!(3)], json!({})), "it takes at most 2"),
            (call("tools_execute", &[json!(1)], json!({})), "the first argument must be a tool's name"),
            (
                call("tools_execute", &[json!("boom")], json!({})),
                "there is no tool `boom`; there are: attachment.get, file",
            ),
            (call("boom", &[], json!({})), "there is no tool `boom`"),
            (call("attachment_get", &[], json!({})), "attachment_get: `id` is missing"),
            (call("attachment_read", &[json!(1)], json!({})), "attachment_read: `id` must be a string"),
            (call("tools_list", &[json!(1)], json!({})), "tools_list takes no more arguments"),
        ] {
            let refused = resolve_call(&specs, asked).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn tools_are_described_by_both_spellings() {
        let specs = specs();
        for name in ["attachment.get", "attachment_get"] {
            let asked = call("tools_get", &[json!(name)], json!({}));
            assert_eq!(
                resolve_call(&specs, asked),
                Ok(ScriptFunction::Builtin(BuiltinFunction::Describe(Some(&specs[0]))))
            );
        }
        assert_eq!(
            resolve_call(&specs, call("tools_get", &[json!("boom")], json!({}))),
            Ok(ScriptFunction::Builtin(BuiltinFunction::Describe(None)))
        );
        let described = describe_tool(&specs[0]);
        assert_eq!((&described["function"], &described["tier"]), (&json!("attachment_get"), &json!("read_only")));
        // The script's own function of that name takes precedence.
        let asked = call("attachment_get", &[], json!({"id": "x"}));
        assert_eq!(resolve_call(&specs, asked), Ok(ScriptFunction::Builtin(BuiltinFunction::Metadata("x".to_owned()))));
    }
}
