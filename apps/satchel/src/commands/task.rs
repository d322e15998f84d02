//! `satchel task`: runs a declared task as a turn in the terminal, and lists the tasks.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
};

use futures::StreamExt;
use satchel_attachments::run::task_directory;
use satchel_domain::{TaskDirectory, TaskRequest};
use satchel_ports::{BusEvent, EventBus};
use serde_json::{Value as Json, json};

use super::{
    UsageError, one_line, print_error,
    terminal::{TerminalEnv, TerminalOptions, TerminalSession, check_turn},
    turn_json::TurnJson,
    write_json, write_table,
};
use crate::{
    adapters, build::SatchelOptions, cli::TaskRunOptions, config::Config, models::ModelSelection, stores::Stores,
};

/// How many characters of a description a table shows.
const MAX_DESCRIPTION_CHARS: usize = 80;

/// Checks that the task exists and that its inputs can be given, before anything is opened.
///
/// # Errors
/// When they don't.
pub fn check(options: &TaskRunOptions, config: &Config) -> Result<(), UsageError> {
    let tasks = task_directory(&config.playbooks);
    let Some(task) = tasks.find(&options.name) else {
        let names: Vec<&str> = tasks.tasks().iter().map(|task| task.name.as_str()).collect();
        let known = match names.as_slice() {
            [] => "none is declared under `tasks` in satchel.yaml or in a file of the folder playbooks".to_owned(),
            names => format!("there is {}", names.join(", ")),
        };
        return Err(UsageError(format!("there is no task `{}`; {known}", options.name)));
    };
    if let Some(unknown) = task.find_unknown_input(&options.input) {
        let (name, inputs) = (&task.name, task.describe_inputs());
        return Err(UsageError(format!("`--input {unknown}=…`: the task `{name}` has no such input; {inputs}")));
    }
    let mut seen = Vec::new();
    for (key, _) in &options.input {
        if seen.contains(&key) {
            return Err(UsageError(format!("`--input {key}=…` is given twice")));
        }
        seen.push(key);
    }
    Ok(())
}

/// Runs a task, shows its progress, and waits until its result is delivered.
///
/// # Errors
/// When it failed, or its result was not fully delivered.
pub async fn run(
    options: &TaskRunOptions,
    config: &Config,
    stores: Stores,
    selection: &ModelSelection,
    terminal_env: TerminalEnv,
) -> anyhow::Result<()> {
    let terminal_options = TerminalOptions {
        config,
        stores,
        selection,
        terminal_env: &terminal_env,
        conversation: options.conversation.clone(),
        satchel_options: SatchelOptions::from_config(config),
        scripts: adapters::open_script_host(config),
        print_replies: !options.json,
        live: false,
    };
    let terminal = TerminalSession::open(terminal_options).await?;
    let is_shown = !options.json && std::io::stdout().is_terminal();
    if !is_shown {
        report_progress(&terminal.client.bus).await?;
    }
    let files: Vec<PathBuf> = options.attach.iter().map(|file| terminal_env.cwd.join(file)).collect();
    let request = TaskRequest { name: options.name.clone(), input: options.input.clone() };
    let record = terminal.send_and_wait(&request.to_message(), &files).await;
    terminal.close().await?;
    let record = record?;
    if options.json {
        write_json(&mut std::io::stdout().lock(), &TurnJson::from(&record))?;
    }
    check_turn(&record)
}

/// Prints the start of each task to standard error, where the reply isn't on a terminal that shows it.
async fn report_progress(bus: &Arc<dyn EventBus>) -> anyhow::Result<()> {
    let mut events = bus.subscribe().await?;
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if let BusEvent::TaskStarted { task, number, total, .. } = event {
                print_error(&format!("task {number} of {total}: {}", one_line(&task, MAX_DESCRIPTION_CHARS)));
            }
        }
    });
    Ok(())
}

/// Prints the tasks with their inputs.
///
/// # Errors
/// When they can't be written.
pub fn list(config: &Config, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let tasks = task_directory(&config.playbooks);
    match json {
        true => write_json(out, &list_json(&tasks))?,
        false if tasks.is_empty() => {
            writeln!(out, "No tasks are declared; docs/guide/attachments.md shows how to declare one.")?;
        }
        false => write_table(out, &list_rows(&tasks))?,
    }
    Ok(())
}

fn list_json(tasks: &TaskDirectory) -> Json {
    let task = |task: &satchel_domain::TaskSummary| {
        let is_open = task.allow == satchel_domain::AllowedPeople::Everyone;
        json!({
            "name": task.name,
            "description": task.description,
            "allow": if is_open { "everyone" } else { "owners" },
            "inputs": task.inputs,
        })
    };
    json!({ "version": 1, "tasks": tasks.tasks().iter().map(task).collect::<Vec<Json>>() })
}

fn list_rows(tasks: &TaskDirectory) -> Vec<Vec<String>> {
    let heading = ["NAME", "INPUTS", "DESCRIPTION"].map(str::to_owned).to_vec();
    let row = |task: &satchel_domain::TaskSummary| {
        let description = one_line(&task.description, MAX_DESCRIPTION_CHARS);
        vec![task.name.clone(), task.inputs.join(", "), description]
    };
    std::iter::once(heading).chain(tasks.tasks().iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{ConfigSources, load_text};

    const PLAYBOOK: &str = "\
agents:
  - id: reporter
    instructions: You report.
    actions: [{ id: report, prompt: 'The weather in {{ input.city }} on {{ workflow.input.day }}' }]
tasks:
  - { id: weather, agent: reporter, action: report, description: what it will be like }
  - { id: berlin, agent: reporter, action: report, input: { city: Berlin }, allow: everyone }
";

    fn config(directory: &Path, yaml: &str) -> Config {
        std::fs::write(directory.join("satchel.yaml"), yaml).unwrap();
        let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory };
        load_text(Path::new("satchel.yaml"), yaml, &sources).unwrap().into_config().unwrap()
    }

    fn listed(yaml: &str, json: bool) -> String {
        let directory = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        list(&config(directory.path(), yaml), json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tasks_are_listed_with_their_inputs() {
        let expected = "NAME     INPUTS     DESCRIPTION\nweather  city, day  what it will be like\nberlin   day\n";
        assert_eq!(listed(PLAYBOOK, false), expected);
        let listed_json: Json = serde_json::from_str(&listed(PLAYBOOK, true)).unwrap();
        let berlin = json!({ "name": "berlin", "description": "", "allow": "everyone", "inputs": ["day"] });
        assert_eq!(listed_json["tasks"][1], berlin);
        assert!(listed("log: info\n", false).starts_with("No tasks are declared"));
    }

    #[test]
    fn mistakes_are_found_before_anything_runs() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path(), PLAYBOOK);
        let error = |name: &str, input: &[(&str, &str)]| {
            let input = input.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let options = TaskRunOptions {
                name: name.into(),
                input,
                attach: Vec::new(),
                json: false,
                conversation: "console:tasks".parse().unwrap(),
            };
            check(&options, &config).map_err(|error| error.to_string()).err()
        };
        assert_eq!(error("weather", &[("city", "a b \"c\"")]), None);
        assert_eq!(error("wether", &[]).unwrap(), "there is no task `wether`; there is weather, berlin");
        assert_eq!(
            error("weather", &[("town", "Berlin")]).unwrap(),
            "`--input town=…`: the task `weather` has no such input; it takes city, day"
        );
        assert!(error("berlin", &[("city", "Rome")]).is_some(), "the task gives it itself");
        assert_eq!(error("weather", &[("day", "1"), ("day", "2")]).unwrap(), "`--input day=…` is given twice");
    }
}
