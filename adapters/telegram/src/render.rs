//! Markdown as the HTML that Telegram reads.
//!
//! There are two ways. The rich one shows what the marks mean: headings, lists, tables, quotes. What it adds can make
//! a text longer than it was measured to be when it was split; then the verbatim one takes its place, which shows every
//! character but the markers that the measure leaves out, and so never is.

mod html;
mod link;
mod rich;
mod table;
mod verbatim;

use satchel_domain::capabilities::TextLimit;

/// Renders a text that stays within the limit as far as it was measured to.
pub(crate) fn render(text: &str, limit: &TextLimit) -> String {
    let rich = rich::render(text);
    let fits = limit.max.is_none_or(|max| rich.units() <= max)
        && limit.entities.is_none_or(|entities| rich.entities() <= entities.max(1));
    if fits { rich.into_text() } else { verbatim::render(text, limit.entities).into_text() }
}

#[cfg(test)]
mod tests;
