//! What a turn costs beside the model: time until the reply is sent, commits, time of the processor.

use anyhow::Result;
use satchel_fakes::{FakeMode, Operation};
use satchel_local::scripted_model::{Pick, Piece, Script, ScriptedAnswer};
use serde_json::json;

use crate::{
    Bench,
    figures::number,
    overhead::{Overhead, QUIET},
    person::Stage,
    product::Model,
    table::Row,
};

/// Turns of each kind whose commits are counted.
const COUNTED: usize = 20;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.directory()?;
    bench.runtime.block_on(async {
        let rules = FakeMode::TelegramLike.rules();
        let mut stage = Stage::open(bench, directory.path(), rules, Model::Scripted(script())).await?;
        let one_part = async |_| stage.says("one part", Operation::Send, 1).await;
        let mut rows = Overhead::of(&stage.satchel, directory.path(), one_part).await?.rows("text turn");
        for (kind, operation, requests, bar) in [
            ("one part", Operation::Send, 1, 3.0),
            ("three parts", Operation::Send, 3, 5.0),
            ("streamed", Operation::Edit, 1, 5.0),
            ("one tool call", Operation::Send, 1, 5.0),
        ] {
            // The middle of all: leases are renewed at their own time, whatever turn that meets.
            let mut commits = Vec::new();
            for _ in 0..COUNTED {
                let before = stage.commits()?;
                stage.says(kind, operation, requests).await?;
                tokio::time::sleep(QUIET).await;
                commits.push(stage.commits()? - before);
            }
            commits.sort_unstable();
            let commits = number(commits[COUNTED / 2]);
            rows.push(Row::new(format!("text turn: commits, {kind}"), commits, "").at_most(bar));
        }
        stage.satchel.end()?;
        Ok(rows)
    })
}

/// Answers by what was said.
fn script() -> Script {
    let answer = |when: &str, pieces: Vec<Piece>| ScriptedAnswer {
        when: Some(when.to_owned()),
        pieces,
        ..ScriptedAnswer::default()
    };
    let text = |text: &str| Piece::Text(text.to_owned());
    let long = "A sentence of a reply that needs three messages. ".repeat(10_000 / 49);
    let call = Piece::Call { name: "attachment.list".to_owned(), arguments: json!({}) };
    Script {
        pick: Pick::ByProgress,
        answers: vec![
            answer("one part", vec![text("A short reply.")]),
            answer("three parts", vec![text(&long)]),
            answer("streamed", vec![text("The beginning, "), Piece::WaitMs(400), text("and the end.")]),
            answer("one tool call", vec![call]),
            answer("one tool call", vec![text("There are no files.")]),
        ],
    }
}
