//! Splits characters that stand for themselves.

use satchel_markup::{Measure, TextForm};

use super::{
    cut::CutKind,
    prose::{Budget, Prose, ProseReach, Writing},
    tokens::Tokens,
};

/// Splits a text into chunks of at most `max` units, none of them blank.
pub(super) fn split_characters(text: &str, max: usize, measure: &Measure) -> Vec<String> {
    let tokens = Tokens::of_characters(text);
    let measure = Measure { form: TextForm::Visible, ..*measure };
    let prose = Prose { source: text, tokens: &tokens, measure: &measure };
    let budget = Budget { units: max, spans: usize::MAX, prefix: 0, max: (max, usize::MAX), is_fresh: true };
    let mut chunks = Vec::new();
    let mut position = prose.skip_blanks(prose.first_position());
    while position.token < tokens.tokens.len() {
        let cut = match prose.reach(&position, &budget) {
            ProseReach::Everything(_) => prose.last_position(),
            ProseReach::UpTo { token, at } => {
                let low = position.at + (at.saturating_sub(position.at)) / 3;
                let cut = prose
                    .last_cut(&position, (token, at), low, CutKind::Word)
                    .or_else(|| prose.last_cut(&position, (token, at), 0, CutKind::Word))
                    .map_or_else(|| prose.forced_cut(&position, (token, at)), |(_, at)| at);
                prose.position_at(&position, cut)
            }
        };
        let chunk = prose.write((&position, &cut), "", &budget, Writing::AsWritten);
        if !chunk.is_empty() {
            chunks.push(chunk);
        }
        position = prose.skip_blanks(cut);
    }
    chunks
}
