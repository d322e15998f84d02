//! What a search looks for: a text or a regular expression within lines, a pattern of file names, or both.

use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use satchel_domain::size::format_bytes;
use satchel_ports::ToolError;

use super::Arguments;
use crate::error;

/// The longest query and the longest glob, in bytes.
const MAX_PATTERN_BYTES: usize = 1_000;

/// The largest compiled regular expression, in bytes. A line is searched in time proportional to its length times this.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// The deepest nesting of a regular expression, counting groups, alternatives, sequences and repetitions. The library
/// calls itself for each level, in a debug build with 12 KB of stack, and an overflow would end the process.
const MAX_REGEX_DEPTH: u32 = 32;

pub(super) struct SearchQuery {
    /// What lines are searched for; `None` to find files by name.
    pub(super) pattern: Option<Regex>,
    /// Which files are searched; `None` for all.
    pub(super) glob: Option<NamePattern>,
}

impl SearchQuery {
    /// Reads the query and the glob of a call.
    ///
    /// # Errors
    /// When both are missing, or one can't be understood.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Self, ToolError> {
        let Arguments { query, glob, regex, ignore_case, .. } = arguments;
        if query.is_none() && glob.is_none() {
            return Err(error::tool_error(
                "nothing to find: give `query`, the text to find, or `glob`, the names of the files to find, or both",
            ));
        }
        let pattern = query.as_deref().map(|query| parse_pattern(query, *regex, *ignore_case)).transpose()?;
        let glob = glob.as_deref().map(|glob| NamePattern::parse(glob, *ignore_case)).transpose()?;
        Ok(Self { pattern, glob })
    }
}

fn parse_pattern(query: &str, is_regex: bool, ignore_case: bool) -> Result<Regex, ToolError> {
    check_length("query", query, "leave it out to find files by `glob` alone")?;
    if query.contains(['\n', '\r']) {
        return Err(error::tool_error(
            "argument `query`: it has a line break, but each line is searched by itself: search for one line of it",
        ));
    }
    let syntax = if is_regex { query.to_owned() } else { regex::escape(query) };
    check_syntax(&syntax)?;
    let mut builder = RegexBuilder::new(&syntax);
    builder.case_insensitive(ignore_case).size_limit(MAX_REGEX_BYTES).nest_limit(MAX_REGEX_DEPTH);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => error::tool_error(format!(
            "argument `query`: the regular expression needs more than {} of memory, the maximum: use smaller \
             repetitions, such as x{{1,10}} for x{{1,1000}}, or [a-z] for \\w",
            format_bytes(limit as u64)
        )),
        error => error::tool_error_with_cause("argument `query`: it is not a regular expression", &error),
    })
}

/// Says where a regular expression is wrong; `regex` itself only draws it, in several lines.
fn check_syntax(syntax: &str) -> Result<(), ToolError> {
    let (reason, at) = match ParserBuilder::new().nest_limit(MAX_REGEX_DEPTH).build().parse(syntax) {
        Ok(_) => return Ok(()),
        Err(regex_syntax::Error::Parse(error)) => (error.kind().to_string(), error.span().start.offset),
        Err(regex_syntax::Error::Translate(error)) => (error.kind().to_string(), error.span().start.offset),
        Err(error) => (error.to_string(), 0),
    };
    let character = 1 + syntax.char_indices().take_while(|(offset, _)| *offset < at).count();
    Err(error::tool_error(format!(
        "argument `query`: it is not a regular expression (at character {character}: {reason}); without `regex` it is \
         searched as plain text"
    )))
}

fn check_length(argument: &str, pattern: &str, advice: &str) -> Result<(), ToolError> {
    match pattern.len() {
        0 => Err(error::tool_error(format!("argument `{argument}`: it is empty; {advice}"))),
        bytes if bytes > MAX_PATTERN_BYTES => Err(error::tool_error(format!(
            "argument `{argument}`: it has {bytes} bytes, and at most {MAX_PATTERN_BYTES} are allowed"
        ))),
        _ => Ok(()),
    }
}

/// A pattern of file names. One without a slash is for the names in every directory, as in a `.gitignore`.
pub(super) struct NamePattern {
    matcher: GlobMatcher,
    is_for_paths: bool,
}

impl NamePattern {
    fn parse(glob: &str, ignore_case: bool) -> Result<Self, ToolError> {
        check_length("glob", glob, "leave it out to search all files")?;
        let excerpt: String = glob.escape_debug().take(100).collect();
        if glob.starts_with(['/', '~']) {
            return Err(error::tool_error(format!(
                "argument `glob`: `{excerpt}` begins at the root, but it is for the path beneath `path`: set `path` to \
                 the directory and `glob` to the rest, such as *.txt"
            )));
        }
        let mut builder = GlobBuilder::new(glob);
        builder.literal_separator(true).case_insensitive(ignore_case).backslash_escape(true);
        let built = builder.build().map_err(|error| {
            error::tool_error(format!(
                "argument `glob`: `{excerpt}` is not a pattern ({}); `*` and `?` stand for characters of a name, `**` \
                 for directories, [ab] and {{a,b}} for one of several, and a backslash makes the next one plain",
                error.kind()
            ))
        })?;
        Ok(Self { matcher: built.compile_matcher(), is_for_paths: glob.contains('/') })
    }

    /// Whether a file is meant, by its path beneath the directory that is searched.
    pub(super) fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.matcher.is_match(if self.is_for_paths { path } else { name })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::arguments::parse_arguments;

    fn parse(arguments: Value) -> Result<SearchQuery, ToolError> {
        SearchQuery::from_arguments(&parse_arguments(arguments)?)
    }

    #[test]
    fn glob_matches_names_or_paths() {
        for (glob, ignore_case, matched, unmatched) in [
            ("*.txt", false, vec!["a.txt", "b/c/d.txt", ".txt"], vec!["a.txt/b", "a.TXT", "a.txt2"]),
            ("*.TXT", true, vec!["a.txt", "b/Ä.Txt"], vec![]),
            ("notes/*.md", false, vec!["notes/a.md"], vec!["a.md", "notes/b/a.md", "x/notes/a.md"]),
            ("notes/**/*.md", false, vec!["notes/a.md", "notes/b/c/a.md"], vec!["x/notes/a.md"]),
            ("**/b.md", false, vec!["b.md", "a/b.md"], vec!["ab.md"]),
            ("{a,b}?.[ch]", false, vec!["ax.c", "d/by.h"], vec!["cx.c", "a.c"]),
            ("a\\*", false, vec!["a*"], vec!["ab"]),
        ] {
            let pattern = parse(json!({"glob": glob, "ignore_case": ignore_case})).unwrap().glob.unwrap();
            for path in matched {
                assert!(pattern.matches(path), "{glob} is not {path}");
            }
            for path in unmatched {
                assert!(!pattern.matches(path), "{glob} is {path}");
            }
        }
    }

    #[test]
    fn query_is_plain_text_unless_regex() {
        let is_match = |arguments: Value, line| parse(arguments).unwrap().pattern.unwrap().is_match(line);
        assert!(is_match(json!({"query": "a.b("}), "xa.b(y") && !is_match(json!({"query": "a.b"}), "axb"));
        assert!(is_match(json!({"query": "^a.b$", "regex": true}), "axb"));
        assert!(!is_match(json!({"query": "ПРИВЕТ"}), "привет"));
        assert!(is_match(json!({"query": "ПРИВЕТ", "ignore_case": true}), "привет"));
        assert!(is_match(json!({"query": "^STRASSE", "regex": true, "ignore_case": true}), "Strasse"));
    }

    #[test]
    fn wrong_pattern_is_explained() {
        for (arguments, says) in [
            (json!({}), "nothing to find: give `query`"),
            (json!({"query": ""}), "argument `query`: it is empty; leave it out"),
            (json!({"query": "a", "glob": ""}), "argument `glob`: it is empty; leave it out"),
            (json!({"query": "a\nb"}), "argument `query`: it has a line break"),
            (json!({"query": "a".repeat(1_001)}), "argument `query`: it has 1001 bytes, and at most 1000 are allowed"),
            (json!({"glob": "a".repeat(1_001)}), "argument `glob`: it has 1001 bytes"),
            (json!({"query": "йц(b", "regex": true}), "not a regular expression (at character 3: unclosed group)"),
            (json!({"query": "a\\pX", "regex": true}), "(at character 2: Unicode property not found)"),
            (json!({"query": "a(?=b)", "regex": true}), "(at character 2: look-around"),
            (
                json!({"query": "((\\w{100}){100}){100}", "regex": true}),
                "argument `query`: the regular expression needs more than 1 MB of memory, the maximum",
            ),
            (json!({"glob": "/shared/*.txt"}), "`/shared/*.txt` begins at the root"),
            (json!({"glob": "~/*.txt"}), "begins at the root"),
            (json!({"glob": "a[b"}), "argument `glob`: `a[b` is not a pattern (unclosed character class; missing ']')"),
        ] {
            let error = parse(arguments.clone()).err().unwrap().0;
            assert!(error.contains(says), "{arguments:.80}: `{says}` is not in `{error}`");
        }
    }

    #[test]
    fn nested_patterns_fit_a_small_stack() {
        let compile_all = || {
            for levels in [1, 15, 31, 32, 33, 100, 249, 250, 499, 999] {
                let around = |open: &str, close: &str| format!("{}a{}", open.repeat(levels), close.repeat(levels));
                for query in
                    [around("", "*"), around("", "+"), around("(", ")*"), around("(b|c", ")+"), around("(", ")")]
                {
                    let parsed = parse(json!({"query": query, "regex": true}));
                    assert!(levels > 15 || query.starts_with("(b|c") || parsed.is_ok(), "{levels}: {query:.40}");
                    let reason = parsed.err().map(|error| error.0).unwrap_or_default();
                    assert!(levels < 33 || query.len() > 1_000 || reason.contains("nested"), "{levels}: {reason}");
                }
            }
        };
        // Half of the smallest stack that we use.
        let compiled = std::thread::Builder::new().stack_size(1 << 20).spawn(compile_all).unwrap().join();
        assert!(compiled.is_ok());
    }

    #[test]
    fn longest_patterns_compile() {
        let deep = "{a,".repeat(250) + &"}".repeat(250);
        for glob in ["*".repeat(1_000), "?".repeat(1_000), "[!a]".repeat(250), "**/".repeat(333), deep] {
            let _ = parse(json!({"glob": glob, "ignore_case": true}));
        }
        for query in ["(".repeat(500) + &")".repeat(500), "\\PL".repeat(333), "(?i:[^я])".repeat(111)] {
            let _ = parse(json!({"query": query, "regex": true, "ignore_case": true}));
        }
    }
}
