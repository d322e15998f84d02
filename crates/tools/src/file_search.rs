//! `file_search`: finds text in the files of the workspace, or files by their names.

mod excerpt;
mod lines;
mod query;
mod run;

use async_trait::async_trait;
use satchel_domain::{ToolOutcome, WorkspacePath, path::Mount};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::{
    query::SearchQuery,
    run::{SearchReport, search},
};
use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    error,
    listing::ListPage,
};

pub(crate) struct FileSearch(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The text to find in the files, within a line; without it files are found by name alone.
    query: Option<String>,
    /// Whether query is a regular expression (RE2 syntax, without look-around) instead of plain text.
    #[serde(default)]
    regex: bool,
    /// The directory to search with all beneath it, or one file, beneath /shared or /tmp; /shared if it is not given.
    #[schemars(with = "Option<String>")]
    path: Option<WorkspacePath>,
    /// Which files: a pattern for their names, such as *.txt, or, with a slash in it, for their paths beneath path, such
    /// as notes/**/*.md.
    glob: Option<String>,
    /// Whether upper and lower case are the same, in query and glob.
    #[serde(default)]
    ignore_case: bool,
    /// How many matches to pass over.
    #[serde(default)]
    offset: u64,
    /// How many to answer with at most; 100 if it is not given.
    limit: Option<u64>,
}

#[async_trait]
impl Tool for FileSearch {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "file_search",
            SafetyTier::ReadOnly,
            "Finds text in the text files (UTF-8) of the workspace: each matching line with its number, cut around the \
             match. Or finds files by name: give glob without query. Many matches come in pages: `total` is their \
             number, `next` the call that reads on. `skipped` counts files that were not searched; `incomplete` says \
             which limit ended the search.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments = parse_arguments(arguments)?;
        let page = ListPage::from_arguments(arguments.offset, arguments.limit, self.0.limits.list_entries, context)?;
        let query = SearchQuery::from_arguments(&arguments)?;
        let path = arguments.path.clone().unwrap_or_else(|| WorkspacePath::root(Mount::Shared));
        let searched = context.cancel.run_until_cancelled(search(&self.0, context, &path, &query)).await;
        let report = searched
            .ok_or_else(|| error::tool_error("the search was stopped"))?
            .map_err(|error| error::tool_error_with_cause("nothing was searched", &error))?;
        self.respond(&arguments, &path, page, &report).map(ToolOutcome::from_data)
    }
}

impl FileSearch {
    fn respond(
        &self,
        arguments: &Arguments,
        path: &WorkspacePath,
        page: ListPage,
        report: &SearchReport,
    ) -> Result<Value, ToolError> {
        let total = report.matches.len();
        let more = page.entries_after(total)?;
        // What is missing and how to read on stand first: they outlive a preview.
        let mut response = json!({ "path": path, "total": total, "more": more });
        if more > 0 {
            response["next"] = page.next_call("file_search", next_arguments(arguments, path));
        }
        if let Some(limit) = report.limit {
            response["incomplete"] = json!(limit.describe(&self.0.limits));
        }
        response["files"] = json!(report.files);
        response["skipped"] = json!(report.skipped);
        if report.cut_lines > 0 {
            response["cut_lines"] = json!(report.cut_lines);
        }
        let page_matches = report.matches.iter().enumerate().filter(|(index, _)| page.contains(*index));
        response["matches"] = page_matches.map(|(_, found)| json!(found)).collect();
        Ok(response)
    }
}

/// The arguments of the same search, without those that say what is said anyway.
fn next_arguments(arguments: &Arguments, path: &WorkspacePath) -> Map<String, Value> {
    let Arguments { query, regex, glob, ignore_case, limit, .. } = arguments;
    let is_set = |value: bool| if value { json!(true) } else { Value::Null };
    Map::from_iter(
        [
            ("query", json!(query)),
            ("regex", is_set(*regex)),
            ("path", json!(path)),
            ("glob", json!(glob)),
            ("ignore_case", is_set(*ignore_case)),
            ("limit", json!(limit)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    )
}

#[cfg(test)]
mod tests;
