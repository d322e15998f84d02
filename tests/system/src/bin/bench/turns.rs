//! What a turn on Telegram costs beside the model: time until the reply is sent, commits, time of the processor.

use anyhow::Result;
use satchel_fake_telegram::TelegramRules;
use satchel_local::scripted_model::{AnswerOrder, ModelScript, ScriptedAnswer, ScriptedPiece};
use serde_json::json;

use crate::{
    BenchRunner,
    overhead::{Overhead, SETTLE_DELAY},
    product::ModelChoice,
    statistics::to_f64,
    table::ResultRow,
    telegram_harness::TelegramHarness,
};

/// Turns of each kind whose commits are counted.
const COUNTED_TURNS: usize = 20;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    bench.runtime.block_on(async {
        let (rules, model) = (TelegramRules::default(), ModelChoice::Scripted(model_script()));
        let mut harness = TelegramHarness::open(bench, directory.path(), rules, 1, model).await?;
        let one_part = async |_| harness.send_and_wait("one part", "sendMessage", 1).await;
        let mut rows = Overhead::measure(&harness.satchel, directory.path(), one_part).await?.rows("text turn");
        for (kind, method, calls, bar) in [
            ("one part", "sendMessage", 1, 3.0),
            ("three parts", "sendMessage", 3, 5.0),
            ("streamed", "editMessageText", 1, 5.0),
            ("one tool call", "sendMessage", 1, 5.0),
        ] {
            // The middle of all: leases are renewed at their own time, whatever turn that meets.
            let mut commits = Vec::new();
            for _ in 0..COUNTED_TURNS {
                let before = harness.read_commits()?;
                harness.send_and_wait(kind, method, calls).await?;
                tokio::time::sleep(SETTLE_DELAY).await;
                commits.push(harness.read_commits()? - before);
            }
            commits.sort_unstable();
            let commits = to_f64(commits[COUNTED_TURNS / 2]);
            rows.push(ResultRow::new(format!("text turn: commits, {kind}"), commits, "").with_max(bar));
        }
        harness.satchel.stop()?;
        Ok(rows)
    })
}

/// Answers by what was said.
fn model_script() -> ModelScript {
    let answer = |when: &str, pieces: Vec<ScriptedPiece>| ScriptedAnswer {
        when: Some(when.to_owned()),
        pieces,
        ..ScriptedAnswer::default()
    };
    let text = |text: &str| ScriptedPiece::Text(text.to_owned());
    let long_text = "A sentence of a reply that needs three messages. ".repeat(10_000 / 49);
    let call = ScriptedPiece::Call { name: "attachment.list".to_owned(), arguments: json!({}) };
    ModelScript {
        pick: AnswerOrder::ByProgress,
        answers: vec![
            answer("one part", vec![text("A short reply.")]),
            answer("three parts", vec![text(&long_text)]),
            answer("streamed", vec![text("The beginning, "), ScriptedPiece::WaitMs(400), text("and the end.")]),
            answer("one tool call", vec![call]),
            answer("one tool call", vec![text("There are no files.")]),
        ],
    }
}
