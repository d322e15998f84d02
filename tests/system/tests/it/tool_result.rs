//! A tool's result as the model reads it on the wire: its words, and the files that it names.

use satchel_fake_model::FakeModelServer;

/// What a line begins with that names a file.
const MARKER: &str = "[attachment ";

/// What lines begin with that say where the content of a file is, or why it isn't sent.
const CONTENT_NOTES: [&str; 2] = ["You can't see the file ", "Its files are shown in the next message."];

/// One result, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolResult {
    /// The words, without the lines that name files, and say where they are seen or why they can't be.
    pub(crate) text: String,
    /// The files that are named, in order.
    pub(crate) files: Vec<NamedFile>,
    pub(crate) raw: String,
}

/// A file that the model reads of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub(crate) id: String,
    /// What stands behind the id: number, name, type, size.
    pub(crate) details: String,
}

impl ToolResult {
    fn parse(raw: String) -> Self {
        let is_note = |line: &str| CONTENT_NOTES.iter().any(|note| line.starts_with(note));
        let is_words = |line: &&str| !line.starts_with(MARKER) && !is_note(line);
        let text = raw.lines().filter(is_words).collect::<Vec<_>>().join("\n");
        let files = raw.lines().filter_map(|line| {
            let (id, rest) = line.strip_prefix(MARKER)?.strip_suffix(']')?.split_once(' ')?;
            Some(NamedFile { id: id.to_owned(), details: rest.to_owned() })
        });
        let files = files.collect();
        Self { text, files, raw }
    }
}

/// All results of the server's last request, in order.
pub(crate) fn tool_results(model: &FakeModelServer) -> Vec<ToolResult> {
    model.last().results().iter().map(|result| ToolResult::parse(result.text())).collect()
}

/// The last result of the server's last request.
pub(crate) fn last_result(model: &FakeModelServer) -> ToolResult {
    tool_results(model).pop().expect("a tool was called")
}
