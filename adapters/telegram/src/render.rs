//! Renders Markdown as Telegram's HTML.
//!
//! There are two renderers. The rich one renders headings, lists, tables and quotes. It can make a text longer than the
//! length that it was split by; then the verbatim one is used, which shows every character except the markers that
//! the measurement leaves out, and therefore never exceeds it.

mod html;
mod rich;
mod table;
mod verbatim;

use satchel_domain::capabilities::TextLimit;

/// Renders a text within the limit, provided that it was measured to fit.
pub(crate) fn render(text: &str, limit: &TextLimit) -> String {
    let rich = rich::render(text);
    let fits = limit.max.is_none_or(|max| rich.units() <= max)
        && limit.entities.is_none_or(|entities| rich.entities() <= entities.max(1));
    if fits { rich.into_text() } else { verbatim::render(text, limit.entities).into_text() }
}

#[cfg(test)]
mod tests;
