//! Text-to-speech and transcription: `speech`.

use std::{ffi::OsString, time::Duration};

use satchel_speech::{CommandEngine, EngineSettings, ServerEngine};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    leaf::{
        address::HttpUrl,
        amount::ConfigDuration,
        list::Texts,
        secret::{MASK, Secret},
    },
    origin::SettingOrigin,
    resolver::Resolver,
};

/// The environment variable for OpenAI's key.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Text-to-speech and transcription. Off by default.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SpeechConfig {
    speak: SpeakConfig,
    transcribe: TranscribeConfig,
    /// All of the environment that a program of one's own is given.
    #[serde(skip)]
    pub environment: Vec<(OsString, OsString)>,
}

/// Text-to-speech for replies: a program of your own or a server.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct SpeakConfig {
    /// `command` runs a program; `openai` calls OpenAI or any server that offers its API. By default it follows from
    /// the other settings.
    #[schemars(extend("default" = "off"))]
    provider: Option<SpeechProvider>,
    /// The program and its arguments. It reads the text from standard input and writes WAV or OGG/Opus to standard
    /// output.
    command: Texts,
    /// Another server than OpenAI's own, such as `http://localhost:8880/v1`.
    base_url: Option<HttpUrl>,
    /// The server's key. Without it and without `base_url`, OPENAI_API_KEY is taken from the environment.
    api_key: Option<Secret>,
    /// The server's name of the model; by default gpt-4o-mini-tts.
    model: Option<String>,
    /// The server's name of the voice; by default alloy.
    voice: Option<String>,
    /// How long it may take to speak one reply.
    timeout: ConfigDuration,
}

/// Transcription of voice messages: a program of your own or a server.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct TranscribeConfig {
    /// `command` runs a program; `openai` calls OpenAI or any server that offers its API. By default it follows from
    /// the other settings.
    #[schemars(extend("default" = "off"))]
    provider: Option<SpeechProvider>,
    /// The program and its arguments. It writes the text to standard output. `{file}` is the recording as it was sent,
    /// `{wav}` the recording as WAV; with neither the recording is the last argument.
    command: Texts,
    /// Another server than OpenAI's own, such as `http://localhost:8080/v1`.
    base_url: Option<HttpUrl>,
    /// The server's key. Without it and without `base_url`, OPENAI_API_KEY is taken from the environment.
    api_key: Option<Secret>,
    /// The server's name of the model; by default whisper-1.
    model: Option<String>,
    /// The language that is spoken, such as `en`; by default the server detects it.
    language: Option<String>,
    /// How long it may take to transcribe one voice message.
    timeout: ConfigDuration,
}

/// What does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SpeechProvider {
    Off,
    #[serde(rename = "openai")]
    OpenAi,
    Command,
}

impl Default for SpeakConfig {
    fn default() -> Self {
        Self {
            provider: None,
            command: Texts::default(),
            base_url: None,
            api_key: None,
            model: None,
            voice: None,
            timeout: ConfigDuration(Duration::from_secs(60)),
        }
    }
}

impl Default for TranscribeConfig {
    fn default() -> Self {
        Self {
            provider: None,
            command: Texts::default(),
            base_url: None,
            api_key: None,
            model: None,
            language: None,
            timeout: ConfigDuration(Duration::from_secs(5 * 60)),
        }
    }
}

impl SpeechConfig {
    /// The settings of the synthesis engine, if it is on.
    #[must_use]
    pub fn speak_engine(&self) -> Option<EngineSettings> {
        let SpeakConfig { provider, command, base_url, api_key, model, voice, timeout } = &self.speak;
        let server = server_engine(base_url.as_ref(), api_key.as_ref(), model.as_ref(), *timeout);
        engine_settings(*provider, command, ServerEngine { voice: voice.clone(), ..server })
    }

    /// The settings of the transcription engine, if it is on.
    #[must_use]
    pub fn transcribe_engine(&self) -> Option<EngineSettings> {
        let TranscribeConfig { provider, command, base_url, api_key, model, language, timeout } = &self.transcribe;
        let server = server_engine(base_url.as_ref(), api_key.as_ref(), model.as_ref(), *timeout);
        engine_settings(*provider, command, ServerEngine { language: language.clone(), ..server })
    }

    pub(super) fn resolve(&mut self, resolver: &mut Resolver<'_>) {
        let SpeakConfig { provider, command, base_url, api_key, .. } = &mut self.speak;
        let section = SpeechSection { section: "speech.speak", own_key: "voice", provider, command, base_url, api_key };
        section.resolve(resolver);
        resolver.locate_program("speech.speak.command", &mut self.speak.command);
        let TranscribeConfig { provider, command, base_url, api_key, .. } = &mut self.transcribe;
        let section =
            SpeechSection { section: "speech.transcribe", own_key: "language", provider, command, base_url, api_key };
        section.resolve(resolver);
        resolver.locate_program("speech.transcribe.command", &mut self.transcribe.command);
        self.environment = resolver.program_environment();
    }
}

/// `speech.speak` or `speech.transcribe`, while it is resolved.
struct SpeechSection<'a> {
    section: &'static str,
    /// The key that only this section has.
    own_key: &'static str,
    provider: &'a mut Option<SpeechProvider>,
    command: &'a Texts,
    base_url: &'a Option<HttpUrl>,
    api_key: &'a mut Option<Secret>,
}

impl SpeechSection<'_> {
    /// Infers the provider, takes a key from the environment, and checks the settings.
    fn resolve(self, resolver: &mut Resolver<'_>) {
        let Self { section, own_key, provider, command, base_url, api_key } = self;
        let key = |name: &str| format!("{section}.{name}");
        if !resolver.is_given(&key("provider")) {
            let server_keys = ["base_url", "api_key", "api_key_file", "model", own_key];
            let has_server_key = server_keys.iter().any(|name| resolver.is_given(&key(name)));
            let inferred = match (!command.0.is_empty(), has_server_key) {
                (true, true) => {
                    let message = format!(
                        "`{section}` names both a command and a server: say which with `{section}.provider`, or remove \
                         one"
                    );
                    resolver.report(&key("command"), message);
                    SpeechProvider::Off
                }
                (true, false) => SpeechProvider::Command,
                (false, true) => SpeechProvider::OpenAi,
                (false, false) => SpeechProvider::Off,
            };
            *provider = Some(inferred);
            resolver.show_default(&key("provider"), json!(inferred));
        }
        match provider {
            Some(SpeechProvider::Command) if has_no_program(command) => {
                let message = format!("`{section}` has no `command`: the program and its arguments, as a list");
                resolver.report(&key("provider"), message);
            }
            // The key of the environment is sent to OpenAI's own server only.
            Some(SpeechProvider::OpenAi) if api_key.is_none() && base_url.is_none() => {
                match resolver.variable(KEY_VARIABLE) {
                    Some(found) => {
                        *api_key = Some(Secret(SecretString::from(found.trim())));
                        let origin = SettingOrigin::Environment(KEY_VARIABLE.to_owned());
                        resolver.show_derived(&key("api_key"), json!(MASK), origin);
                    }
                    None => {
                        let message = format!(
                            "`{section}` has no key for OpenAI: set `{section}.api_key`, or {KEY_VARIABLE} in the \
                             environment, or name another server with `{section}.base_url`"
                        );
                        resolver.report(&key("provider"), message);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a command names no program.
pub(super) fn has_no_program(command: &Texts) -> bool {
    command.0.first().is_none_or(|program| program.trim().is_empty())
}

fn server_engine(
    base_url: Option<&HttpUrl>,
    api_key: Option<&Secret>,
    model: Option<&String>,
    timeout: ConfigDuration,
) -> ServerEngine {
    ServerEngine {
        base_url: base_url.map(|url| url.0.clone()),
        api_key: api_key.map(|key| key.0.clone()),
        model: model.cloned(),
        voice: None,
        language: None,
        timeout: timeout.0,
    }
}

fn engine_settings(provider: Option<SpeechProvider>, command: &Texts, server: ServerEngine) -> Option<EngineSettings> {
    match provider? {
        SpeechProvider::Off => None,
        SpeechProvider::Command if has_no_program(command) => None,
        SpeechProvider::Command => {
            Some(EngineSettings::Program(CommandEngine { command: command.0.clone(), timeout: server.timeout }))
        }
        SpeechProvider::OpenAi => Some(EngineSettings::Server(server)),
    }
}

#[cfg(test)]
mod tests {
    use satchel_speech::EngineSettings;
    use secrecy::ExposeSecret;

    use crate::config::{Config, ConfigSources, load_text, origin::ConfigProblems};

    fn config(yaml: &str, key: Option<&str>) -> Result<Config, ConfigProblems> {
        let mut environment = vec![("PATH".into(), "/bin".into()), ("SECRET".into(), "x".into())];
        environment.extend(key.map(|key| ("OPENAI_API_KEY".into(), key.into())));
        let cwd = std::path::Path::new("/");
        let sources = ConfigSources { file: None, set: &[], environment: &environment, cwd };
        load_text(&cwd.join("satchel.yaml"), yaml, &sources)?.into_config()
    }

    fn server(engine: Option<EngineSettings>) -> satchel_speech::ServerEngine {
        match engine {
            Some(EngineSettings::Server(server)) => server,
            other => panic!("no server: {other:?}"),
        }
    }

    #[test]
    fn what_is_given_says_which_engine_is_meant() {
        let speech = config("speech: { speak: { command: [espeak-ng, --stdout] } }", None).unwrap().speech;
        let Some(EngineSettings::Program(program)) = speech.speak_engine() else { panic!("a program was named") };
        assert_eq!(
            (program.command.as_slice(), program.timeout.as_secs()),
            (&["espeak-ng".to_owned(), "--stdout".to_owned()][..], 60)
        );
        assert!(speech.transcribe_engine().is_none());
        assert_eq!(speech.environment, [("PATH".into(), "/bin".into())], "nothing else is handed on");

        let yaml = "speech: { transcribe: { base_url: 'http://localhost:8080/v1', language: de, timeout: 90s } }";
        let server = server(config(yaml, Some("sk-env")).unwrap().speech.transcribe_engine());
        assert_eq!((server.language.as_deref(), server.timeout.as_secs()), (Some("de"), 90));
        assert!(server.api_key.is_none(), "the key of the environment is OpenAI's");

        let yaml =
            "speech: { speak: { provider: openai, command: [espeak-ng] }, transcribe: { provider: off, model: x } }";
        let speech = config(yaml, Some(" sk-env\n")).unwrap().speech;
        assert!(speech.transcribe_engine().is_none());
        assert_eq!(self::server(speech.speak_engine()).api_key.unwrap().expose_secret(), "sk-env");
        let nothing = config("", Some("sk-env")).unwrap().speech;
        assert!(
            nothing.speak_engine().is_none() && nothing.transcribe_engine().is_none(),
            "nothing is spoken or heard unasked"
        );
    }

    #[test]
    fn invalid_speech_config_is_reported_at_start() {
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
