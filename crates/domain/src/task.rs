//! The tasks that can be run, and the message that runs one.

use std::fmt::Write;

use crate::AllowedPeople;

/// The command that runs a task.
pub const TASK_COMMAND: &str = "task";

/// A task as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSummary {
    /// Its name.
    pub name: String,
    /// What it does, in a line; may be empty.
    pub description: String,
    /// Who may run it in a chat.
    pub allow: AllowedPeople,
    /// The names of the inputs that it, or a task that runs before it, mentions.
    pub inputs: Vec<String>,
    /// Whether it may also use inputs that it doesn't mention by name.
    pub takes_any_input: bool,
    /// The names of the agents that it, or a task that runs before it, is run with.
    pub agents: Vec<String>,
}

impl TaskSummary {
    /// The first input of a request that the task doesn't take.
    #[must_use]
    pub fn find_unknown_input<'a>(&self, input: &'a [(String, String)]) -> Option<&'a str> {
        let is_known = |name: &str| self.takes_any_input || self.inputs.iter().any(|known| known == name);
        input.iter().map(|(name, _)| name.as_str()).find(|name| !is_known(name))
    }

    /// The inputs that it takes, as text for people.
    #[must_use]
    pub fn describe_inputs(&self) -> String {
        match self.inputs.as_slice() {
            [] => "it takes no inputs".to_owned(),
            names => format!("it takes {}", names.join(", ")),
        }
    }
}

/// All tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskDirectory {
    tasks: Vec<TaskSummary>,
}

impl TaskDirectory {
    /// Lists these tasks, whose names differ.
    #[must_use]
    pub fn new(tasks: Vec<TaskSummary>) -> Self {
        Self { tasks }
    }

    /// All tasks, in the order of their declaration.
    #[must_use]
    pub fn tasks(&self) -> &[TaskSummary] {
        &self.tasks
    }

    /// Whether there is no task.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Finds a task by its name; one that differs in upper and lower case counts if there is no other.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&TaskSummary> {
        let exact = self.tasks.iter().find(|task| task.name == name);
        exact.or_else(|| self.tasks.iter().find(|task| task.name.eq_ignore_ascii_case(name)))
    }
}

/// A task to run, with its inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRequest {
    /// The task's name, as it was given.
    pub name: String,
    /// The inputs, each name once.
    pub input: Vec<(String, String)>,
}

/// Why a message doesn't run a task, for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTaskRequestError {
    /// A quoted value has no end.
    #[error("a quotation mark isn't closed")]
    UnclosedQuote,
    /// An input isn't `name=value`.
    #[error("{0:?} is no input: inputs are written name=value, and a value with spaces in double quotes")]
    NotAnInput(String),
    /// An input is given twice.
    #[error("the input {0:?} is given twice")]
    RepeatedInput(String),
}

impl TaskRequest {
    /// Reads what stands behind the command: `NAME key=value key="a value with spaces"`; `None` if that is nothing.
    ///
    /// # Errors
    /// When something behind the name is no input.
    pub fn parse(arguments: &str) -> Result<Option<Self>, InvalidTaskRequestError> {
        let mut arguments = split_arguments(arguments)?.into_iter();
        let Some(name) = arguments.next() else { return Ok(None) };
        let mut input: Vec<(String, String)> = Vec::new();
        for argument in arguments {
            match argument.split_once('=') {
                Some((key, value)) if is_input_name(key) => {
                    if input.iter().any(|(given, _)| given == key) {
                        return Err(InvalidTaskRequestError::RepeatedInput(key.to_owned()));
                    }
                    input.push((key.to_owned(), value.to_owned()));
                }
                _ => return Err(InvalidTaskRequestError::NotAnInput(argument)),
            }
        }
        Ok(Some(Self { name, input }))
    }

    /// The message that runs it.
    #[must_use]
    pub fn to_message(&self) -> String {
        let mut message = format!("/{TASK_COMMAND} {}", self.name);
        for (key, value) in &self.input {
            let _ = write!(message, " {key}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
        }
        message
    }
}

/// Whether an input can be called so: letters, digits, `-` and `_`.
fn is_input_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

/// Splits at spaces outside of double quotes, of which phones write curly ones. In quotes, `\"` is a quotation mark and
/// `\\` a backslash.
fn split_arguments(text: &str) -> Result<Vec<String>, InvalidTaskRequestError> {
    let is_curly = |c: char| matches!(c, '“' | '”' | '„');
    let mut arguments = Vec::new();
    let mut current: Option<String> = None;
    let mut open_quote: Option<char> = None;
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        match (open_quote, next) {
            (Some(_), '\\') => match chars.next() {
                Some(escaped @ ('"' | '\\')) => current.get_or_insert_default().push(escaped),
                Some(other) => current.get_or_insert_default().extend(['\\', other]),
                None => return Err(InvalidTaskRequestError::UnclosedQuote),
            },
            (Some(open), quote) if quote == open || is_curly(open) && is_curly(quote) => open_quote = None,
            (None, quote) if quote == '"' || is_curly(quote) => {
                open_quote = Some(quote);
                current.get_or_insert_default();
            }
            (None, space) if space.is_whitespace() => arguments.extend(current.take()),
            (_, other) => current.get_or_insert_default().push(other),
        }
    }
    if open_quote.is_some() {
        return Err(InvalidTaskRequestError::UnclosedQuote);
    }
    arguments.extend(current);
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(name: &str, input: &[(&str, &str)]) -> TaskRequest {
        let input = input.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        TaskRequest { name: name.to_owned(), input }
    }

    #[test]
    fn inputs_are_read_as_people_write_them() {
        for (arguments, expected) in [
            ("", None),
            ("  \n", None),
            ("report", Some(request("report", &[]))),
            ("report city=Berlin", Some(request("report", &[("city", "Berlin")]))),
            ("report city=\"New York\" day=", Some(request("report", &[("city", "New York"), ("day", "")]))),
            ("report “city=New York”", Some(request("report", &[("city", "New York")]))),
            (
                r#"report say="a \"b\" \\ \n" it=it's"#,
                Some(request("report", &[("say", r#"a "b" \ \n"#), ("it", "it's")])),
            ),
            (
                "report url=https://a.example/?q=1&r={{x}}",
                Some(request("report", &[("url", "https://a.example/?q=1&r={{x}}")])),
            ),
            ("report say=\"a “b” c\"", Some(request("report", &[("say", "a “b” c")]))),
            ("report text=\"two\nlines\"", Some(request("report", &[("text", "two\nlines")]))),
        ] {
            assert_eq!(TaskRequest::parse(arguments), Ok(expected), "{arguments}");
        }
    }

    #[test]
    fn mistakes_name_what_was_given() {
        let error = |arguments: &str| TaskRequest::parse(arguments).unwrap_err().to_string();
        assert_eq!(error("report city=\"Berlin"), "a quotation mark isn't closed");
        assert_eq!(error("report city=\"Berlin\\"), "a quotation mark isn't closed");
        assert!(error("report Berlin").starts_with("\"Berlin\" is no input: inputs are written name=value"));
        assert!(error("report =Berlin").starts_with("\"=Berlin\" is no input"));
        assert!(error("report a.b=c").starts_with("\"a.b=c\" is no input"));
        assert_eq!(error("report city=a city=b"), "the input \"city\" is given twice");
    }

    #[test]
    fn exact_name_precedes_another_case() {
        let task = |name: &str| TaskSummary {
            name: name.to_owned(),
            description: String::new(),
            allow: AllowedPeople::Owners,
            inputs: Vec::new(),
            takes_any_input: false,
            agents: Vec::new(),
        };
        let directory = TaskDirectory::new(vec![task("Report"), task("report"), task("Draw")]);
        let name = |given: &str| directory.find(given).map(|task| task.name.as_str());
        assert_eq!(
            [name("report"), name("REPORT"), name("draw"), name("repor")],
            [Some("report"), Some("Report"), Some("Draw"), None]
        );
    }

    #[test]
    fn unknown_input_is_found() {
        let task = |takes_any_input: bool| TaskSummary {
            name: "report".to_owned(),
            description: String::new(),
            allow: AllowedPeople::Owners,
            inputs: vec!["city".to_owned()],
            takes_any_input,
            agents: Vec::new(),
        };
        let input = request("report", &[("city", "Berlin"), ("file", "/etc/passwd")]).input;
        assert_eq!(task(false).find_unknown_input(&input), Some("file"));
        assert_eq!(task(false).find_unknown_input(&input[..1]), None);
        assert_eq!(task(true).find_unknown_input(&input), None);
    }

    proptest! {
        #[test]
        fn message_is_read_as_it_was_requested(
            name in "[a-z][a-z0-9-]{0,8}",
            input in proptest::collection::btree_map("[a-zé][a-z0-9_-]{0,5}", any::<String>(), 0..4),
        ) {
            let request = TaskRequest { name, input: input.into_iter().collect() };
            let message = request.to_message();
            let arguments = message.strip_prefix("/task ").unwrap();
            prop_assert_eq!(TaskRequest::parse(arguments), Ok(Some(request.clone())));
        }
    }
}
