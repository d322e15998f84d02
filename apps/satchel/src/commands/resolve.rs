//! `satchel attachments resolve`: which attachments tasks and agents would get, without running them.

mod report;
#[cfg(test)]
mod tests;

use std::{io::Write, path::Path};

use satchel_attachments::{
    ActionConfig, AgentConfig, EffectiveList, Playbook, Scope, TemplateContext,
    declaration::Declaration,
    order::{Playbooks, ResolvedTask},
    problem::DeclarationProblem,
    resolve::ResolutionPolicy,
    run::{RunValues, trigger_values},
};
use satchel_domain::{SystemTask, TaskRequest, Timestamp};
use satchel_ports::{DeclaredFiles, Fetcher};
use satchel_runtime::schedules::Schedule;
use serde_json::json;
use uuid::Uuid;

use self::report::{ListReport, entry_report};
use super::{UsageError, write_json};
use crate::{
    cli::ResolveOptions,
    config::{Config, LoadedConfig, origin::ConfigProblems, playbooks},
};

/// What declarations are resolved with.
pub struct ResolveServices<'a> {
    pub files: &'a dyn DeclaredFiles,
    pub fetcher: &'a dyn Fetcher,
    pub policy: ResolutionPolicy,
    /// When the run that is tried starts.
    pub now: Timestamp,
}

/// The declarations of one task, or of one action of an agent.
struct Subject<'a> {
    task: Option<&'a str>,
    agent: &'a str,
    action: Option<&'a str>,
    scopes: Vec<(Scope, &'a [Declaration])>,
    context: TemplateContext,
}

/// Lists the effective attachments of the file's tasks, or of its agents if it has no tasks.
///
/// # Errors
/// When the file or an input is wrong, or something can't be resolved.
pub async fn run(
    options: &ResolveOptions,
    loaded: &LoadedConfig,
    services: &ResolveServices<'_>,
    cwd: &Path,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let playbooks = with_file(&loaded.config().playbooks, &options.file, cwd)?;
    let run = PlannedRun::new(loaded.config(), options, services.now)?;
    let subjects = subjects(&playbooks, &options.file, cwd, &run)?;
    let mut reports = Vec::with_capacity(subjects.len());
    for subject in subjects {
        reports.push(resolve_subject(subject, options, services).await?);
    }
    match options.json {
        true => write_json(out, &json!({ "version": 1, "lists": reports }))?,
        false => report::write(out, &reports)?,
    }
    let (failed, all) = report::count_failures(&reports);
    match failed {
        0 => Ok(()),
        _ => anyhow::bail!("{failed} of {all} attachments can't be resolved"),
    }
}

async fn resolve_subject(
    subject: Subject<'_>,
    options: &ResolveOptions,
    services: &ResolveServices<'_>,
) -> Result<ListReport, ConfigProblems> {
    let list = EffectiveList::load(&subject.scopes, &subject.context, services.files).await.map_err(to_error)?;
    let mut entries = Vec::with_capacity(list.entries().len());
    for entry in list.entries() {
        entries.push(entry_report(entry, options.no_fetch, services).await);
    }
    let name = |name: Option<&str>| name.map(str::to_owned);
    let Subject { task, agent, action, .. } = subject;
    Ok(ListReport { task: name(task), agent: agent.to_owned(), action: name(action), entries })
}

fn to_error(problems: Vec<DeclarationProblem>) -> ConfigProblems {
    ConfigProblems(playbooks::to_problems(problems))
}

/// The configuration's playbooks, with a file that isn't one of them yet.
fn with_file(loaded: &Playbooks, file: &Path, cwd: &Path) -> Result<Playbooks, ConfigProblems> {
    if find_playbook(loaded, file, cwd).is_some() {
        return Ok(loaded.clone());
    }
    let added = playbooks::read(file, cwd).map_err(ConfigProblems)?;
    let all = loaded.playbooks().iter().cloned().chain([added]).collect();
    Playbooks::new(all).map_err(to_error)
}

fn find_playbook<'a>(playbooks: &'a Playbooks, file: &Path, cwd: &Path) -> Option<&'a Playbook> {
    let wanted = cwd.join(file).canonicalize().ok()?;
    playbooks
        .playbooks()
        .iter()
        .find(|playbook| cwd.join(&playbook.file).canonicalize().is_ok_and(|path| path == wanted))
}

/// The run that is tried, with the values that it would have.
struct PlannedRun {
    values: RunValues,
    /// The task that it runs; `None` tries all tasks of the file.
    task: Option<String>,
}

impl PlannedRun {
    /// Plans the next run of a schedule, or else one that a person starts.
    fn new(config: &Config, options: &ResolveOptions, now: Timestamp) -> Result<Self, UsageError> {
        let (task, input, system_task) = match &options.schedule {
            None => (options.task.clone(), options.input.clone(), None),
            Some(name) => {
                let (TaskRequest { name, input }, system_task) = scheduled_task(&config.schedules, name, now)?;
                (Some(name), input, Some(system_task))
            }
        };
        let values = RunValues {
            // It has the form of a run's id, and no run has it.
            exec_id: Uuid::nil().to_string(),
            input: input.into_iter().map(|(key, value)| (key, json!(value))).collect(),
            environment: config.templates.values.clone(),
            trigger: trigger_values(system_task.as_ref()),
        };
        Ok(Self { values, task })
    }
}

/// The task that a schedule runs, and what starts its next run.
fn scheduled_task(schedules: &[Schedule], name: &str, now: Timestamp) -> Result<(TaskRequest, SystemTask), UsageError> {
    let Some(schedule) = schedules.iter().find(|schedule| schedule.name == name) else {
        let known: Vec<&str> = schedules.iter().map(|schedule| schedule.name.as_str()).collect();
        let known = if known.is_empty() { "none is set".to_owned() } else { format!("there is {}", known.join(", ")) };
        return Err(UsageError(format!("there is no schedule `{name}`; {known}")));
    };
    let Some(request) = schedule.task_request() else {
        return Err(UsageError(format!("the schedule `{name}` runs no task")));
    };
    let due = schedule.cron.next(now).unwrap_or(now);
    Ok((request, schedule.system_task(due)))
}

/// The tasks of a file, or the actions of its agents if it has no tasks.
fn subjects<'a>(
    playbooks: &'a Playbooks,
    path: &Path,
    cwd: &Path,
    run: &PlannedRun,
) -> anyhow::Result<Vec<Subject<'a>>> {
    let file = path.display();
    let Some(playbook) = find_playbook(playbooks, path, cwd) else {
        anyhow::bail!("{file} can't be found any more");
    };
    let context = run.values.to_context(playbooks, &playbook.id);
    let tasks: Vec<ResolvedTask<'_>> = playbooks.tasks().filter(|task| std::ptr::eq(task.playbook, playbook)).collect();
    if let Some(name) = &run.task
        && tasks.iter().all(|task| task.task.id != *name)
    {
        let known: Vec<&str> = tasks.iter().map(|task| task.task.id.as_str()).collect();
        let known =
            if known.is_empty() { "it has no tasks".to_owned() } else { format!("it has {}", known.join(", ")) };
        return Err(UsageError(format!("{file} has no task `{name}`; {known}")).into());
    }
    let is_wanted = |task: &&ResolvedTask<'_>| run.task.as_ref().is_none_or(|name| task.task.id == *name);
    match tasks.is_empty() {
        false => tasks.iter().filter(is_wanted).map(|task| task_subject(playbooks, task, &context)).collect(),
        true => Ok(playbook.agents.iter().flat_map(|agent| agent_subjects(agent, &context)).collect()),
    }
}

fn task_subject<'a>(
    playbooks: &Playbooks,
    task: &ResolvedTask<'a>,
    context: &TemplateContext,
) -> anyhow::Result<Subject<'a>> {
    let needed = playbooks.run_order(&task.task.id);
    let others = needed.iter().filter(|needed| needed.task.id != task.task.id);
    let context = others.fold(context.clone(), |context, needed| context.with_pending_task(&needed.task.id));
    let context = task.with_task_input(context).map_err(|problem| to_error(vec![problem]))?;
    Ok(Subject {
        task: Some(&task.task.id),
        agent: &task.agent.id,
        action: Some(&task.action.id),
        scopes: task.scopes().to_vec(),
        context,
    })
}

fn agent_subjects<'a>(agent: &'a AgentConfig, context: &TemplateContext) -> Vec<Subject<'a>> {
    let own: (Scope, &[Declaration]) = (Scope::Agent, &agent.attachments);
    let subject = |action: Option<&'a ActionConfig>| {
        let scopes: Vec<_> =
            [own].into_iter().chain(action.map(|action| (Scope::Action, action.attachments.as_slice()))).collect();
        // Which task the agent will work for is open.
        let templates = scopes.iter().flat_map(|(_, declarations)| *declarations).flat_map(Declaration::templates);
        let tasks = templates.flat_map(|text| text.template.referenced_tasks());
        let context = tasks.fold(context.clone(), |context, task| context.with_pending_task(task));
        Subject { task: None, agent: &agent.id, action: action.map(|action| action.id.as_str()), scopes, context }
    };
    match agent.actions.is_empty() {
        true => vec![subject(None)],
        false => agent.actions.iter().map(Some).map(subject).collect(),
    }
}
