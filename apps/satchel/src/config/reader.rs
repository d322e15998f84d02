//! Takes typed values out of the tree, remembers where each came from, and gathers what is wrong with them.
//!
//! Every read also makes its key known, so [`Reader::finish`] can name whatever nobody asked for.

use std::{
    io::Read,
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use satchel_domain::size::format_bytes;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::{
    Setting,
    fields::{Field, Kind},
    masking::{MASK, mask_url},
    origin::{Origin, Problem},
    text_file::read_text_file,
    tree::{Node, Value},
    units, unknown,
};

/// The most that is read from a secret's own file.
const LONGEST_SECRET: u64 = 64 * 1024;

/// The tree, and what reading it has brought up so far.
pub(crate) struct Reader<'a> {
    root: Node,
    cwd: &'a Path,
    /// Keys that exist, with the names of declared things filled in.
    known: Vec<String>,
    /// Keys below which anything may stand.
    open: Vec<String>,
    fields: Vec<Field>,
    settings: Vec<Setting>,
    problems: Vec<Problem>,
    not_built: Vec<Problem>,
}

/// What reading has brought up.
pub(crate) struct Findings {
    /// Every setting with its effective value.
    pub(crate) settings: Vec<Setting>,
    /// What is wrong.
    pub(crate) problems: Vec<Problem>,
    /// What is right, but switches on something that isn't built yet.
    pub(crate) not_built: Vec<Problem>,
    /// Every key that was asked for.
    pub(crate) fields: Vec<Field>,
}

impl<'a> Reader<'a> {
    /// Begins to read; `problems` are those that came up while the tree was made.
    pub(crate) fn new(root: Node, cwd: &'a Path, problems: Vec<Problem>) -> Self {
        let (known, open, fields) = (Vec::new(), Vec::new(), Vec::new());
        Self { root, cwd, known, open, fields, settings: Vec::new(), problems, not_built: Vec::new() }
    }

    /// Warns of environment variables that are no settings, with the nearest key of each.
    pub(crate) fn warnings_of(&self, variables: &[String]) -> Vec<Problem> {
        variables.iter().map(|variable| unknown::without_effect(variable, &self.known)).collect()
    }

    /// Ends reading: keys that nobody asked for are mistakes.
    pub(crate) fn finish(mut self) -> Findings {
        self.problems.extend(unknown::find(&self.root, &self.known, &self.open));
        let Self { settings, problems, not_built, fields, .. } = self;
        Findings { settings, problems, not_built, fields }
    }

    /// Text.
    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        self.field(key, Kind::Text, None);
        self.value(key, "text", as_text, |text| json!(text))
    }

    /// One name, or a list of names, which is not empty.
    pub(crate) fn names(&mut self, key: &str) -> Option<Vec<String>> {
        self.field(key, Kind::Names, None);
        let parse = |value: &Value| {
            let names = match value {
                Value::Text(name) => vec![name.clone()],
                value => as_texts(value)?,
            };
            (!names.is_empty()).then_some(names)
        };
        self.value(key, "a name or a list of names", parse, |names| match names.as_slice() {
            [name] => json!(name),
            names => json!(names),
        })
    }

    /// One of a few words; `allowed` pairs each with what it means, the first is the default.
    pub(crate) fn choice<T: Copy + PartialEq>(&mut self, key: &str, allowed: &[(&'static str, T)]) -> T {
        let names: Vec<&'static str> = allowed.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", names.join(", "));
        self.field(key, Kind::Choice(names), Some(json!(allowed[0].0)));
        let parse = |value: &Value| {
            let text = as_text(value)?;
            allowed.iter().find(|(name, _)| *name == text).map(|(_, meaning)| *meaning)
        };
        let name = |chosen: &T| allowed.iter().find(|(_, meaning)| meaning == chosen).map(|(name, _)| *name);
        self.value_or(key, &expected, parse, |chosen| json!(name(chosen)), allowed[0].1)
    }

    /// Whether something is on.
    pub(crate) fn switch(&mut self, key: &str, default: bool) -> bool {
        self.field(key, Kind::Switch, Some(json!(default)));
        let parse = |value: &Value| match value {
            Value::Boolean(on) => Some(*on),
            value => match as_text(value)?.as_str() {
                "on" | "true" => Some(true),
                "off" | "false" => Some(false),
                _ => None,
            },
        };
        self.value_or(key, "true or false", parse, |on| json!(on), default)
    }

    /// A number of bytes, at least one.
    pub(crate) fn size(&mut self, key: &str, default: u64) -> u64 {
        self.field(key, Kind::Size, Some(json!(units::show_size(default))));
        let parse = |value: &Value| as_size(value).filter(|bytes| *bytes > 0);
        self.value_or(key, units::SIZE, parse, |bytes| json!(units::show_size(*bytes)), default)
    }

    /// Such a number where its absence is no number at all.
    pub(crate) fn optional_size(&mut self, key: &str) -> Option<u64> {
        self.field(key, Kind::Size, None);
        let parse = |value: &Value| as_size(value).filter(|bytes| *bytes > 0);
        self.value(key, units::SIZE, parse, |bytes| json!(units::show_size(*bytes)))
    }

    /// A number of bytes, which may be 0, where its absence is not the same as any number.
    pub(crate) fn optional_size_or_zero(&mut self, key: &str) -> Option<u64> {
        self.field(key, Kind::SizeOrZero, None);
        self.value(key, units::SIZE_OR_ZERO, as_size, |bytes| json!(units::show_size(*bytes)))
    }

    /// A span of time, longer than nothing.
    pub(crate) fn duration(&mut self, key: &str, default: Duration) -> Duration {
        self.field(key, Kind::Duration, Some(json!(units::show_duration(default))));
        let parse = |value: &Value| units::parse_duration(&as_text(value)?).filter(|duration| !duration.is_zero());
        self.value_or(key, units::DURATION, parse, |duration| json!(units::show_duration(*duration)), default)
    }

    /// A whole number within a range.
    pub(crate) fn count(&mut self, key: &str, default: u32, range: RangeInclusive<u32>) -> u32 {
        self.field(key, Kind::Count(range.clone()), Some(json!(default)));
        let expected = count_expected(&range);
        self.value_or(key, &expected, |value| parse_count(&range, value), |number| json!(number), default)
    }

    /// Such a number where its absence is no number at all.
    pub(crate) fn optional_count(&mut self, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        self.field(key, Kind::Count(range.clone()), None);
        let expected = count_expected(&range);
        self.value(key, &expected, |value| parse_count(&range, value), |number| json!(number))
    }

    /// A path; a relative one counts from the file that gives it, or else from the working directory.
    pub(crate) fn path(&mut self, key: &str) -> Option<PathBuf> {
        self.field(key, Kind::Path, None);
        let base = self.base_of(key);
        let parse = |value: &Value| as_text(value).filter(|text| !text.is_empty()).map(|text| base.join(text));
        self.value(key, "a path", parse, |path| json!(path.display().to_string()))
    }

    /// An address on the web.
    pub(crate) fn http_url(&mut self, key: &str) -> Option<SecretString> {
        self.url(key, "a URL that begins with http:// or https://", r"^https?://[^/\s]\S*$", |url| {
            let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
            (!rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace))
                .then(|| SecretString::from(url))
        })
    }

    /// A URL that `parse` understands; whatever is secret in it is never shown. `pattern` says for editors what `parse`
    /// says for us, as a regular expression.
    pub(crate) fn url<T>(
        &mut self,
        key: &str,
        expected: &str,
        pattern: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.field(key, Kind::Url(pattern), None);
        let read = |value: &Value| {
            let text = as_text(value)?;
            parse(&text).map(|parsed| (parsed, SecretString::from(text)))
        };
        let found = self.take(key, expected, Secrecy::Hidden, read);
        let shown = found.as_ref().map(|((_, url), _)| json!(mask_url(url)));
        self.remember(key, shown, found.as_ref().map(|(_, origin)| origin.clone()));
        found.map(|((parsed, _), _)| parsed)
    }

    /// A secret, given as it is or by the name of the file that holds it (`…_file`).
    pub(crate) fn secret(&mut self, key: &str) -> Option<SecretString> {
        self.field(key, Kind::Secret, None);
        let parse = |value: &Value| as_text(value).filter(|text| !text.trim().is_empty()).map(SecretString::from);
        let found = self.direct_or_file(key, ("text, in quotes", Secrecy::Hidden), parse, read_secret);
        self.remember(key, found.as_ref().map(|_| json!(MASK)), found.as_ref().map(|(_, origin)| origin.clone()));
        found.map(|(secret, _)| secret)
    }

    /// A secret, or `off`, which is none and is shown.
    pub(crate) fn secret_or_off(&mut self, key: &str) -> Option<Option<SecretString>> {
        let secret = self.secret(key)?;
        if secret.expose_secret() != "off" {
            return Some(Some(secret));
        }
        if let Some(setting) = self.settings.iter_mut().find(|setting| setting.key == key) {
            setting.value = json!("off");
        }
        Some(None)
    }

    /// A text that isn't blank, given as it is or by the name of the file that holds it (`…_file`).
    pub(crate) fn text_or_file(&mut self, key: &str, max_bytes: u64) -> Option<String> {
        self.field(key, Kind::TextOrFile, None);
        let expected = format!("text of at most {}", format_bytes(max_bytes));
        let fits = |text: &String| !text.trim().is_empty() && text.len() as u64 <= max_bytes;
        let parse = |value: &Value| as_text(value).filter(fits);
        let read = |path: &Path| read_text_file(path, max_bytes);
        let found = self.direct_or_file(key, (&expected, Secrecy::Shown), parse, read);
        self.remember(
            key,
            found.as_ref().map(|(text, _)| json!(text)),
            found.as_ref().map(|(_, origin)| origin.clone()),
        );
        found.map(|(text, _)| text)
    }

    /// What `key` gives as it is, or the file that `{key}_file` names; the stronger of the two, and never both of the same
    /// strength.
    fn direct_or_file<T>(
        &mut self,
        key: &str,
        (expected, secrecy): (&str, Secrecy),
        parse: impl Fn(&Value) -> Option<T>,
        read: impl Fn(&Path) -> Result<T, String>,
    ) -> Option<(T, Origin)> {
        let file_key = format!("{key}_file");
        let direct = self.take(key, expected, secrecy, parse);
        let base = self.base_of(&file_key);
        let named = self.take(&file_key, "the path of a file", Secrecy::Shown, |value| {
            as_text(value).filter(|text| !text.is_empty()).map(|text| base.join(text))
        });
        if let (Some((_, direct)), Some((_, named))) = (&direct, &named)
            && direct.rank() == named.rank()
        {
            let message = format!("both `{key}` and `{file_key}` are given: remove one");
            self.problems.push(Problem { origin: named.clone(), message });
        }
        match (direct, named) {
            (Some((value, origin)), Some((_, named))) if origin.rank() >= named.rank() => Some((value, origin)),
            (_, Some((path, named_by))) => match read(&path) {
                Ok(value) => Some((value, Origin::SecretFile { path, named_by: Box::new(named_by) })),
                Err(reason) => {
                    let message = format!("the file {} that `{file_key}` names {reason}", path.display());
                    self.problems.push(Problem { origin: named_by, message });
                    None
                }
            },
            (direct, None) => direct,
        }
    }

    /// A list of words. In the environment and on the command line they are separated by commas.
    pub(crate) fn texts(&mut self, key: &str, default: &[&str]) -> Vec<String> {
        self.field(key, Kind::Texts, Some(json!(default)));
        let default = default.iter().map(|text| (*text).to_owned()).collect();
        self.value_or(key, "a list of texts", as_texts, |texts| json!(texts), default)
    }

    /// A list of words of which each passes `check`; what is wrong with one is reported at its own place.
    pub(crate) fn checked_texts(&mut self, key: &str, check: impl Fn(&str) -> Result<(), String>) -> Vec<String> {
        let texts = self.texts(key, &[]);
        let Some(node) = self.root.find(key) else { return texts };
        for (at, text) in texts.iter().enumerate() {
            let Err(message) = check(text) else { continue };
            let origin = match &node.value {
                Value::List(items) => items[at].origin.clone(),
                _ => node.origin.clone(),
            };
            self.problems.push(Problem { origin, message });
        }
        texts
    }

    /// A list of words that `parse` understands.
    pub(crate) fn choices<T: Copy + PartialEq>(
        &mut self,
        key: &str,
        allowed: &[(&'static str, T)],
        default: &[T],
    ) -> Vec<T> {
        let default = default.to_vec();
        self.field(key, Kind::Choices(choice_names(allowed)), Some(show_choices(allowed, &default)));
        let parse = |value: &Value| parse_choices(allowed, value);
        let show = |chosen: &Vec<T>| show_choices(allowed, chosen);
        self.value_or(key, &choices_expected(allowed), parse, show, default)
    }

    /// Such a list where its absence is not the same as any list.
    pub(crate) fn optional_choices<T: Copy + PartialEq>(
        &mut self,
        key: &str,
        allowed: &[(&'static str, T)],
    ) -> Option<Vec<T>> {
        self.field(key, Kind::Choices(choice_names(allowed)), None);
        let parse = |value: &Value| parse_choices(allowed, value);
        let show = |chosen: &Vec<T>| show_choices(allowed, chosen);
        self.value(key, &choices_expected(allowed), parse, show)
    }

    /// How many things are declared under a key whose content belongs to a part that isn't built yet.
    pub(crate) fn declared(&mut self, key: &str) -> usize {
        self.field(key, Kind::Declared, None);
        self.open.push(key.to_owned());
        let parse = |value: &Value| match value {
            Value::List(items) => Some(items.len()),
            Value::Section(entries) => Some(entries.len()),
            _ => None,
        };
        let found = self.take(key, "a list or a section", Secrecy::Hidden, parse);
        let count = found.as_ref().map_or(0, |(count, _)| *count);
        self.remember(key, Some(json!(format!("{count} declared"))), found.map(|(_, origin)| origin));
        count
    }

    /// An address and port to listen on, or `off`.
    pub(crate) fn listen(&mut self, key: &str, default: Option<SocketAddr>) -> Option<SocketAddr> {
        let parse = |value: &Value| match as_text(value)?.as_str() {
            "off" => Some(None),
            address => address.parse().ok().map(Some),
        };
        let show =
            |address: &Option<SocketAddr>| json!(address.map_or("off".to_owned(), |address| address.to_string()));
        self.field(key, Kind::Listen, Some(show(&default)));
        self.value_or(key, "an address and port such as 127.0.0.1:8787, or off", parse, show, default)
    }

    /// Whether a key was given at all.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.root.find(key).is_some()
    }

    /// What `config show` prints for a setting that was read without a value.
    pub(crate) fn show_default(&mut self, key: &str, shown: &str) {
        self.show_instead(key, json!(shown), Origin::Default);
    }

    /// What `config show` prints for a setting that was read without a value and has one from elsewhere.
    pub(crate) fn show_instead(&mut self, key: &str, shown: serde_json::Value, origin: Origin) {
        let unset = |setting: &&mut Setting| setting.key == key && setting.value.is_null();
        if let Some(setting) = self.settings.iter_mut().find(unset) {
            (setting.value, setting.origin) = (shown, origin);
        }
    }

    /// The names that stand in a section, in the order in which they were given.
    pub(crate) fn names_in(&mut self, key: &str) -> Vec<String> {
        let names: Vec<String> = match self.root.find(key).map(|node| &node.value) {
            // A dot would make another key of a name; finish() reports it.
            Some(Value::Section(entries)) => {
                entries.iter().map(|(name, _)| name.clone()).filter(|name| !name.contains('.')).collect()
            }
            _ => Vec::new(),
        };
        if names.is_empty() {
            self.known.push(format!("{key}.NAME"));
        }
        names
    }

    /// Reports a mistake at a key.
    pub(crate) fn wrong(&mut self, key: &str, message: String) {
        let origin = self.origin_of(key);
        self.problems.push(Problem { origin, message });
    }

    /// Reports that a key switches on something that isn't built yet.
    pub(crate) fn not_built(&mut self, key: &str, what: &str) {
        let origin = self.origin_of(key);
        self.not_built.push(Problem { origin, message: format!("`{key}` switches on {what}: not built yet") });
    }

    /// Where a key was given; for a secret the place of its file's name.
    fn origin_of(&self, key: &str) -> Origin {
        let node = self.root.find(key).or_else(|| self.root.find(&format!("{key}_file")));
        node.map_or(Origin::Default, |node| node.origin.clone())
    }

    /// The directory from which a relative path at `key` counts.
    pub(crate) fn base_of(&self, key: &str) -> PathBuf {
        match self.root.find(key).map(|node| &node.origin) {
            Some(Origin::File { path, .. }) => path.parent().map_or_else(|| self.cwd.into(), |dir| self.cwd.join(dir)),
            _ => self.cwd.to_owned(),
        }
    }

    fn field(&mut self, key: &str, kind: Kind, default: Option<serde_json::Value>) {
        self.fields.push(Field { key: key.to_owned(), kind, default });
    }

    fn value<T>(
        &mut self,
        key: &str,
        expected: &str,
        parse: impl Fn(&Value) -> Option<T>,
        show: impl Fn(&T) -> serde_json::Value,
    ) -> Option<T> {
        let found = self.take(key, expected, Secrecy::Shown, parse);
        let shown = found.as_ref().map(|(value, _)| show(value));
        self.remember(key, shown, found.as_ref().map(|(_, origin)| origin.clone()));
        found.map(|(value, _)| value)
    }

    fn value_or<T>(
        &mut self,
        key: &str,
        expected: &str,
        parse: impl Fn(&Value) -> Option<T>,
        show: impl Fn(&T) -> serde_json::Value,
        default: T,
    ) -> T {
        let (value, origin) = self.take(key, expected, Secrecy::Shown, parse).unwrap_or((default, Origin::Default));
        self.remember(key, Some(show(&value)), Some(origin));
        value
    }

    /// Reads a key without remembering it as a setting.
    fn take<T>(
        &mut self,
        key: &str,
        expected: &str,
        secrecy: Secrecy,
        parse: impl Fn(&Value) -> Option<T>,
    ) -> Option<(T, Origin)> {
        self.known.push(key.to_owned());
        let node = self.root.find(key)?;
        if let Some(value) = parse(&node.value) {
            return Some((value, node.origin.clone()));
        }
        let message = format!("`{key}` must be {expected}, not {}", describe(&node.value, secrecy));
        self.problems.push(Problem { origin: node.origin.clone(), message });
        None
    }

    fn remember(&mut self, key: &str, value: Option<serde_json::Value>, origin: Option<Origin>) {
        let value = value.unwrap_or(serde_json::Value::Null);
        self.settings.push(Setting { key: key.to_owned(), value, origin: origin.unwrap_or(Origin::Default) });
    }
}

fn choice_names<T>(allowed: &[(&'static str, T)]) -> Vec<&'static str> {
    allowed.iter().map(|(word, _)| *word).collect()
}

fn choices_expected<T>(allowed: &[(&'static str, T)]) -> String {
    format!("a list of {}", choice_names(allowed).join(", "))
}

fn parse_count(range: &RangeInclusive<u32>, value: &Value) -> Option<u32> {
    let number = match value {
        Value::Integer(number) => u32::try_from(*number).ok(),
        Value::Given(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| range.contains(number))
}

fn count_expected(range: &RangeInclusive<u32>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

fn parse_choices<T: Copy>(allowed: &[(&'static str, T)], value: &Value) -> Option<Vec<T>> {
    let meaning = |text: String| allowed.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
    as_texts(value)?.into_iter().map(meaning).collect()
}

fn show_choices<T: PartialEq>(allowed: &[(&'static str, T)], chosen: &[T]) -> serde_json::Value {
    let word = |one: &T| allowed.iter().find(|(_, meaning)| meaning == one).map(|(word, _)| *word);
    json!(chosen.iter().filter_map(word).collect::<Vec<_>>())
}

fn read_secret(path: &Path) -> Result<SecretString, String> {
    let failed = |error: std::io::Error| format!("can't be read: {error}");
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(LONGEST_SECRET + 1).read_to_string(&mut text).map_err(failed)?;
    let whole = SecretString::from(text);
    let secret = whole.expose_secret().trim_end_matches(['\r', '\n']);
    match secret.trim().is_empty() {
        _ if secret.len() as u64 > LONGEST_SECRET => Err("is too long for a secret".to_owned()),
        true => Err("is empty".to_owned()),
        false => Ok(SecretString::from(secret)),
    }
}

/// Whether a wrong value may stand in an error message.
#[derive(Clone, Copy, PartialEq)]
enum Secrecy {
    Shown,
    Hidden,
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) | Value::Given(text) => Some(text.clone()),
        _ => None,
    }
}

fn as_size(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        value => units::parse_size(&as_text(value)?),
    }
}

/// Texts of a list; numbers count as texts, because ids of people are numbers on some platforms.
fn as_texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::List(items) => items
            .iter()
            .map(|item| match &item.value {
                Value::Integer(number) => Some(number.to_string()),
                value => as_text(value),
            })
            .collect(),
        Value::Given(text) => {
            let text = text.trim().trim_start_matches('[').trim_end_matches(']');
            let items = text.split(',').map(|item| item.trim().trim_matches(['"', '\'']).to_owned());
            Some(items.filter(|item| !item.is_empty()).collect())
        }
        _ => None,
    }
}

fn describe(value: &Value, secrecy: Secrecy) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::List(items) if secrecy == Secrecy::Shown && !items.is_empty() => {
            let items: Vec<String> = items.iter().map(|item| describe(&item.value, secrecy)).collect();
            format!("a list of {}", short(&items.join(", ")))
        }
        Value::List(_) => "a list".to_owned(),
        Value::Section(_) => "a section".to_owned(),
        Value::Text(text) | Value::Given(text) if text.trim().is_empty() => "blank".to_owned(),
        Value::Text(_) | Value::Given(_) if secrecy == Secrecy::Hidden => "this text".to_owned(),
        _ if secrecy == Secrecy::Hidden => "a number or a truth value".to_owned(),
        Value::Boolean(value) => format!("{value} (quote it if text is meant)"),
        Value::Integer(value) => format!("the number {value}"),
        Value::Decimal(value) => format!("the number {value}"),
        Value::Text(text) | Value::Given(text) => format!("{:?}", short(text)),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
