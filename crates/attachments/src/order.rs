//! The order in which tasks run: each after those whose output it needs. Pure.

use std::collections::BTreeMap;

use crate::{
    declaration::Declaration,
    item::Scope,
    playbook::{ActionConfig, AgentConfig, Playbook, TaskConfig},
    problem::{DeclarationProblem, SourcePosition},
    template::{RenderedText, TemplateContext},
};

/// A task with the agent and the action that it names.
#[derive(Debug, Clone, Copy)]
pub struct ResolvedTask<'a> {
    pub playbook: &'a Playbook,
    pub task: &'a TaskConfig,
    pub agent: &'a AgentConfig,
    pub action: &'a ActionConfig,
}

/// All agents and tasks of a configuration, whose names are known to lead somewhere.
#[derive(Debug, Clone, Default)]
pub struct Playbooks {
    playbooks: Vec<Playbook>,
}

impl Playbooks {
    /// Checks that names are unique over all files, that agents, actions and tasks which are named exist, and that no
    /// task needs its own output.
    ///
    /// # Errors
    /// With every mistake.
    pub fn new(playbooks: Vec<Playbook>) -> Result<Self, Vec<DeclarationProblem>> {
        let playbooks = Self { playbooks };
        let mut problems = playbooks.repeated_ids();
        for playbook in &playbooks.playbooks {
            for task in &playbook.tasks {
                if let Err(problem) = playbooks.check_task(playbook, task) {
                    problems.push(problem);
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        if let Some(cycle) = playbooks.find_cycle() {
            let way: Vec<&str> = cycle.iter().map(|task| task.task.id.as_str()).collect();
            let message = format!("needs its own output: {}", way.join(" → "));
            return Err(vec![task_problem(cycle[0].task, &cycle[0].task.position, message)]);
        }
        Ok(playbooks)
    }

    #[must_use]
    pub fn playbooks(&self) -> &[Playbook] {
        &self.playbooks
    }

    /// The agents of all files.
    pub fn agents(&self) -> impl Iterator<Item = &AgentConfig> {
        self.playbooks.iter().flat_map(|playbook| &playbook.agents)
    }

    /// The tasks of all files.
    pub fn tasks(&self) -> impl Iterator<Item = ResolvedTask<'_>> {
        let tasks = self.playbooks.iter().flat_map(|playbook| playbook.tasks.iter().map(move |task| (playbook, task)));
        tasks.filter_map(|(playbook, task)| self.resolve(playbook, task))
    }

    #[must_use]
    pub fn agent(&self, id: &str) -> Option<&AgentConfig> {
        self.agents().find(|agent| agent.id == id)
    }

    /// An agent with the file that declares it, by its name in upper or lower case.
    #[must_use]
    pub fn agent_with_playbook(&self, id: &str) -> Option<(&Playbook, &AgentConfig)> {
        let agents =
            self.playbooks.iter().flat_map(|playbook| playbook.agents.iter().map(move |agent| (playbook, agent)));
        agents.into_iter().find(|(_, agent)| agent.id.eq_ignore_ascii_case(id))
    }

    #[must_use]
    pub fn task(&self, id: &str) -> Option<ResolvedTask<'_>> {
        self.tasks().find(|task| task.task.id == id)
    }

    /// The tasks of a run: the named one, and before it those whose output it needs.
    #[must_use]
    pub fn run_order(&self, id: &str) -> Vec<ResolvedTask<'_>> {
        let mut order = Vec::new();
        self.push_with_needed(id, &mut order);
        order
    }

    fn push_with_needed<'a>(&'a self, id: &str, order: &mut Vec<ResolvedTask<'a>>) {
        let Some(task) = self.task(id) else { return };
        if order.iter().any(|earlier| earlier.task.id == task.task.id) {
            return;
        }
        for needed in task.references() {
            self.push_with_needed(&needed, order);
        }
        order.push(task);
    }

    fn resolve<'a>(&'a self, playbook: &'a Playbook, task: &'a TaskConfig) -> Option<ResolvedTask<'a>> {
        let agent = self.agent(&task.agent)?;
        Some(ResolvedTask { playbook, task, agent, action: agent.action(&task.action)? })
    }

    fn repeated_ids(&self) -> Vec<DeclarationProblem> {
        // People choose agents without regard to case.
        let agents = self.agents().map(|agent| ("agents", agent.id.to_ascii_lowercase(), &agent.position));
        let tasks = self.playbooks.iter().flat_map(|playbook| &playbook.tasks);
        let tasks = tasks.map(|task| ("tasks", task.id.clone(), &task.position));
        let mut first: BTreeMap<(&str, String), &SourcePosition> = BTreeMap::new();
        let mut problems = Vec::new();
        for (section, id, position) in agents.chain(tasks) {
            match first.get(&(section, id.clone())) {
                None => drop(first.insert((section, id), position)),
                Some(earlier) => problems.push(DeclarationProblem {
                    position: position.clone(),
                    item: format!("{section}.{id}"),
                    message: format!("is declared at {earlier} already; give it a name of its own"),
                }),
            }
        }
        problems
    }

    fn check_task(&self, playbook: &Playbook, task: &TaskConfig) -> Result<(), DeclarationProblem> {
        let Some(agent) = self.agent(&task.agent) else {
            let known = list(self.agents().map(|agent| agent.id.as_str()));
            let message = format!("there is no agent `{}`; {known}", task.agent);
            return Err(task_problem(task, &task.agent_position, message));
        };
        let Some(action) = agent.action(&task.action) else {
            let known = list(agent.actions.iter().map(|action| action.id.as_str()));
            let message = format!("agent `{}` has no action `{}`; {known}", agent.id, task.action);
            return Err(task_problem(task, &task.action_position, message));
        };
        let is_known = |id: &String| playbook.tasks.iter().any(|task| task.id == *id);
        match task.references(agent, action).into_iter().find(|id| !is_known(id)) {
            None => Ok(()),
            Some(missing) => {
                let known = list(playbook.tasks.iter().map(|task| task.id.as_str()));
                let message = format!("needs the output of `{missing}`, which is no task of this file; {known}");
                Err(task_problem(task, &task.position, message))
            }
        }
    }

    /// The first tasks that need each other, from one back to itself; `None` if there are none.
    fn find_cycle(&self) -> Option<Vec<ResolvedTask<'_>>> {
        let tasks: Vec<ResolvedTask<'_>> = self.tasks().collect();
        let indexes: BTreeMap<&str, usize> =
            tasks.iter().enumerate().map(|(index, task)| (task.task.id.as_str(), index)).collect();
        let needed: Vec<Vec<usize>> = tasks
            .iter()
            .map(|task| task.references().filter_map(|id| indexes.get(id.as_str()).copied()).collect())
            .collect();
        let mut visits = vec![Visit::New; tasks.len()];
        let cycle = (0..tasks.len()).find_map(|start| follow(start, &needed, &mut visits))?;
        Some(cycle.into_iter().map(|index| tasks[index]).collect())
    }
}

/// How far the search for a cycle is with a task.
#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    /// It is on the way that is being followed.
    Open,
    Done,
}

/// Follows what a task needs, each task once; returns a way back to itself.
fn follow(start: usize, needed: &[Vec<usize>], visits: &mut [Visit]) -> Option<Vec<usize>> {
    if visits[start] != Visit::New {
        return None;
    }
    visits[start] = Visit::Open;
    // Each task of the way, and how many of those that it needs were followed.
    let mut way = vec![(start, 0)];
    while let Some((task, followed)) = way.last_mut() {
        let Some(next) = needed[*task].get(*followed).copied() else {
            visits[*task] = Visit::Done;
            way.pop();
            continue;
        };
        *followed += 1;
        match visits[next] {
            Visit::Done => {}
            Visit::New => {
                visits[next] = Visit::Open;
                way.push((next, 0));
            }
            Visit::Open => {
                let cycle = way.iter().map(|(task, _)| *task).skip_while(|task| *task != next);
                return Some(cycle.chain([next]).collect());
            }
        }
    }
    None
}

impl<'a> ResolvedTask<'a> {
    /// The declarations of its scopes, in the order in which they are merged, listed and given to the model (ADR 0049).
    #[must_use]
    pub fn scopes(&self) -> [(Scope, &'a [Declaration]); 3] {
        [
            (Scope::Agent, &self.agent.attachments),
            (Scope::Task, &self.task.attachments),
            (Scope::Action, &self.action.attachments),
        ]
    }

    /// Sets the inputs that the task gives itself: whoever runs it can't change them.
    ///
    /// # Errors
    /// When an input can't be rendered.
    pub fn with_task_input(&self, context: TemplateContext) -> Result<TemplateContext, DeclarationProblem> {
        let mut own = Vec::new();
        let mut pending = Vec::new();
        for (name, text) in &self.task.input {
            match text.template.render(&context) {
                Ok(RenderedText::Text(value)) => own.push((name.clone(), value)),
                Ok(RenderedText::Deferred) => pending.push(name.clone()),
                Err(error) => {
                    let message = format!("`input.{name}`: {error}");
                    return Err(task_problem(self.task, &text.position, message));
                }
            }
        }
        Ok(context.with_own_inputs(own, pending))
    }

    /// The prompt of its action.
    ///
    /// # Errors
    /// When it can't be rendered.
    pub fn render_prompt(&self, context: &TemplateContext) -> Result<RenderedText, DeclarationProblem> {
        let text = &self.action.prompt;
        text.template.render(context).map_err(|error| {
            let (agent, action) = (&self.agent.id, &self.action.id);
            let item = format!("agents.{agent}.actions.{action}");
            DeclarationProblem { position: text.position.clone(), item, message: format!("`prompt`: {error}") }
        })
    }

    fn references(&self) -> impl Iterator<Item = String> {
        self.task.references(self.agent, self.action).into_iter()
    }
}

fn task_problem(task: &TaskConfig, position: &SourcePosition, message: String) -> DeclarationProblem {
    DeclarationProblem { position: position.clone(), item: format!("tasks.{}", task.id), message }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    match names.collect::<Vec<_>>().join(", ") {
        names if names.is_empty() => "none is declared".to_owned(),
        names => format!("there is {names}"),
    }
}
