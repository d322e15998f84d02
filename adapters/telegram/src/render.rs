//! Renders a text as Telegram's HTML, and as its Rich HTML.
//!
//! The text was measured as it is rendered here. If it is too long all the same, its tables become lines, and if that is
//! too long as well, it is shown as it was written.

mod compact;
mod html;
mod rich;

use satchel_domain::capabilities::TextLimit;
use satchel_markup::{Document, write_message};

pub(crate) use self::rich::render_rich;

use self::html::{EntityBudget, HtmlWriter};

/// Renders a text within the limit, provided that it was measured to fit.
pub(crate) fn render(text: &str, limit: &TextLimit) -> String {
    let document = Document::parse(text);
    let fits = |html: &HtmlWriter| html.units() > 0 && limit.max.is_none_or(|max| html.units() <= max);
    let mut html = write(&document, None);
    let mut budget = None;
    if let Some(max) = limit.entities.map(|entities| entities.max(1)).filter(|max| html.entities() > *max) {
        budget = Some(EntityBudget { max, links: html.links() });
        html = write(&document, budget);
    }
    if fits(&html) {
        return html.into_text();
    }
    let document = Document { blocks: compact::with_tables_as_lines(document.blocks), ..document };
    let compact = write(&document, budget);
    if fits(&compact) { compact.into_text() } else { html::escaped(text) }
}

/// Whether a text that was not cut for it is one message in HTML.
pub(crate) fn fits_one_message(text: &str, limit: &TextLimit) -> bool {
    let html = write(&Document::parse(text), None);
    let is_within = |found: usize, max: Option<usize>| max.is_none_or(|max| found <= max);
    is_within(html.units(), limit.max) && is_within(html.entities(), limit.entities)
}

/// Writes a document; with a budget, what goes beyond it has no formatting.
fn write(document: &Document<'_>, budget: Option<EntityBudget>) -> HtmlWriter {
    let mut html = HtmlWriter::new(budget);
    write_message(document, &mut html);
    html
}

#[cfg(test)]
mod tests;
