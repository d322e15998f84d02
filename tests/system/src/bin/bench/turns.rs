//! What a turn costs beside the model: time until the reply is sent, commits, time of the processor.

use std::time::Duration;

use anyhow::Result;
use satchel_fakes::{FakeMode, Operation};
use satchel_local::scripted_model::{Pick, Piece, Script, ScriptedAnswer};
use serde_json::json;

use crate::{
    Bench,
    figures::{ms, number, percentile},
    limits,
    person::Stage,
    product::Model,
    table::Row,
};

const TURNS: u32 = 300;

/// Turns of each kind whose commits are counted.
const COUNTED: usize = 20;

/// After a reply, until its last part is settled and nothing is under way.
const QUIET: Duration = Duration::from_millis(20);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.directory()?;
    let mut appends = limits::appends(directory.path(), 200)?;
    bench.runtime.block_on(async {
        let rules = FakeMode::TelegramLike.rules();
        let mut stage = Stage::open(bench, directory.path(), rules, Model::Scripted(script())).await?;
        for _ in 0..20 {
            turn(&stage, "one part", Operation::Send, 1).await?;
        }
        let (cpu, commits) = (stage.satchel.cpu()?, stage.commits()?);
        let mut times = Vec::new();
        for _ in 0..TURNS {
            times.push(turn(&stage, "one part", Operation::Send, 1).await?);
        }
        let cpu = (stage.satchel.cpu()? - cpu) / TURNS;
        let commits = number(stage.commits()? - commits) / f64::from(TURNS);
        appends.extend(limits::appends(directory.path(), 200)?);

        let append = |percent| ms(percentile(&appends, percent));
        let overhead = |percent: usize, name: &str, slack: f64| {
            Row::new(format!("text turn: overhead {name}"), ms(percentile(&times, percent)), "ms")
                .limit(append(percent))
                .at_most(3.0 * append(percent) + slack)
        };
        let mut rows = vec![
            Row::new("text turn: one fsync'd append p50 (F)", append(50), "ms"),
            Row::new("text turn: one fsync'd append p99 (F)", append(99), "ms"),
            overhead(50, "p50", 2.0).note("bar: 3 F + 2 ms"),
            overhead(99, "p99", 10.0).note("bar: 3 F + 10 ms"),
            Row::new("text turn: processor", ms(cpu), "ms").at_most(2.0),
            Row::new("text turn: commits, one part", commits, "").at_most(3.0),
        ];
        for (kind, operation, requests, bar) in [
            ("three parts", Operation::Send, 3, 5.0),
            ("streamed", Operation::Edit, 1, 5.0),
            ("one tool call", Operation::Send, 1, 5.0),
        ] {
            // The middle of all: leases are renewed at their own time, whatever turn that meets.
            let mut commits = Vec::new();
            for _ in 0..COUNTED {
                let before = stage.commits()?;
                turn(&stage, kind, operation, requests).await?;
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

async fn turn(stage: &Stage, text: &str, operation: Operation, requests: u64) -> Result<Duration> {
    let took = stage.says(text, operation, requests).await?;
    tokio::time::sleep(QUIET).await;
    Ok(took)
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
