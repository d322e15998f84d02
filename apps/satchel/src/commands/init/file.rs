//! The configuration file that `init` writes: the answers, and other common settings as comments.

use std::{fmt::Write as _, path::PathBuf};

use secrecy::{ExposeSecret, SecretString};

use crate::config::models::{BUILT_IN, ProviderConfig};

/// The answers to write.
#[derive(Debug, Clone, Default)]
pub(super) struct InitAnswers {
    pub(super) model: Option<InitModelAnswer>,
    /// An existing data directory that would no longer be the default beside this file.
    pub(super) data_dir: Option<PathBuf>,
    pub(super) telegram: Option<SecretString>,
    /// The id of the person who owns the bot.
    pub(super) telegram_owner: Option<String>,
    pub(super) discord: Option<SecretString>,
}

/// A model that a provider serves.
#[derive(Debug, Clone)]
pub(super) struct InitModelAnswer {
    pub(super) provider: ProviderConfig,
    pub(super) base_url: Option<SecretString>,
    /// `None` if the environment holds it, or none is needed.
    pub(super) api_key: Option<SecretString>,
    pub(super) model: Option<String>,
}

/// The name of the model in the file.
const MODEL_NAME: &str = "main";

/// Writes the file. Lines of prose begin with "# " and a capital; a setting that is commented out begins with "#".
pub(super) fn render(answers: &InitAnswers) -> String {
    let mut file = String::from(
        "# Satchel's configuration. Every key is optional; `satchel config show` prints each value and where it comes from.\n\
         # It holds secrets: keep it readable only by you. A secret can also be in its own file, as in\n\
         # `token_file: /run/secrets/telegram`, or in the environment, as in SATCHEL_TELEGRAM__TOKEN.\n\
         # Editors can complete and check this file: run `satchel config schema > satchel.schema.json` and\n\
         # remove one # from the next line:\n## yaml-language-server: $schema=./satchel.schema.json\n\n",
    );
    file.push_str(&model_section(answers.model.as_ref()));
    file.push_str(
        "\n# Who the assistant is, in your own words.\n\
         #instructions: |\n#  You are the librarian of the Lovelace family. Answer briefly.\n",
    );
    file.push_str("\n# Where your data is stored. A relative path starts at this file's directory.\n");
    match &answers.data_dir {
        Some(directory) => {
            let _ = writeln!(file, "storage:\n  data_dir: {}", yaml_string(&directory.display().to_string()));
        }
        None => file.push_str("#storage:\n#  data_dir: satchel-data\n"),
    }
    file.push_str(
        "\n# The web page. The first start creates its token, unless you set one.\n\
         #web:\n#  listen: 127.0.0.1:8787\n#  public_url: https://satchel.example.com\n#  token: \"a long phrase\"\n\n",
    );
    let mut people =
        String::from("#  # Who may talk to the bot; \"*\" means everybody.\n#  allow_users: [\"12345678\"]\n");
    match &answers.telegram_owner {
        Some(id) => {
            let owners = format!("  # You. Owners approve other people with /pair.\n  owners: [{}]\n", yaml_string(id));
            people.insert_str(0, &owners);
        }
        None => people.push_str("#  owners: [\"12345678\"]\n"),
    }
    push_platform_section(
        &mut file,
        "telegram",
        "The bot's token from @BotFather.",
        answers.telegram.as_ref(),
        &people,
    );
    let people = "#  # Who may talk to the bot; \"*\" means everybody. Channels where it answers without a mention.\n\
                  #  allow_users: [\"123456789012345678\"]\n#  owners: [\"123456789012345678\"]\n#  channels: [\"*\"]\n";
    push_platform_section(
        &mut file,
        "discord",
        "The bot's token from the developer portal.",
        answers.discord.as_ref(),
        people,
    );
    file.push_str(
        "# How replies are sent.\n\
         #delivery:\n#  max_age: 24h\n#  on_doubt: resend\n\
         \n# Limits of one turn.\n\
         #turn:\n#  model_calls: 25\n#  tool_calls: 80\n#  steering: inject\n#  interim_text: keep\n\
         \n# Limits for incoming files.\n\
         #attachments:\n#  max_inbound_file_bytes: 2GiB\n#  max_inbound_files_per_turn: 20\n\
         \n# Metrics for Prometheus, at /metrics on their own address; the page serves them too.\n\
         #metrics:\n#  listen: 127.0.0.1:9187\n",
    );
    file
}

fn model_section(answer: Option<&InitModelAnswer>) -> String {
    let mut section = String::from("# The model that answers.\n");
    let Some(answer) = answer else {
        let _ = write!(
            section,
            "model: {BUILT_IN}\n# For a real one, remove `model: {BUILT_IN}` and fill in:\n\
             #models:\n#  {MODEL_NAME}:\n#    provider: anthropic\n#    api_key: \"sk-ant-...\"\n"
        );
        return section;
    };
    let InitModelAnswer { provider, base_url, api_key, model } = answer;
    let _ = write!(section, "model: {MODEL_NAME}\nmodels:\n  {MODEL_NAME}:\n    provider: {provider}\n");
    if let Some(url) = base_url {
        let _ = writeln!(section, "    base_url: {}", yaml_string(url.expose_secret()));
    }
    match model {
        Some(model) => {
            let _ = writeln!(section, "    model: {}", yaml_string(model));
        }
        None => section.push_str(
            "    # This is the provider's default model. To choose another:\n#    model: \"name-of-a-model\"\n",
        ),
    }
    match (api_key, provider.key_variable()) {
        (Some(key), _) => {
            let _ = writeln!(section, "    api_key: {}", yaml_string(key.expose_secret()));
        }
        (None, Some(variable)) if base_url.is_none() => {
            let _ = writeln!(section, "    # The key comes from {variable} in the environment.");
        }
        (None, _) => {}
    }
    section
}

fn push_platform_section(
    file: &mut String,
    name: &str,
    token_source: &str,
    token: Option<&SecretString>,
    people: &str,
) {
    let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
    match token {
        Some(token) => {
            let _ = write!(
                file,
                "# {title}.\n{name}:\n  # {token_source}\n  token: {}\n",
                yaml_string(token.expose_secret())
            );
        }
        None => {
            let _ = write!(file, "# {title}. {token_source}\n#{name}:\n#  token: \"...\"\n");
        }
    }
    let _ = writeln!(file, "{people}");
}

/// Text as YAML's double-quoted scalar, of which JSON's string is a form.
fn yaml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> InitAnswers {
        let secret = |text: &str| SecretString::from(text);
        InitAnswers {
            model: Some(InitModelAnswer {
                provider: ProviderConfig::OpenAi,
                base_url: Some(secret("http://box:8000/v1/")),
                api_key: Some(secret("sk-\"quoted\" # key")),
                model: Some("llama: 3".to_owned()),
            }),
            data_dir: Some("/home/ann/.local/share/satchel".into()),
            telegram: Some(secret("123:abc")),
            telegram_owner: None,
            discord: Some(secret("x.y.z")),
        }
    }

    /// The file with every commented setting enabled.
    fn uncommented(file: &str) -> String {
        let is_prose = |rest: &str| rest.starts_with('#') || (rest.starts_with(' ') && !rest.starts_with("  "));
        let line = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !is_prose(rest) => rest.to_owned(),
            _ => line.to_owned(),
        };
        file.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn generated_file_matches_schema_with_and_without_comments() {
        let keyless = InitModelAnswer { provider: ProviderConfig::Gemini, base_url: None, api_key: None, model: None };
        let cases = [InitAnswers::default(), answers(), InitAnswers { model: Some(keyless), ..InitAnswers::default() }];
        for answers in cases {
            let file = render(&answers);
            crate::config::schema::tests::assert_accepted(&file);
            let all = uncommented(&file).replace("model: offline\n", "");
            assert!(all.lines().filter(|line| !line.trim_start().starts_with('#')).count() > 30, "{all}");
            crate::config::schema::tests::assert_accepted(&all);
        }
    }

    #[test]
    fn owner_is_written_where_one_is_known() {
        let file = render(&InitAnswers { telegram_owner: Some("41".to_owned()), ..answers() });
        crate::config::schema::tests::assert_accepted(&file);
        crate::config::schema::tests::assert_accepted(&uncommented(&file).replace("model: offline\n", ""));
        let section = "  token: \"123:abc\"\n  # You. Owners approve other people with /pair.\n  owners: [\"41\"]\n";
        assert!(file.contains(section), "{file}");
    }

    #[test]
    fn the_file_reads_well() {
        insta::assert_snapshot!(render(&answers()));
    }
}
