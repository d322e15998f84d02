//! The values of settings: their syntax, their checks, their schema for editors and their display form.

pub mod address;
pub mod amount;
pub mod list;
pub mod secret;

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::tree::ConfigValue;
use address::{FilePath, HttpUrl, ListenAddress};
use amount::{ConfigDuration, Size, SizeOrZero};
use secret::{Instructions, Secret};

/// A value that is parsed from one text.
pub(crate) trait Leaf: Sized {
    /// Its `x-kind` in the schema.
    const KIND: &'static str;
    /// The expected form, for error messages.
    const EXPECTED: &'static str;
    /// Whether an invalid value may be a secret and is not repeated.
    const IS_SECRET: bool = false;
    /// Whether a bare number counts as its text.
    const TAKES_NUMBERS: bool = false;
    /// What stands before the path in a text that names one; `None` where no path is named.
    const PATH_SCHEME: Option<&'static str> = None;
    /// Reads the file that `…_file` names; `None` where there is no such key.
    const READ_FILE: Option<ReadFile> = None;

    /// The schema for editors, without the kind.
    fn schema() -> Json;

    /// Parses it; relative paths start at `base`.
    fn parse(text: &str, base: &Path) -> Option<Self>;

    /// The display form of a default: normalised, secrets masked; null if it is never a default.
    fn show(&self) -> Json {
        Json::Null
    }

    /// The display form of a text in `config show`, if it is valid.
    fn show_text(text: &str, base: &Path) -> Option<Json> {
        Self::parse(text, base).map(|leaf| leaf.show())
    }
}

/// Reads a file; the error is text that follows the file's name.
pub(super) type ReadFile = fn(&Path) -> Result<String, String>;

/// Implements serde's and schemars's traits with [`Leaf`]. The deserialized form is the text with the base directory of
/// relative paths.
macro_rules! leaf {
    ($leaf:ty) => {
        impl serde::Serialize for $leaf {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::config::leaf::Leaf::show(self).serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $leaf {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let (text, base) = <(String, std::ffi::OsString)>::deserialize(deserializer)?;
                <$leaf as $crate::config::leaf::Leaf>::parse(&text, std::path::Path::new(&base))
                    .ok_or_else(|| serde::de::Error::custom(<$leaf as $crate::config::leaf::Leaf>::EXPECTED))
            }
        }

        impl schemars::JsonSchema for $leaf {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                <$leaf as $crate::config::leaf::Leaf>::KIND.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::config::leaf::schema_with_kind(
                    <$leaf as $crate::config::leaf::Leaf>::KIND,
                    <$leaf as $crate::config::leaf::Leaf>::schema(),
                )
            }
        }
    };
}
pub(crate) use leaf;

/// Adds the kind to a schema.
pub(crate) fn schema_with_kind(kind: &str, mut schema: Json) -> schemars::Schema {
    schema["x-kind"] = json!(kind);
    schemars::Schema::try_from(schema).expect("a leaf's schema is an object")
}

/// The end of the expected form of a path, where one begins with `~`.
pub(super) const WITHOUT_HOME: &str = "without `~`, which isn't expanded: write the whole path";

/// Whether a path begins with `~`, which only a shell replaces. A name that begins with it is written `./~name`.
pub(super) fn is_in_home(path: &str) -> bool {
    path.starts_with('~')
}

/// A [`Leaf`] type, found by its kind in the schema.
pub(super) struct LeafKind {
    name: &'static str,
    expected: &'static str,
    is_secret: bool,
    takes_numbers: bool,
    path_scheme: Option<&'static str>,
    pub(super) read_file: Option<ReadFile>,
    show: fn(&str, &Path) -> Option<Json>,
}

static LEAF_KINDS: [LeafKind; 12] = [
    LeafKind::for_leaf::<Size>(),
    LeafKind::for_leaf::<SizeOrZero>(),
    LeafKind::for_leaf::<ConfigDuration>(),
    LeafKind::for_leaf::<FilePath>(),
    LeafKind::for_leaf::<HttpUrl>(),
    LeafKind::for_leaf::<ListenAddress>(),
    LeafKind::for_leaf::<Secret>(),
    LeafKind::for_leaf::<Instructions>(),
    LeafKind::for_leaf::<super::storage::DatabaseBackend>(),
    LeafKind::for_leaf::<super::storage::BlobBackend>(),
    LeafKind::for_leaf::<super::storage::BusBackend>(),
    LeafKind::for_leaf::<super::web::WebToken>(),
];

/// A value as serde reads it, and its display form.
#[derive(Debug)]
pub(super) struct LeafValue {
    pub(super) value: Json,
    pub(super) display: Json,
}

impl LeafKind {
    const fn for_leaf<L: Leaf>() -> Self {
        Self {
            name: L::KIND,
            expected: L::EXPECTED,
            is_secret: L::IS_SECRET,
            takes_numbers: L::TAKES_NUMBERS,
            path_scheme: L::PATH_SCHEME,
            read_file: L::READ_FILE,
            show: L::show_text,
        }
    }

    /// The kind of a schema; `None` if its value is no [`Leaf`].
    pub(super) fn for_schema(schema: &Json) -> Option<&'static Self> {
        let name = schema.get("x-kind")?.as_str()?;
        LEAF_KINDS.iter().find(|kind| kind.name == name)
    }

    /// Reads a text of this kind.
    pub(super) fn read_text(&self, text: &str, base: &Path) -> Result<LeafValue, String> {
        let path = self.path_scheme.and_then(|scheme| text.strip_prefix(scheme));
        // Behind the slashes of an empty host, as in `sqlite://data/satchel.db`.
        if path.is_some_and(|path| is_in_home(path.strip_prefix("//").unwrap_or(path))) {
            return Err(format!("{} {WITHOUT_HOME}", self.expected));
        }
        let display = (self.show)(text, base).ok_or_else(|| self.expected.to_owned())?;
        Ok(LeafValue { value: json!([text, base.as_os_str()]), display })
    }
}

/// The path that a value names, if its schema is that of one.
pub(super) fn named_path(schema: &Json, value: &LeafValue) -> Option<PathBuf> {
    LeafKind::for_schema(schema).filter(|kind| kind.name == FilePath::KIND)?;
    serde_json::from_value(value.value.clone()).ok().map(|FilePath(path)| path)
}

/// Whether an invalid value of this schema may be a secret.
pub(super) fn is_secret(schema: &Json) -> bool {
    LeafKind::for_schema(schema).is_some_and(|kind| kind.is_secret) || schema["x-kind"] == list::DECLARED
}

/// Reads a value by its schema.
///
/// # Errors
/// The expected form.
pub(super) fn read_value(schema: &Json, input: &ConfigValue, base: &Path) -> Result<LeafValue, String> {
    if let Some(kind) = LeafKind::for_schema(schema) {
        let number = match input {
            ConfigValue::Integer(number) if kind.takes_numbers => Some(number.to_string()),
            _ => None,
        };
        let text = number.or_else(|| list::to_text(input)).ok_or_else(|| kind.expected.to_owned())?;
        return kind.read_text(&text, base);
    }
    let (value, expected) = match (schema["x-kind"].as_str(), schema["type"].as_str()) {
        (Some(list::NAMES), _) => (list::read_names(input), "a name or a list of names".to_owned()),
        (Some(list::TEXTS), _) => (list::to_texts(input).map(Json::from), "a list of texts".to_owned()),
        (Some(list::CHAT_AGENTS), _) => {
            (list::read_chat_agents(input), "a section with ids of chats and names of agents".to_owned())
        }
        (Some(list::GROUP_MEMBERS), _) => {
            (list::read_group_members(input), "a section with names of conversations and lists of members".to_owned())
        }
        (Some(list::TASK_INPUTS), _) => {
            (list::read_task_inputs(input), "a section with names of inputs and their values".to_owned())
        }
        (Some(list::SWITCH), _) => (list::read_switch(input), "true or false".to_owned()),
        (Some(list::DECLARED), _) => {
            let count = list::count_entries(input).ok_or("a list or a section")?;
            return Ok(LeafValue { value: Json::Null, display: json!(format!("{count} declared")) });
        }
        (Some(super::playbooks::KIND), _) => return super::playbooks::count(input),
        (_, Some("integer")) => {
            let range = [&schema["minimum"], &schema["maximum"]].map(|end| end.as_u64().unwrap_or_default());
            (amount::read_count(input, range), format!("a whole number from {} to {}", range[0], range[1]))
        }
        (_, Some("array")) => {
            let choices = list::enum_choices(&schema["items"]).unwrap_or_default();
            let is_allowed = |texts: &Vec<String>| texts.iter().all(|text| choices.contains(&text.as_str()));
            (list::to_texts(input).filter(is_allowed).map(Json::from), format!("a list of {}", choices.join(", ")))
        }
        _ => match list::enum_choices(schema) {
            Some(choices) => {
                let is_allowed = |text: &String| choices.contains(&text.as_str());
                (list::to_text(input).filter(is_allowed).map(Json::from), format!("one of {}", choices.join(", ")))
            }
            None => (list::to_text(input).map(Json::from), "text".to_owned()),
        },
    };
    let value = value.ok_or(expected)?;
    let display = match value.as_array().map(Vec::as_slice) {
        Some([name]) if schema["x-kind"] == list::NAMES => name.clone(),
        _ => value.clone(),
    };
    Ok(LeafValue { value, display })
}
