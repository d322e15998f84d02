//! The tree, and how it is read from the YAML parser.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{Location, Spanned};

/// Where a value starts in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct YamlPosition {
    /// From 1.
    pub line: u64,
    /// In characters, from 1.
    pub column: u64,
}

impl YamlPosition {
    /// The beginning of a file.
    pub const START: Self = Self { line: 1, column: 1 };

    fn from_location(location: &Location) -> Self {
        Self { line: location.line().max(1), column: location.column().max(1) }
    }
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct YamlNode {
    pub value: YamlValue,
    pub position: YamlPosition,
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub enum YamlValue {
    /// Nothing, or `null`.
    Null,
    Boolean(bool),
    /// A whole number.
    Integer(i128),
    /// A number with a fraction.
    Decimal(f64),
    Text(String),
    List(Vec<YamlNode>),
    /// The entries in the order of the file; no key stands in it twice.
    Map(Vec<YamlEntry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct YamlEntry {
    pub key: String,
    pub key_position: YamlPosition,
    pub node: YamlNode,
}

impl From<Spanned<RawValue>> for YamlNode {
    fn from(raw: Spanned<RawValue>) -> Self {
        let position = YamlPosition::from_location(&raw.referenced);
        let value = match raw.value {
            RawValue::Scalar(value) => value,
            RawValue::List(items) => YamlValue::List(items.into_iter().map(Self::from).collect()),
            RawValue::Map(entries) => YamlValue::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| YamlEntry {
                        key_position: YamlPosition::from_location(&key.referenced),
                        key: key.value,
                        node: Self::from(value),
                    })
                    .collect(),
            ),
        };
        Self { value, position }
    }
}

/// A value of the YAML parser, before positions are attached.
pub(crate) enum RawValue {
    Scalar(YamlValue),
    List(Vec<Spanned<RawValue>>),
    Map(Vec<(Spanned<String>, Spanned<RawValue>)>),
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawValueVisitor)
    }
}

struct RawValueVisitor;

impl<'de> Visitor<'de> for RawValueVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(YamlValue::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(YamlValue::Boolean(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(YamlValue::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(YamlValue::Integer(value.into())))
    }

    fn visit_i128<E>(self, value: i128) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(YamlValue::Integer(value)))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<RawValue, E> {
        let value = i128::try_from(value).map_err(|_| E::custom("a number that is far too large"))?;
        Ok(RawValue::Scalar(YamlValue::Integer(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(YamlValue::Decimal(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(YamlValue::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawValue, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            if key.value.is_empty() {
                return Err(A::Error::custom("a key is empty"));
            }
            map.push((key, entries.next_value()?));
        }
        Ok(RawValue::Map(map))
    }
}
