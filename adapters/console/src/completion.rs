//! Completion of commands and names with the tab key.

use rustyline::{Context, Helper, completion::Completer, highlight::Highlighter, hint::Hinter, validate::Validator};

/// Completes a line that begins a command.
pub(crate) struct CommandCompleter {
    /// Whole beginnings of lines, such as `/files` and `/agent cook`.
    commands: Vec<String>,
}

impl CommandCompleter {
    pub(crate) fn new(mut commands: Vec<String>) -> Self {
        commands.sort_unstable();
        commands.dedup();
        Self { commands }
    }

    /// What the line may become, one word further.
    fn candidates(&self, typed: &str) -> Vec<String> {
        if !typed.starts_with('/') {
            return Vec::new();
        }
        let matching = self.commands.iter().filter_map(|command| Some((command, command.strip_prefix(typed)?)));
        let mut candidates: Vec<String> = matching
            .map(|(command, rest)| {
                // A command with names behind it is completed first, then its names.
                let word_end = rest.find(' ').map_or(command.len(), |end| typed.len() + end);
                format!("{} ", &command[..word_end])
            })
            .collect();
        candidates.dedup();
        candidates
    }
}

impl Completer for CommandCompleter {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, self.candidates(&line[..position])))
    }
}

impl Hinter for CommandCompleter {
    type Hint = String;
}

impl Highlighter for CommandCompleter {}
impl Validator for CommandCompleter {}
impl Helper for CommandCompleter {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_completed_before_their_names() {
        let commands =
            ["/files", "/forget", "/agent", "/agent cook", "/agent kids", "/task", "/task report", "/task rédiger"];
        let completer = CommandCompleter::new(commands.map(str::to_owned).to_vec());
        for (typed, expected) in [
            ("/f", vec!["/files ", "/forget "]),
            ("/fi", vec!["/files "]),
            ("/a", vec!["/agent "]),
            ("/agent", vec!["/agent "]),
            ("/agent ", vec!["/agent cook ", "/agent kids "]),
            ("/agent k", vec!["/agent kids "]),
            ("/task r", vec!["/task report ", "/task rédiger "]),
            ("/task ré", vec!["/task rédiger "]),
            ("/task report city=", vec![]),
            ("/x", vec![]),
            ("files", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(completer.candidates(typed), expected, "{typed:?}");
        }
    }
}
