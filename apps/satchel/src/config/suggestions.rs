//! Suggests known keys for unknown ones.

use super::origin::{ConfigProblem, SettingOrigin};
use super::overrides::{VARIABLE_PREFIX, variable_name};

/// Shorter texts are prefixes and suffixes of too many names.
const MIN_NAME_CHARS: usize = 3;

/// Reports an environment variable without effect, with a suggestion.
pub(super) fn describe_ignored_variable(variable: &str, known_keys: &[String]) -> ConfigProblem {
    let key = variable.strip_prefix(VARIABLE_PREFIX).unwrap_or(variable).to_lowercase();
    let message = match nearest_key(&key, known_keys).map(|key| first_key_in(&key, known_keys)) {
        Some(nearest_key) => {
            format!("no setting has this name, so it has no effect: did you mean {}?", variable_name(&nearest_key))
        }
        None => "no setting has this name, so it has no effect: `satchel config show` lists the settings".to_owned(),
    };
    ConfigProblem { origin: SettingOrigin::Environment(variable.to_owned()), message }
}

/// The key itself, or the first key of a section, because a section takes no value.
fn first_key_in(key: &str, known_keys: &[String]) -> String {
    let is_key = known_keys.iter().any(|candidate| candidate == key);
    let inner = known_keys.iter().find(|candidate| !is_key && is_below(candidate, key));
    inner.map_or_else(|| key.to_owned(), Clone::clone)
}

/// Reports an unknown key, with a suggestion or the known keys of its section.
pub(super) fn describe_unknown_key(origin: &SettingOrigin, key: &str, known_keys: &[String]) -> ConfigProblem {
    let message = match (origin, nearest_key(key, known_keys)) {
        (SettingOrigin::Environment(_), Some(nearest_key)) => {
            format!("no setting has this name: did you mean {}?", variable_name(&nearest_key))
        }
        (SettingOrigin::Environment(_), None) => {
            format!("no setting has this name: {}", describe_siblings(key, known_keys))
        }
        (_, Some(nearest_key)) => format!("unknown key `{key}`: did you mean `{nearest_key}`?"),
        (_, None) => format!("unknown key `{key}`: {}", describe_siblings(key, known_keys)),
    };
    ConfigProblem { origin: origin.clone(), message }
}

/// The most likely known key: one within a few typos, else one that starts or ends with the given name, else one of
/// that name in another section.
fn nearest_key(given: &str, known_keys: &[String]) -> Option<String> {
    let is_not_own_section = |key: &String| !is_below(given, key);
    let candidates: Vec<String> = sections_and_keys(known_keys).into_iter().filter(is_not_own_section).collect();
    let best_by = |rank: fn(&str, &str) -> Option<usize>| {
        let ranked = candidates.iter().filter_map(|key| {
            let (given_suffix, key_suffix) = strip_common_sections(given, key);
            Some((rank(&given_suffix.to_lowercase(), &key_suffix.to_lowercase())?, key))
        });
        ranked.min().map(|(_, key)| key.clone())
    };
    let misplaced = || {
        let name = given.rsplit('.').next().unwrap_or(given);
        known_keys.iter().find(|key| key.rsplit('.').next() == Some(name)).cloned()
    };
    best_by(typo_count).or_else(|| best_by(extra_length)).or_else(misplaced)
}

/// Strips the sections that both keys share.
fn strip_common_sections<'a>(given: &'a str, key: &'a str) -> (&'a str, &'a str) {
    let common = given.bytes().zip(key.bytes()).take_while(|(given, key)| given.eq_ignore_ascii_case(key)).count();
    let start = given.as_bytes()[..common].iter().rposition(|byte| *byte == b'.').map_or(0, |dot| dot + 1);
    (&given[start..], &key[start..])
}

/// The name that was most likely meant: one within a few typos, else one that begins or ends with what was given.
pub(crate) fn nearest_name<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let best_by = |rank: fn(&str, &str) -> Option<usize>| {
        names.iter().filter_map(|name| Some((rank(given, name)?, *name))).min().map(|(_, name)| name)
    };
    best_by(typo_count).or_else(|| best_by(extra_length))
}

/// The number of typos between two names, if there are few for their length.
pub(super) fn typo_count(given: &str, key: &str) -> Option<usize> {
    let count = strsim::damerau_levenshtein(given, key);
    (count <= 1 + given.len() / 6).then_some(count)
}

/// How many characters a name of the same section adds, if it starts or ends with the given one.
fn extra_length(given: &str, key: &str) -> Option<usize> {
    let is_affix = key.starts_with(given) || key.ends_with(given);
    (is_affix && given.len() >= MIN_NAME_CHARS && !key.contains('.')).then(|| key.len() - given.len())
}

fn sections_and_keys(known_keys: &[String]) -> Vec<String> {
    let sections = known_keys.iter().filter_map(|key| key.rsplit_once('.').map(|(section, _)| section.to_owned()));
    let mut all: Vec<String> = sections.chain(known_keys.iter().cloned()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Lists the known keys beside an unknown one.
fn describe_siblings(key: &str, known_keys: &[String]) -> String {
    let names = match key.rsplit_once('.') {
        Some((section, _)) => child_names(known_keys, section),
        None => Vec::new(),
    };
    match names.is_empty() {
        true => format!("known here are {}", child_names(known_keys, "").join(", ")),
        false => format!("known here are {}", names.join(", ")),
    }
}

pub(super) fn child_names(known_keys: &[String], section: &str) -> Vec<String> {
    let child_name = |key: &String| match section {
        "" => key.split('.').next().map(str::to_owned),
        section => key.strip_prefix(section)?.strip_prefix('.')?.split('.').next().map(str::to_owned),
    };
    let mut names: Vec<String> = known_keys.iter().filter_map(child_name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn is_below(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}
