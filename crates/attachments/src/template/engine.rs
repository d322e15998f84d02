//! Evaluates one expression with minijinja, within limits.

use std::{collections::BTreeMap, sync::LazyLock};

use minijinja::{
    Environment, Error, ErrorKind, UndefinedBehavior, filters,
    value::{Serde, Value, ValueKind},
};

use super::{MAX_TEXT_BYTES, TemplateContext, TemplateError, rewrite::TemplateExpression};

/// The most instructions of one evaluation.
const FUEL: u64 = 50_000;

/// How deep an expression may be nested.
const MAX_DEPTH: usize = 50;

/// minijinja with the filters that can't be used to fill the memory, and no functions.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(MAX_DEPTH);
    environment.add_filter("upper", filters::upper);
    environment.add_filter("lower", filters::lower);
    environment.add_filter("title", filters::title);
    environment.add_filter("capitalize", filters::capitalize);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("default", filters::default);
    environment.add_filter("d", filters::default);
    environment.add_filter("length", filters::length);
    environment.add_filter("first", filters::first);
    environment.add_filter("last", filters::last);
    environment.add_filter("int", filters::int);
    environment.add_filter("float", filters::float);
    environment.add_filter("round", filters::round);
    environment.add_filter("abs", filters::abs);
    environment.add_filter("string", filters::string);
    environment.add_filter("bool", filters::bool);
    environment.add_filter("split", filters::split);
    environment.add_filter("sort", filters::sort);
    environment.add_filter("unique", filters::unique);
    environment.add_filter("tojson", tojson);
    environment.add_filter("urlencode", filters::urlencode);
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    for (name, test) in TESTS {
        environment.add_test(name, test);
    }
    environment
});

/// A test of a value, such as `is defined`.
type ValueTest = fn(&Value) -> bool;

const TESTS: [(&str, ValueTest); 4] = [
    ("defined", |value| !value.is_undefined()),
    ("undefined", Value::is_undefined),
    ("string", |value| value.kind() == ValueKind::String),
    ("number", |value| value.kind() == ValueKind::Number),
];

/// The names of the filters.
pub(super) const FILTERS: [&str; 23] = [
    "abs",
    "bool",
    "capitalize",
    "default",
    "first",
    "float",
    "int",
    "join",
    "last",
    "length",
    "lower",
    "replace",
    "round",
    "sort",
    "split",
    "string",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "urlencode",
    "d",
];

/// Checks that an expression is one of minijinja's.
pub(super) fn check(expression: &TemplateExpression) -> Result<(), TemplateError> {
    let compiled = ENVIRONMENT.compile_expression(expression.code());
    compiled.map(drop).map_err(|error| TemplateError::in_expression(expression.source(), describe(&error)))
}

/// Returns the text that an expression yields.
pub(super) fn evaluate(expression: &TemplateExpression, context: &TemplateContext) -> Result<String, TemplateError> {
    let failed = |message: String| TemplateError::in_expression(expression.source(), message);
    let variables: BTreeMap<String, Value> = expression
        .paths()
        .enumerate()
        .filter_map(|(index, path)| {
            Some((TemplateExpression::variable(index), Value::from(Serde(context.find(path)?))))
        })
        .collect();
    let compiled = ENVIRONMENT.compile_expression(expression.code()).map_err(|error| failed(describe(&error)))?;
    let missing: Vec<&[String]> = expression.paths().filter(|path| context.find(path).is_none()).collect();
    let value = match compiled.eval(Value::from(variables)) {
        Ok(value) => value,
        Err(error) => {
            return Err(failed(match (error.kind(), missing.is_empty()) {
                (ErrorKind::UndefinedError, false) => describe_missing(&missing, context),
                _ => describe(&error),
            }));
        }
    };
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Err(failed(match missing.is_empty() {
            true => "yields nothing".to_owned(),
            false => describe_missing(&missing, context),
        })),
        ValueKind::Seq | ValueKind::Iterable => {
            Err(failed("yields a list, and text is needed: pick an entry, or use `| join(\", \")`".to_owned()))
        }
        ValueKind::Map | ValueKind::Plain | ValueKind::Bytes | ValueKind::Invalid => {
            Err(failed("yields a map, and text is needed: pick an entry, or use `| tojson`".to_owned()))
        }
        // minijinja spells it as Python does.
        ValueKind::Bool => Ok(value.is_true().to_string()),
        _ => Ok(value.to_string()),
    }
}

/// Names what is missing. Which of several was needed is the expression's business.
fn describe_missing(paths: &[&[String]], context: &TemplateContext) -> String {
    let [path] = paths else {
        let names: Vec<String> = paths.iter().map(|path| format!("`{}`", path.join("."))).collect();
        return format!("one of {} is not given", names.join(", "));
    };
    let known = context.sibling_keys(path);
    let given = if known.is_empty() { String::new() } else { format!("; there is {}", known.join(", ")) };
    format!("`{}` is not given{given}", path.join("."))
}

fn describe(error: &Error) -> String {
    match error.kind() {
        ErrorKind::UnknownFilter => format!("unknown filter; there is {}", FILTERS.join(", ")),
        ErrorKind::UnknownTest => "unknown test; there is defined, undefined, string, number".to_owned(),
        ErrorKind::UnknownFunction => {
            "functions can't be called; there are only filters, such as `.name | upper`".to_owned()
        }
        ErrorKind::OutOfFuel => "takes too many steps".to_owned(),
        _ => error.detail().map_or_else(|| error.kind().to_string(), str::to_owned),
    }
}

/// minijinja's `tojson` without indentation, whose width is up to the author.
fn tojson(value: Value) -> Result<String, Error> {
    let json = serde_json::to_string(&value);
    let json = json.map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("can't be JSON: {error}")))?;
    check_length(json.len())?;
    Ok(json)
}

/// minijinja's `replace`, with a limit on what it yields.
fn replace(text: String, from: String, to: String) -> Result<String, Error> {
    let count = if from.is_empty() { text.chars().count() + 1 } else { text.matches(&from).count() };
    check_length(text.len().saturating_add(count.saturating_mul(to.len())))?;
    Ok(text.replace(&from, &to))
}

/// minijinja's `join`, with a limit on what it yields.
fn join(list: Value, separator: Option<String>) -> Result<String, Error> {
    let separator = separator.unwrap_or_default();
    let mut text = String::new();
    for (index, item) in list.try_iter()?.enumerate() {
        if index > 0 {
            text.push_str(&separator);
        }
        text.push_str(&item.to_string());
        check_length(text.len())?;
    }
    Ok(text)
}

fn check_length(bytes: usize) -> Result<(), Error> {
    match bytes > MAX_TEXT_BYTES {
        true => Err(Error::new(ErrorKind::InvalidOperation, format!("yields more than {} KB", MAX_TEXT_BYTES >> 10))),
        false => Ok(()),
    }
}
