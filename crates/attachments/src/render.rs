//! Renders the templates of a declaration, and checks what only then is known. Pure.

use serde_json::{Map, Value};
use url::Url;

use crate::{
    declaration::{Declaration, DeclaredKind, MetaValue, TemplateText},
    kind::{AttachmentKind, SourceField},
    problem::{DeclarationProblem, SourcePosition},
    rendered_path::check_values,
    template::{TemplateContext, TextWithValues},
};

/// The longest URL that is accepted, in bytes.
const MAX_URL_BYTES: usize = 8 << 10;

/// A declaration whose texts are known.
#[derive(Debug, Clone)]
pub struct RenderedDeclaration {
    pub kind: AttachmentKind,
    pub sources: Vec<RenderedSource>,
    pub name: Option<String>,
    pub mime: Option<String>,
    pub meta: Map<String, Value>,
}

/// One of its sources.
#[derive(Debug, Clone, PartialEq)]
pub enum RenderedSource {
    Url(Url),
    /// A path, which is taken as it is.
    Path(String, SourcePosition),
    /// A path or a glob of `paths`.
    Pattern(String, SourcePosition),
}

/// Renders a declaration; `None` when it waits for the output of a task.
///
/// # Errors
/// When a template can't be rendered, or yields something that is not allowed.
pub fn render(
    declaration: &Declaration,
    context: &TemplateContext,
) -> Result<Option<RenderedDeclaration>, DeclarationProblem> {
    let mut renderer = Renderer { declaration, context, is_deferred: false };
    let kind = renderer.kind()?;
    let field = declaration.source.field;
    let mut sources = Vec::with_capacity(declaration.source.texts.len());
    for (index, text) in declaration.source.texts.iter().enumerate() {
        let name = source_name(field, index);
        if let Some(rendered) = renderer.text_with_values(text, &name)? {
            sources.push(renderer.source(rendered, field, text, &name)?);
        }
    }
    let name = renderer.optional_text(declaration.name.as_ref(), "name")?;
    let mime = renderer.optional_text(declaration.mime.as_ref(), "mime")?;
    let mut meta = Map::new();
    for (key, value) in &declaration.meta {
        meta.insert(key.clone(), renderer.meta(value, &format!("meta.{key}"))?);
    }
    match (renderer.is_deferred, kind) {
        (false, Some(kind)) => Ok(Some(RenderedDeclaration { kind, sources, name, mime, meta })),
        _ => Ok(None),
    }
}

/// The name of a source in messages: `url`, or `urls[2]`.
fn source_name(field: SourceField, index: usize) -> String {
    match field {
        SourceField::Url | SourceField::Path => field.name().to_owned(),
        SourceField::Urls | SourceField::Paths => format!("{}[{index}]", field.name()),
    }
}

struct Renderer<'a> {
    declaration: &'a Declaration,
    context: &'a TemplateContext,
    is_deferred: bool,
}

impl Renderer<'_> {
    fn kind(&mut self) -> Result<Option<AttachmentKind>, DeclarationProblem> {
        let text = match &self.declaration.kind {
            DeclaredKind::Fixed(kind) => return Ok(Some(*kind)),
            DeclaredKind::Template(text) => text,
        };
        let Some(rendered) = self.text(text, "type")? else { return Ok(None) };
        let kind = AttachmentKind::parse(&rendered).ok_or_else(|| unknown_kind(&rendered));
        let kind = kind.and_then(|kind| check_source(kind, self.declaration.source.field).map(|()| kind));
        kind.map(Some).map_err(|message| self.declaration.problem(&text.position, message))
    }

    /// The text of a field; `None` when it waits for the output of a task.
    fn text(&mut self, text: &TemplateText, field: &str) -> Result<Option<String>, DeclarationProblem> {
        Ok(self.text_with_values(text, field)?.map(|rendered| rendered.text))
    }

    /// The same, with the place of each value in it.
    fn text_with_values(
        &mut self,
        text: &TemplateText,
        field: &str,
    ) -> Result<Option<TextWithValues>, DeclarationProblem> {
        let rendered = text.template.render_with_values(self.context);
        let rendered =
            rendered.map_err(|error| self.declaration.problem(&text.position, format!("`{field}`: {error}")))?;
        self.is_deferred |= rendered.is_none();
        Ok(rendered)
    }

    fn optional_text(
        &mut self,
        text: Option<&TemplateText>,
        field: &str,
    ) -> Result<Option<String>, DeclarationProblem> {
        text.map_or(Ok(None), |text| self.text(text, field))
    }

    fn source(
        &self,
        rendered: TextWithValues,
        field: SourceField,
        text: &TemplateText,
        name: &str,
    ) -> Result<RenderedSource, DeclarationProblem> {
        let problem = |message: String| self.declaration.problem(&text.position, message);
        if rendered.text.trim().is_empty() {
            return Err(problem(format!("`{name}` is empty")));
        }
        let refused = |reason: String| problem(format!("`{name}`: {reason}"));
        match field {
            SourceField::Url | SourceField::Urls => check_url(&rendered.text).map(RenderedSource::Url).map_err(refused),
            SourceField::Path | SourceField::Paths => {
                check_values(&rendered, &self.declaration.root).map_err(refused)?;
                let position = text.position.clone();
                Ok(match field {
                    SourceField::Path => RenderedSource::Path(rendered.text, position),
                    _ => RenderedSource::Pattern(rendered.text, position),
                })
            }
        }
    }

    fn meta(&mut self, value: &MetaValue, field: &str) -> Result<Value, DeclarationProblem> {
        match value {
            MetaValue::Fixed(value) => Ok(value.clone()),
            MetaValue::Text(text) => Ok(self.text(text, field)?.map_or(Value::Null, Value::String)),
            MetaValue::List(items) => {
                let items = items.iter().enumerate();
                items.map(|(index, item)| self.meta(item, &format!("{field}[{index}]"))).collect()
            }
            MetaValue::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    map.insert(key.clone(), self.meta(value, &format!("{field}.{key}"))?);
                }
                Ok(Value::Object(map))
            }
        }
    }
}

/// Checks that a kind takes a source.
pub(crate) fn check_source(kind: AttachmentKind, field: SourceField) -> Result<(), String> {
    match kind.sources().contains(&field) {
        true => Ok(()),
        false => Err(format!("`type: {kind}` takes {}, not `{}`", list_sources(kind.sources()), field.name())),
    }
}

/// The names of sources, for a message.
pub(crate) fn list_sources(fields: &[SourceField]) -> String {
    match fields {
        [only] => format!("`{}`", only.name()),
        _ => format!("one of {}", fields.iter().map(|field| field.name()).collect::<Vec<_>>().join(", ")),
    }
}

/// Says that a kind is unknown, and which there are.
pub(crate) fn unknown_kind(given: &str) -> String {
    let given: String = given.chars().take(40).collect();
    let kinds = AttachmentKind::ALL.map(AttachmentKind::name).join(", ");
    format!("`type` is {given:?}; allowed are {kinds}, and document for pdf")
}

/// Parses the URL of a resource.
pub(crate) fn check_url(text: &str) -> Result<Url, String> {
    if text.len() > MAX_URL_BYTES {
        return Err(format!("the URL is longer than {} KB", MAX_URL_BYTES >> 10));
    }
    let url = Url::parse(text.trim()).map_err(|error| format!("this is not a URL: {error}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        scheme => Err(format!("the URL begins with {scheme}:, and only http and https are allowed")),
    }
}
