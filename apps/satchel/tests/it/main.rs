//! The guide's front end (`docs/guide/embedding.md`): it keeps the promises of a channel, and it runs.

#![expect(clippy::unwrap_used, reason = "what fails ends the test")]

#[path = "../../examples/board/board.rs"]
mod board;
#[path = "../../examples/board/dice.rs"]
mod dice;
mod front_end;
mod promises;
#[path = "../../examples/board/run.rs"]
mod run;
