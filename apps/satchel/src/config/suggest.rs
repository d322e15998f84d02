//! Which known key was probably meant by one that nobody knows.

use super::origin::{ConfigProblem, SettingOrigin};
use super::overrides::{PREFIX, variable_of};

/// Shorter ones begin and end too many names by chance.
const SHORTEST_WORD: usize = 3;

/// Says which setting an environment variable without effect was probably meant to be.
pub(super) fn without_effect(variable: &str, known: &[String]) -> ConfigProblem {
    let key = variable.trim_start_matches(PREFIX).to_lowercase();
    let message = match nearest(&key, known).map(|near| first_in(&near, known)) {
        Some(near) => format!("no setting has this name, so it has no effect: did you mean {}?", variable_of(&near)),
        None => "no setting has this name, so it has no effect: `satchel config show` lists the settings".to_owned(),
    };
    ConfigProblem { origin: SettingOrigin::Environment(variable.to_owned()), message }
}

/// A key as it is; of a section its first key, since a section itself takes no value.
fn first_in(key: &str, known: &[String]) -> String {
    let is_key = known.iter().any(|known| known == key);
    let inner = known.iter().find(|known| !is_key && below(known, key));
    inner.map_or_else(|| key.to_owned(), Clone::clone)
}

/// Says what was probably meant by a key that nobody knows, or what is known beside it.
pub(super) fn unknown(origin: &SettingOrigin, key: &str, known: &[String]) -> ConfigProblem {
    let message = match (origin, nearest(key, known)) {
        (SettingOrigin::Environment(_), Some(near)) => {
            format!("no setting has this name: did you mean {}?", variable_of(&near))
        }
        (SettingOrigin::Environment(_), None) => format!("no setting has this name: {}", allowed_beside(key, known)),
        (_, Some(near)) => format!("unknown key `{key}`: did you mean `{near}`?"),
        (_, None) => format!("unknown key `{key}`: {}", allowed_beside(key, known)),
    };
    ConfigProblem { origin: origin.clone(), message }
}

/// The known key that was probably meant: one with a typo, else one whose name holds the given one, else one of that name
/// in another section.
fn nearest(given: &str, known: &[String]) -> Option<String> {
    let own_section = |key: &String| !below(given, key);
    let candidates: Vec<String> = sections_and_keys(known).into_iter().filter(own_section).collect();
    let best = |rank: fn(&str, &str) -> Option<usize>| {
        let ranked = candidates.iter().filter_map(|key| {
            let (given, key_apart) = apart(given, key);
            Some((rank(&given.to_lowercase(), &key_apart.to_lowercase())?, key))
        });
        ranked.min().map(|(_, key)| key.clone())
    };
    let misplaced = || {
        let name = given.rsplit('.').next().unwrap_or(given);
        known.iter().find(|key| key.rsplit('.').next() == Some(name)).cloned()
    };
    best(typos).or_else(|| best(surplus)).or_else(misplaced)
}

/// Both without the sections in which both stand: those say nothing about what was meant.
fn apart<'a>(given: &'a str, key: &'a str) -> (&'a str, &'a str) {
    let alike = given.bytes().zip(key.bytes()).take_while(|(given, key)| given.eq_ignore_ascii_case(key)).count();
    let begin = given.as_bytes()[..alike].iter().rposition(|byte| *byte == b'.').map_or(0, |dot| dot + 1);
    (&given[begin..], &key[begin..])
}

/// How many typos make one of the other, if they are few for its length.
pub(super) fn typos(given: &str, key: &str) -> Option<usize> {
    let typos = strsim::damerau_levenshtein(given, key);
    (typos <= 1 + given.len() / 6).then_some(typos)
}

/// How much longer a name of the same section is that begins or ends with the given one.
fn surplus(given: &str, key: &str) -> Option<usize> {
    let holds = key.starts_with(given) || key.ends_with(given);
    (holds && given.len() >= SHORTEST_WORD && !key.contains('.')).then(|| key.len() - given.len())
}

fn sections_and_keys(known: &[String]) -> Vec<String> {
    let sections = known.iter().filter_map(|key| key.rsplit_once('.').map(|(section, _)| section.to_owned()));
    let mut all: Vec<String> = sections.chain(known.iter().cloned()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What may stand where an unknown key stands.
fn allowed_beside(key: &str, known: &[String]) -> String {
    let names = match key.rsplit_once('.') {
        Some((section, _)) => names_below(known, section),
        None => Vec::new(),
    };
    match names.is_empty() {
        true => format!("known here are {}", names_below(known, "").join(", ")),
        false => format!("known here are {}", names.join(", ")),
    }
}

pub(super) fn names_below(known: &[String], section: &str) -> Vec<String> {
    let inner = |key: &String| match section {
        "" => key.split('.').next().map(str::to_owned),
        section => key.strip_prefix(section)?.strip_prefix('.')?.split('.').next().map(str::to_owned),
    };
    let mut names: Vec<String> = known.iter().filter_map(inner).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn below(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}
