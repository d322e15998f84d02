//! What speaks and what listens: `speech`.

use std::{ffi::OsString, time::Duration};

use satchel_speech::{Engine, Program, Server};
use secrecy::SecretString;
use serde_json::json;

use super::{locate, masking::MASK, origin::Origin, reader::Reader};

/// The variable in which OpenAI's own programs look for a key.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// The variables that a program of one's own is given, if they are set.
const HANDED_ON: [&str; 4] = ["PATH", "HOME", "LANG", "LC_ALL"];

/// What speaks and what listens.
#[derive(Debug)]
pub struct SpeechConfig {
    /// What speaks; `None` for nothing.
    pub speak: Option<Engine>,
    /// What listens; `None` for nothing.
    pub transcribe: Option<Engine>,
    /// All of the environment that a program of one's own is given.
    pub environment: Vec<(OsString, OsString)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    Off,
    Program,
    Server,
}

const PROVIDERS: [(&str, Provider); 3] =
    [("off", Provider::Off), ("openai", Provider::Server), ("command", Provider::Program)];

pub(super) fn read(reader: &mut Reader<'_>, environment: &[(OsString, OsString)]) -> SpeechConfig {
    let speak = engine(reader, "speech.speak", "voice", Duration::from_secs(60), environment);
    let transcribe = engine(reader, "speech.transcribe", "language", Duration::from_secs(5 * 60), environment);
    let handed_on = |name: &&str| Some(((*name).into(), locate::variable(environment, name)?.to_owned()));
    SpeechConfig { speak, transcribe, environment: HANDED_ON.iter().filter_map(handed_on).collect() }
}

/// Reads one side of it; `own` is the key that only this side has.
fn engine(
    reader: &mut Reader<'_>,
    section: &str,
    own: &str,
    patience: Duration,
    environment: &[(OsString, OsString)],
) -> Option<Engine> {
    let key = |name: &str| format!("{section}.{name}");
    let says = reader.is_given(&key("provider"));
    let mut provider = reader.choice(&key("provider"), &PROVIDERS);
    let command = reader.texts(&key("command"), &[]);
    let base_url = reader.http_url(&key("base_url"));
    let api_key = reader.secret(&key("api_key"));
    let model = reader.text(&key("model"));
    let chosen = reader.text(&key(own));
    let timeout = reader.duration(&key("timeout"), patience);
    if !says {
        let names_a_server =
            ["base_url", "api_key", "api_key_file", "model", own].iter().any(|name| reader.is_given(&key(name)));
        provider = match (!command.is_empty(), names_a_server) {
            (true, true) => {
                let message = format!(
                    "`{section}` names both a command and a server: say which with `{section}.provider`, or remove one"
                );
                reader.wrong(&key("command"), message);
                Provider::Off
            }
            (true, false) => Provider::Program,
            (false, true) => Provider::Server,
            (false, false) => Provider::Off,
        };
        let word = PROVIDERS.iter().find(|(_, known)| *known == provider).map_or("off", |(word, _)| word);
        reader.show_default(&key("provider"), word);
    }
    match provider {
        Provider::Off => None,
        Provider::Program if command.first().is_none_or(|program| program.trim().is_empty()) => {
            let message = format!("`{section}` has no `command`: the program and its arguments, as a list");
            reader.wrong(&key("provider"), message);
            None
        }
        Provider::Program => Some(Engine::Program(Program { command, timeout })),
        Provider::Server => {
            let api_key = api_key.or_else(|| found_key(reader, section, base_url.is_some(), environment));
            if base_url.is_none() && api_key.is_none() {
                let message = format!(
                    "`{section}` has no key for OpenAI: set `{section}.api_key`, or {KEY_VARIABLE} in the environment, \
                     or name another server with `{section}.base_url`"
                );
                reader.wrong(&key("provider"), message);
            }
            let (voice, language) = if own == "voice" { (chosen, None) } else { (None, chosen) };
            Some(Engine::Server(Server { base_url, api_key, model, voice, language, timeout }))
        }
    }
}

/// The key of the environment; it is not shown to another server than OpenAI's own.
fn found_key(
    reader: &mut Reader<'_>,
    section: &str,
    is_elsewhere: bool,
    environment: &[(OsString, OsString)],
) -> Option<SecretString> {
    let key = locate::variable(environment, KEY_VARIABLE).and_then(|value| value.to_str()).filter(|_| !is_elsewhere)?;
    reader.show_instead(&format!("{section}.api_key"), json!(MASK), Origin::Environment(KEY_VARIABLE.to_owned()));
    Some(SecretString::from(key.trim()))
}

#[cfg(test)]
mod tests {
    use satchel_speech::Engine;
    use secrecy::ExposeSecret;

    use crate::config::{Config, Sources, load_text, origin::Problems};

    fn config(yaml: &str, key: Option<&str>) -> Result<Config, Problems> {
        let mut environment = vec![("PATH".into(), "/bin".into()), ("SECRET".into(), "x".into())];
        environment.extend(key.map(|key| ("OPENAI_API_KEY".into(), key.into())));
        let cwd = std::path::Path::new("/");
        let sources = Sources { file: None, set: &[], environment: &environment, cwd };
        load_text(&cwd.join("satchel.yaml"), yaml, &sources)?.ready()
    }

    fn server(engine: Option<Engine>) -> satchel_speech::Server {
        match engine {
            Some(Engine::Server(server)) => server,
            other => panic!("no server: {other:?}"),
        }
    }

    #[test]
    fn what_is_given_says_which_engine_is_meant() {
        let speech = config("speech: { speak: { command: [espeak-ng, --stdout] } }", None).unwrap().speech;
        let Some(Engine::Program(program)) = speech.speak else { panic!("a program was named") };
        assert_eq!(
            (program.command.as_slice(), program.timeout.as_secs()),
            (&["espeak-ng".to_owned(), "--stdout".to_owned()][..], 60)
        );
        assert!(speech.transcribe.is_none());
        assert_eq!(speech.environment, [("PATH".into(), "/bin".into())], "nothing else is handed on");

        let yaml = "speech: { transcribe: { base_url: 'http://localhost:8080/v1', language: de, timeout: 90s } }";
        let server = server(config(yaml, Some("sk-env")).unwrap().speech.transcribe);
        assert_eq!((server.language.as_deref(), server.timeout.as_secs()), (Some("de"), 90));
        assert!(server.api_key.is_none(), "the key of the environment is OpenAI's");

        let yaml =
            "speech: { speak: { provider: openai, command: [espeak-ng] }, transcribe: { provider: off, model: x } }";
        let speech = config(yaml, Some(" sk-env\n")).unwrap().speech;
        assert!(speech.transcribe.is_none());
        assert_eq!(self::server(speech.speak).api_key.unwrap().expose_secret(), "sk-env");
        let nothing = config("", Some("sk-env")).unwrap().speech;
        assert!(nothing.speak.is_none() && nothing.transcribe.is_none(), "nothing is spoken or heard unasked");
    }

    #[test]
    fn what_can_not_work_is_told_at_the_start() {
        for (yaml, says) in [
            ("speech: { speak: { command: [espeak-ng], model: tts-1 } }", "names both a command and a server"),
            ("speech: { speak: { provider: command } }", "`speech.speak` has no `command`"),
            ("speech: { speak: { command: [' '] } }", "`speech.speak` has no `command`"),
            ("speech: { transcribe: { model: whisper-1 } }", "has no key for OpenAI: set `speech.transcribe.api_key`"),
            ("speech: { speak: { language: de } }", "speech.speak.language"),
        ] {
            let problems = config(yaml, None).unwrap_err().to_string();
            assert!(problems.contains(says), "`{says}` is not in `{problems}`");
        }
    }
}
