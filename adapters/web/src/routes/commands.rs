//! The commands and the names that the page completes while a person types.

use std::sync::Arc;

use axum::{Json, extract::State};

use crate::{
    PageCommandChoice,
    state::AppState,
    wire::{Command, CommandChoice, Commands},
};

/// Lists the commands that you may give, each with the names that can follow it.
#[utoipa::path(get, path = "/api/commands", responses((status = 200, body = Commands)))]
pub(crate) async fn list(State(state): State<Arc<AppState>>) -> Json<Commands> {
    let commands = state.settings.commands.iter().map(|command| Command {
        name: command.name.clone(),
        description: command.description.clone(),
        choices: command.choices.iter().map(to_wire_choice).collect(),
    });
    Json(Commands { commands: commands.collect() })
}

fn to_wire_choice(choice: &PageCommandChoice) -> CommandChoice {
    let PageCommandChoice { name, description, inputs } = choice.clone();
    CommandChoice { name, description, inputs }
}
