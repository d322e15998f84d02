//! Renders TeX formulas as MathML. Whatever the library writes, only the elements and attributes below are passed on.

use std::panic::{self, AssertUnwindSafe};

use pulldown_latex::{
    Parser, Storage,
    config::{DisplayMode, RenderConfig},
    mathml::push_mathml,
};
use satchel_markup::TexFormula;

use super::tex::BoundedTex;

/// The maximum ratio of the MathML's size to that of the formula.
const MAX_GROWTH_FACTOR: usize = 32;

const ELEMENTS: [&str; 27] = [
    "math",
    "mfrac",
    "mi",
    "mmultiscripts",
    "mn",
    "mo",
    "mover",
    "mpadded",
    "mphantom",
    "mprescripts",
    "mroot",
    "mrow",
    "ms",
    "mspace",
    "msqrt",
    "mstyle",
    "msub",
    "msubsup",
    "msup",
    "mtable",
    "mtd",
    "mtext",
    "mtr",
    "munder",
    "munderover",
    "none",
    "semantics",
];

const ATTRIBUTES: [&str; 25] = [
    "accent",
    "accentunder",
    "columnspan",
    "depth",
    "display",
    "displaystyle",
    "fence",
    "form",
    "height",
    "largeop",
    "linethickness",
    "lspace",
    "mathvariant",
    "maxsize",
    "minsize",
    "movablelimits",
    "rowspan",
    "rspace",
    "scriptlevel",
    "separator",
    "stretchy",
    "symmetric",
    "voffset",
    "width",
    "class",
];

/// Renders a formula; `None` for one that isn't understood, is nested too deeply or would grow too long.
pub(super) fn to_mathml(formula: &TexFormula<'_>) -> Option<String> {
    // A formula that makes the library panic costs its form, never the reply. An overflow of the stack would end the
    // process: that's why only bounded ones are rendered.
    panic::catch_unwind(AssertUnwindSafe(|| render(formula))).unwrap_or_default()
}

fn render(formula: &TexFormula<'_>) -> Option<String> {
    let tex = BoundedTex::parse(&formula.tex)?;
    let storage = Storage::new();
    let events: Vec<_> = Parser::new(tex.as_str(), &storage).collect::<Result<_, _>>().ok()?;
    let display_mode = if formula.is_display { DisplayMode::Block } else { DisplayMode::Inline };
    let mut mathml = String::new();
    let events = events.into_iter().map(Ok::<_, std::convert::Infallible>);
    push_mathml(&mut mathml, events, RenderConfig { display_mode, ..RenderConfig::default() }).ok()?;
    let is_short = mathml.len() <= formula.source.len().saturating_mul(MAX_GROWTH_FACTOR) + 256;
    if is_short { allowed_elements(&mathml) } else { None }
}

/// Copies MathML, with nothing but the allowed elements and attributes; `None` if there are others.
fn allowed_elements(mathml: &str) -> Option<String> {
    let mut html = String::with_capacity(mathml.len());
    let mut open: Vec<&str> = Vec::new();
    let mut rest = mathml;
    while let Some(at) = rest.find(['<', '&']) {
        html.push_str(&rest[..at]);
        rest = &rest[at..];
        let is_tag = rest.starts_with('<') && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        if !is_tag {
            if let Some(after) = rest.strip_prefix("&nbsp;") {
                html.push('\u{a0}');
                rest = after;
                continue;
            }
            // The library writes a sign for "less than" as it is.
            let is_entity = ["&lt;", "&gt;", "&amp;", "&quot;", "&#39;"].iter().any(|entity| rest.starts_with(entity));
            html.push_str(match (is_entity, rest.starts_with('<')) {
                (true, _) => "&",
                (false, true) => "&lt;",
                (false, false) => "&amp;",
            });
            rest = &rest[1..];
            continue;
        }
        let end = rest.find('>')?;
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            (open.pop()? == name).then_some(())?;
            html.push_str(&format!("</{name}>"));
            continue;
        }
        let is_empty = tag.ends_with('/');
        let (name, attributes) = tag.trim_end_matches('/').split_once(' ').unwrap_or((tag.trim_end_matches('/'), ""));
        ELEMENTS.contains(&name).then_some(())?;
        html.push_str(&format!("<{name}"));
        push_attributes(attributes, &mut html);
        html.push('>');
        if is_empty {
            html.push_str(&format!("</{name}>"));
        } else {
            open.push(name);
        }
    }
    html.push_str(rest);
    open.is_empty().then_some(html)
}

/// Copies the allowed attributes; the others, such as styles, are left out.
fn push_attributes(attributes: &str, html: &mut String) {
    let mut rest = attributes;
    while let Some((name, after)) = rest.split_once("=\"") {
        let Some((value, next)) = after.split_once('"') else { return };
        rest = next;
        let name = name.trim();
        let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || ".%+- ".contains(c));
        if ATTRIBUTES.contains(&name) && is_plain {
            html.push_str(&format!(" {name}=\"{value}\""));
        }
    }
}
