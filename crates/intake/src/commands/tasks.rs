//! `/task`: which tasks can be run, and the start of one.

use std::fmt::Write;

use satchel_domain::{
    AllowedPeople, OutgoingResponse, TaskDirectory, TaskRequest, TaskSummary, filename::to_inline_code,
};

use super::files::MAX_NAME_CHARS;

/// What `/task` leads to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TaskDecision {
    Run(TaskRequest),
    Reply(OutgoingResponse),
}

/// Who runs a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStarter {
    /// An owner, or a schedule of theirs.
    Owner,
    /// Somebody else who may talk to the bot.
    Guest,
    /// Whoever began the run that a dead process left behind.
    Resumed,
}

/// Decides what `/task` with these arguments leads to. `locked_agent` is the only agent that may answer in the chat, if it has
/// one.
pub(super) fn decide_task(
    arguments: &str,
    tasks: &TaskDirectory,
    starter: TaskStarter,
    locked_agent: Option<&str>,
) -> TaskDecision {
    let reply = |text: String| TaskDecision::Reply(OutgoingResponse::from_text(text));
    let may_run = |task: &TaskSummary| is_permitted(task, starter) && keeps_agent(task, locked_agent);
    let request = match TaskRequest::parse(arguments) {
        Ok(None) => return reply(list_tasks(tasks, may_run)),
        Err(error) => return reply(format!("I didn't run a task: {error}.")),
        Ok(Some(request)) => request,
    };
    if starter == TaskStarter::Resumed {
        // What it has made already must not stay behind, whatever the configuration says now.
        return TaskDecision::Run(request);
    }
    let Some(task) = tasks.find(&request.name) else {
        let name = to_inline_code(&request.name, MAX_NAME_CHARS);
        let permitted: Vec<String> =
            tasks.tasks().iter().filter(|task| may_run(task)).map(|task| format!("`{}`", task.name)).collect();
        return reply(match permitted.as_slice() {
            [] if tasks.is_empty() => format!("There is no task {name}: none is declared."),
            [] => format!("There is no task {name} that you may run."),
            names => format!("There is no task {name}. The tasks are {}.", names.join(", ")),
        });
    };
    if !is_permitted(task, starter) {
        return reply(format!("Only an owner can run the task `{}`.", task.name));
    }
    if let Some(agent) = locked_agent.filter(|_| !keeps_agent(task, locked_agent)) {
        return reply(format!("The task `{}` can't run here: `{agent}` alone answers in this chat.", task.name));
    }
    match task.find_unknown_input(&request.input) {
        None => TaskDecision::Run(request),
        Some(unknown) => {
            let (name, unknown) = (&task.name, to_inline_code(unknown, MAX_NAME_CHARS));
            reply(format!("I didn't run the task `{name}`: it has no input {unknown}; {}.", task.describe_inputs()))
        }
    }
}

/// Whether somebody may run a task at all.
fn is_permitted(task: &TaskSummary, starter: TaskStarter) -> bool {
    starter != TaskStarter::Guest || task.allow == AllowedPeople::Everyone
}

/// Whether no other agent than the chat's would answer.
fn keeps_agent(task: &TaskSummary, locked_agent: Option<&str>) -> bool {
    locked_agent.is_none_or(|agent| task.agents.iter().all(|name| name.eq_ignore_ascii_case(agent)))
}

/// Lists the tasks that somebody may run, with their inputs.
fn list_tasks(tasks: &TaskDirectory, may_run: impl Fn(&TaskSummary) -> bool) -> String {
    let permitted: Vec<&TaskSummary> = tasks.tasks().iter().filter(|task| may_run(task)).collect();
    if permitted.is_empty() {
        return match tasks.is_empty() {
            true => "No tasks are declared.".to_owned(),
            false => "There is no task that you may run.".to_owned(),
        };
    }
    let mut text = "The tasks:\n\n".to_owned();
    for task in permitted {
        let _ = write!(text, "- `/task {}", task.name);
        for input in &task.inputs {
            let _ = write!(text, " {input}=…");
        }
        text.push('`');
        if !task.description.trim().is_empty() {
            let _ = write!(text, ": {}", task.description.trim());
        }
        text.push('\n');
    }
    text.push_str(
        "\nA value with spaces stands in double quotes. Files that you send with the command belong to the task.",
    );
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn tasks() -> TaskDirectory {
        let task = |name: &str, description: &str, allow, inputs: &[&str]| TaskSummary {
            name: name.into(),
            description: description.into(),
            allow,
            inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
            takes_any_input: false,
            agents: vec![format!("agent-of-{name}")],
        };
        TaskDirectory::new(vec![
            task("report", "the numbers of the day", AllowedPeople::Owners, &["city", "day"]),
            task("draw", "", AllowedPeople::Everyone, &[]),
        ])
    }

    fn reply(arguments: &str, tasks: &TaskDirectory, starter: TaskStarter) -> String {
        match decide_task(arguments, tasks, starter, None) {
            TaskDecision::Reply(response) => response.text.unwrap(),
            TaskDecision::Run(request) => panic!("{request:?} runs"),
        }
    }

    #[test]
    fn list_shows_inputs_and_only_what_one_may_run() {
        let list = reply("", &tasks(), TaskStarter::Owner);
        assert!(list.contains("- `/task report city=… day=…`: the numbers of the day\n- `/task draw`\n"), "{list}");
        let list = reply("", &tasks(), TaskStarter::Guest);
        assert!(list.contains("- `/task draw`") && !list.contains("report"), "{list}");
        assert_eq!(reply("", &TaskDirectory::default(), TaskStarter::Owner), "No tasks are declared.");
    }

    #[rstest]
    #[case::owner(TaskStarter::Owner, "report city=Berlin", true)]
    #[case::owner_in_other_case(TaskStarter::Owner, "Report", true)]
    #[case::guest(TaskStarter::Guest, "report", false)]
    #[case::guest_of_open_task(TaskStarter::Guest, "draw", true)]
    #[case::resumed(TaskStarter::Resumed, "report", true)]
    #[case::resumed_and_removed(TaskStarter::Resumed, "gone", true)]
    fn only_permitted_tasks_run(#[case] starter: TaskStarter, #[case] arguments: &str, #[case] runs: bool) {
        let decision = decide_task(arguments, &tasks(), starter, None);
        assert_eq!(matches!(decision, TaskDecision::Run(_)), runs, "{decision:?}");
    }

    #[test]
    fn task_of_another_agent_does_not_run_in_a_locked_chat() {
        let decide = |arguments: &str, agent: &str| decide_task(arguments, &tasks(), TaskStarter::Owner, Some(agent));
        assert!(matches!(decide("draw", "Agent-of-draw"), TaskDecision::Run(_)));
        let refusal = |arguments: &str| match decide(arguments, "agent-of-report") {
            TaskDecision::Reply(response) => response.text.unwrap(),
            TaskDecision::Run(request) => panic!("{request:?} runs"),
        };
        assert_eq!(refusal("draw"), "The task `draw` can't run here: `agent-of-report` alone answers in this chat.");
        assert!(refusal("").contains("`/task report") && !refusal("").contains("draw"));
        let resumed = decide_task("draw", &tasks(), TaskStarter::Resumed, Some("agent-of-report"));
        assert!(matches!(resumed, TaskDecision::Run(_)), "what has begun ends");
    }

    #[test]
    fn mistakes_are_reported_and_nothing_runs() {
        assert_eq!(reply("report", &tasks(), TaskStarter::Guest), "Only an owner can run the task `report`.");
        assert_eq!(
            reply("raport", &tasks(), TaskStarter::Owner),
            "There is no task `raport`. The tasks are `report`, `draw`."
        );
        assert_eq!(reply("raport", &tasks(), TaskStarter::Guest), "There is no task `raport`. The tasks are `draw`.");
        let text = reply("report Berlin", &tasks(), TaskStarter::Owner);
        assert!(text.starts_with("I didn't run a task: \"Berlin\" is no input"), "{text}");
        assert_eq!(
            reply("report town=Berlin", &tasks(), TaskStarter::Owner),
            "I didn't run the task `report`: it has no input `town`; it takes city, day."
        );
        let text = reply("draw what=x", &tasks(), TaskStarter::Guest);
        assert_eq!(text, "I didn't run the task `draw`: it has no input `what`; it takes no inputs.");
    }
}
