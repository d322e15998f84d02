//! What happens at a time of its own: `schedules`.

use jiff::tz::{TimeZone, db};
use satchel_domain::{ConversationId, script};

use super::{reader::Reader, text_file::read_text_file, web::Web};
use crate::{
    schedules::{
        Schedule,
        due::{Missed, Rhythm},
    },
    time_zone::machine_zone,
};

/// The most that is read of a script.
const LONGEST_SCRIPT: u64 = 250_000;

/// The longest name.
const LONGEST_NAME: usize = 64;

/// What a time looks like, for error messages.
const CRON: &str = "a cron expression in quotes, such as \"0 8 * * mon-fri\" or \"@daily\"";

/// A channel on which something can be said while nobody is there.
struct Served {
    channel: &'static str,
    /// What sets it up.
    key: &'static str,
    is_set_up: bool,
    /// What its conversations look like, in words.
    form: &'static str,
    is_place: fn(&str) -> bool,
}

pub(super) fn read(reader: &mut Reader<'_>, web: &Web) -> Vec<Schedule> {
    let served = served(reader, web);
    let names = reader.names_in("schedules");
    names.into_iter().filter_map(|name| read_one(reader, name, &served)).collect()
}

/// Everything that `satchel run` can host. That a token is wrong is told where it stands.
fn served(reader: &Reader<'_>, web: &Web) -> [Served; 3] {
    let has_token = |platform: &str| {
        reader.is_given(&format!("{platform}.token")) || reader.is_given(&format!("{platform}.token_file"))
    };
    [
        Served {
            channel: "telegram",
            key: "telegram.token",
            is_set_up: has_token("telegram"),
            form: "numbers: telegram:123456789 is a person, telegram:-100123 a group, telegram:-100123/42 a topic of one",
            is_place: |key| {
                let (chat, topic) = key.split_once('/').map_or((key, None), |(chat, topic)| (chat, Some(topic)));
                chat.parse::<i64>().is_ok() && topic.is_none_or(|topic| topic.parse::<i32>().is_ok())
            },
        },
        Served {
            channel: "discord",
            key: "discord.token",
            is_set_up: has_token("discord"),
            form: "numbers: discord:81384788765712384 is a channel, discord:@80351110224678912 a person",
            is_place: |key| {
                let number = key.strip_prefix('@').unwrap_or(key);
                !number.starts_with('0') && number.parse::<u64>().is_ok()
            },
        },
        Served {
            channel: "web",
            key: "web.listen",
            is_set_up: web.listen.is_some(),
            form: "made of letters, digits, `-` and `_`, such as web:reports",
            is_place: |key| key.len() <= 64 && !key.contains(['.', '/', '@']),
        },
    ]
}

/// Reads one schedule; `None` when something is wrong with it, which was told.
fn read_one(reader: &mut Reader<'_>, name: String, served: &[Served]) -> Option<Schedule> {
    let section = format!("schedules.{name}");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.len() > LONGEST_NAME || !name.bytes().all(plain) {
        let message =
            format!("a schedule's name is made of at most {LONGEST_NAME} letters from a to z, digits, `-` and `_`");
        reader.wrong(&section, message);
    }
    let cron = required(reader, &section, "cron", CRON);
    let zone = zone(reader, &format!("{section}.timezone"));
    let rhythm = cron.zip(zone).and_then(|(cron, zone)| {
        let told = |error| format!("`{section}.cron` must be {CRON}, not {cron:?}: {error}");
        let rhythm = Rhythm::parse(&cron, zone).map_err(told);
        rhythm.map_err(|message| reader.wrong(&format!("{section}.cron"), message)).ok()
    });
    let words = words(reader, &section);
    let conversation = required(reader, &section, "conversation", "where it is answered, such as telegram:123456789")
        .and_then(|conversation| {
            let read = conversation_of(&conversation, served);
            let told = |error| format!("`{section}.conversation` {error}");
            read.map_err(|error| reader.wrong(&format!("{section}.conversation"), told(error))).ok()
        });
    let policies = [("run_once", Missed::RunOnce), ("skip", Missed::Skip), ("run_all", Missed::RunAll)];
    let missed = reader.choice(&format!("{section}.missed"), &policies);
    let enabled = reader.switch(&format!("{section}.enabled"), true);
    Some(Schedule { name, rhythm: rhythm?, words: words?, conversation: conversation?, missed, enabled })
}

/// Reads what can't be left out; `what` says what it is.
fn required(reader: &mut Reader<'_>, section: &str, name: &str, what: &str) -> Option<String> {
    let key = format!("{section}.{name}");
    if !reader.is_given(&key) {
        reader.wrong(section, format!("`{section}` has no `{name}`: {what}"));
    }
    reader.text(&key)
}

/// The zone by whose clocks it is due; `None` for one that nobody knows, which was told.
fn zone(reader: &mut Reader<'_>, key: &str) -> Option<TimeZone> {
    let Some(name) = reader.text(key) else {
        let zone = machine_zone();
        reader.show_default(key, &format!("{}, as on this machine", zone.iana_name().unwrap_or("its own")));
        return Some(zone);
    };
    let told = |_| format!("`{key}` must be the name of a time zone{}, not {name:?}", suggestion(&name));
    TimeZone::get(&name).map_err(told).map_err(|message| reader.wrong(key, message)).ok()
}

/// What may have been meant: the zone whose name is nearest, or that is named after a city of nearly that name.
fn suggestion(given: &str) -> String {
    let given = given.to_lowercase().replace(' ', "_");
    let distance = |given: &str, name: &str| {
        let distance = strsim::damerau_levenshtein(given, name);
        (distance <= 1 + given.len() / 6).then_some(distance)
    };
    let near = |zone: String| {
        let name = zone.to_lowercase();
        let (_, city) = name.rsplit_once('/')?;
        let given_city = given.rsplit('/').next().unwrap_or(&given);
        Some((distance(&given, &name).or_else(|| distance(given_city, city))?, zone))
    };
    let nearest = db().available().filter_map(|zone| near(zone.as_str().to_owned())).min();
    nearest.map_or_else(|| " such as Europe/Berlin or UTC".to_owned(), |(_, zone)| format!(", perhaps {zone}"))
}

/// What is to be done: the prompt, or the script as a message.
fn words(reader: &mut Reader<'_>, section: &str) -> Option<String> {
    const KEYS: [&str; 3] = ["prompt", "script", "script_file"];
    let key = |name: &str| format!("{section}.{name}");
    let prompt = reader.text(&key("prompt"));
    let script = reader.text(&key("script"));
    let file = reader.path(&key("script_file"));
    let given: Vec<&str> = KEYS.into_iter().filter(|name| reader.is_given(&key(name))).collect();
    match given.as_slice() {
        [_] => {}
        [] => reader
            .wrong(section, format!("`{section}` does nothing: give it a `prompt`, a `script` or a `script_file`")),
        [first, others @ ..] => {
            let message = format!("`{section}` has both `{first}` and `{}`: remove one", others.join("` and `"));
            reader.wrong(section, message);
            return None;
        }
    }
    let script = match file {
        Some(file) => {
            let told = |reason| format!("the file {} that `{section}.script_file` names {reason}", file.display());
            let read = read_text_file(&file, LONGEST_SCRIPT).map_err(told);
            Some(read.map_err(|message| reader.wrong(&key("script_file"), message)).ok()?)
        }
        None => script,
    };
    let (words, is_script) = match script {
        Some(script) => (script, true),
        None => (prompt?, false),
    };
    if words.trim().is_empty() {
        reader.wrong(&key(given[0]), format!("`{section}.{}` must not be blank", given[0]));
        return None;
    }
    Some(if is_script { script::to_script_message(&words) } else { words })
}

/// The conversation of that name, if something can be said there.
fn conversation_of(text: &str, served: &[Served]) -> Result<ConversationId, String> {
    let channels = || served.iter().map(|served| served.channel).collect::<Vec<_>>().join(", ");
    let Ok(conversation) = text.parse::<ConversationId>() else {
        return Err(format!("must be a conversation such as telegram:123456789, not {text:?}"));
    };
    let channel = conversation.channel().as_str();
    let Some(known) = served.iter().find(|served| served.channel == channel) else {
        return Err(format!("is on {channel:?}, where `satchel run` says nothing; it does on {}", channels()));
    };
    match (known.is_set_up, (known.is_place)(conversation.key())) {
        (false, _) => Err(format!("is on {channel}, which is not set up: give `{}`", known.key)),
        (true, false) => Err(format!("names no place on {channel}, where conversations are {}", known.form)),
        (true, true) => Ok(conversation),
    }
}

#[cfg(test)]
mod tests;
