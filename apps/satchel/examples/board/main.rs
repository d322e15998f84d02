//! Another front end on the same core: a notice board that is a directory.
//!
//! `cargo run --example board -- DIRECTORY` lets Ada hang up a plan there and take it back. The guide
//! (`docs/guide/embedding.md`) shows this program file by file.

mod board;
mod dice;
mod run;

use std::path::PathBuf;

use anyhow::Context;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = std::env::args_os().nth(1).context("name the directory of the board")?;
    run::run(&PathBuf::from(directory)).await
}
