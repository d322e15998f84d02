//! The values that settings are made of: how each is written, checked, described to editors and shown.

pub mod address;
pub mod amount;
pub mod list;
pub mod secret;

use std::path::Path;

use serde_json::{Value as Json, json};

use super::tree::ConfigValue;
use address::{FilePath, HttpUrl, Listen};
use amount::{Size, SizeOrZero, Span};
use secret::{Instructions, Secret};

/// A value that is written as one text.
pub(crate) trait Leaf: Sized {
    /// Its `x-kind` in the schema, by which the check finds it again.
    const KIND: &'static str;
    /// What it must be, for error messages.
    const EXPECTED: &'static str;
    /// Whether a wrong value may be a secret and is not repeated.
    const IS_SECRET: bool = false;
    /// Whether a bare number counts as its text.
    const TAKES_NUMBERS: bool = false;
    /// Reads the file that `…_file` names; `None` where there is no such key.
    const FILE: Option<ReadFile> = None;

    /// The form for editors, without the kind.
    fn schema() -> Json;

    /// Reads it; relative paths count from `base`.
    fn parse(text: &str, base: &Path) -> Option<Self>;

    /// As the schema's defaults have it: normalised, secrets masked; null for what is never a default.
    fn show(&self) -> Json {
        Json::Null
    }

    /// As `config show` has what was written, if it can be read.
    fn show_written(text: &str, base: &Path) -> Option<Json> {
        Self::parse(text, base).map(|leaf| leaf.show())
    }
}

/// Reads a file, or says what is wrong with it in words that follow its name.
pub(super) type ReadFile = fn(&Path) -> Result<String, String>;

/// Derives from [`Leaf`] what serde and schemars want. What is deserialized is the text with the directory from which
/// relative paths count.
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
                $crate::config::leaf::schema_of(
                    <$leaf as $crate::config::leaf::Leaf>::KIND,
                    <$leaf as $crate::config::leaf::Leaf>::schema(),
                )
            }
        }
    };
}
pub(crate) use leaf;

/// A schema that names its kind.
pub(crate) fn schema_of(kind: &str, mut schema: Json) -> schemars::Schema {
    schema["x-kind"] = json!(kind);
    schemars::Schema::try_from(schema).expect("a leaf's schema is an object")
}

/// A [`Leaf`] as the check finds it by its name.
pub(super) struct Kind {
    name: &'static str,
    expected: &'static str,
    is_secret: bool,
    takes_numbers: bool,
    pub(super) read_file: Option<ReadFile>,
    show: fn(&str, &Path) -> Option<Json>,
}

static KINDS: [Kind; 12] = [
    Kind::for_leaf::<Size>(),
    Kind::for_leaf::<SizeOrZero>(),
    Kind::for_leaf::<Span>(),
    Kind::for_leaf::<FilePath>(),
    Kind::for_leaf::<HttpUrl>(),
    Kind::for_leaf::<Listen>(),
    Kind::for_leaf::<Secret>(),
    Kind::for_leaf::<Instructions>(),
    Kind::for_leaf::<super::storage::DatabaseBackend>(),
    Kind::for_leaf::<super::storage::BlobBackend>(),
    Kind::for_leaf::<super::storage::BusBackend>(),
    Kind::for_leaf::<super::web::WebToken>(),
];

/// A value as serde reads it, and as people see it.
#[derive(Debug)]
pub(super) struct LeafValue {
    pub(super) value: Json,
    pub(super) shown: Json,
}

impl Kind {
    const fn for_leaf<L: Leaf>() -> Self {
        Self {
            name: L::KIND,
            expected: L::EXPECTED,
            is_secret: L::IS_SECRET,
            takes_numbers: L::TAKES_NUMBERS,
            read_file: L::FILE,
            show: L::show_written,
        }
    }

    /// The kind of a schema; `None` for what isn't written as one text of its own kind.
    pub(super) fn find(schema: &Json) -> Option<&'static Self> {
        let name = schema.get("x-kind")?.as_str()?;
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Reads a text of this kind.
    pub(super) fn read_text(&self, text: &str, base: &Path) -> Result<LeafValue, String> {
        let shown = (self.show)(text, base).ok_or_else(|| self.expected.to_owned())?;
        Ok(LeafValue { value: json!([text, base.as_os_str()]), shown })
    }
}

/// Whether a wrong value of this schema may be a secret.
pub(super) fn is_secret(schema: &Json) -> bool {
    Kind::find(schema).is_some_and(|kind| kind.is_secret) || schema["x-kind"] == list::DECLARED
}

/// Reads what was written as its schema wants it.
///
/// # Errors
/// With what it must be.
pub(super) fn read(schema: &Json, written: &ConfigValue, base: &Path) -> Result<LeafValue, String> {
    if let Some(kind) = Kind::find(schema) {
        let number = match written {
            ConfigValue::Integer(number) if kind.takes_numbers => Some(number.to_string()),
            _ => None,
        };
        let text = number.or_else(|| list::as_text(written)).ok_or_else(|| kind.expected.to_owned())?;
        return kind.read_text(&text, base);
    }
    let (value, expected) = match (schema["x-kind"].as_str(), schema["type"].as_str()) {
        (Some(list::NAMES), _) => (list::read_names(written), "a name or a list of names".to_owned()),
        (Some(list::TEXTS), _) => (list::as_texts(written).map(Json::from), "a list of texts".to_owned()),
        (Some(list::SWITCH), _) => (list::read_switch(written), "true or false".to_owned()),
        (Some(list::DECLARED), _) => {
            let count = list::count_declared(written).ok_or("a list or a section")?;
            return Ok(LeafValue { value: Json::Null, shown: json!(format!("{count} declared")) });
        }
        (_, Some("integer")) => {
            let range = [&schema["minimum"], &schema["maximum"]].map(|end| end.as_u64().unwrap_or_default());
            (amount::read_count(written, range), format!("a whole number from {} to {}", range[0], range[1]))
        }
        (_, Some("array")) => {
            let words = list::words(&schema["items"]).unwrap_or_default();
            let known = |texts: &Vec<String>| texts.iter().all(|text| words.contains(&text.as_str()));
            (list::as_texts(written).filter(known).map(Json::from), format!("a list of {}", words.join(", ")))
        }
        _ => match list::words(schema) {
            Some(words) => {
                let known = |text: &String| words.contains(&text.as_str());
                (list::as_text(written).filter(known).map(Json::from), format!("one of {}", words.join(", ")))
            }
            None => (list::as_text(written).map(Json::from), "text".to_owned()),
        },
    };
    let value = value.ok_or(expected)?;
    let shown = match value.as_array().map(Vec::as_slice) {
        Some([name]) if schema["x-kind"] == list::NAMES => name.clone(),
        _ => value.clone(),
    };
    Ok(LeafValue { value, shown })
}
