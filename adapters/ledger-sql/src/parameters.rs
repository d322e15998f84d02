//! What is bound in a statement.

use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::columns::{FromColumn, Row};

/// Collects what is bound in a statement, as `$1` and so on.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::ToParameter::to_parameter(&$value)),*]
    };
}

/// A value that is bound in a statement.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Parameter<'a> {
    Null(ParameterType),
    Boolean(bool),
    Integer(i64),
    Text(&'a str),
    /// JSON text, unless the value has none.
    Json(serde_json::Result<String>),
    Bytes(&'a [u8]),
    Id(Uuid),
    Integers(&'a [i64]),
    Ids(&'a [Uuid]),
    Texts(&'a [String]),
    Digests(&'a [[u8; 32]]),
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ParameterType {
    Boolean,
    Integer,
    Text,
    Bytes,
    Id,
    Integers,
    Ids,
    Texts,
    Digests,
}

/// A value in the form in which a column stores it.
pub trait ToParameter {
    /// The type of the column.
    const COLUMN: ParameterType;

    /// The stored form.
    fn to_parameter(&self) -> Parameter<'_>;
}

macro_rules! parameters {
    ($($type:ty: $column:ident, $value:ident => $stored:expr;)*) => {
        $(impl ToParameter for $type {
            const COLUMN: ParameterType = ParameterType::$column;

            fn to_parameter(&self) -> Parameter<'_> {
                let $value = self;
                $stored
            }
        })*
    };
}

parameters! {
    bool: Boolean, value => Parameter::Boolean(*value);
    i64: Integer, value => Parameter::Integer(*value);
    u32: Integer, value => Parameter::Integer(i64::from(*value));
    usize: Integer, value => Parameter::Integer(i64::try_from(*value).unwrap_or(i64::MAX));
    str: Text, value => Parameter::Text(value);
    String: Text, value => Parameter::Text(value);
    [u8; 32]: Bytes, value => Parameter::Bytes(value);
    Uuid: Id, value => Parameter::Id(*value);
    Vec<i64>: Integers, value => Parameter::Integers(value);
    Vec<Uuid>: Ids, value => Parameter::Ids(value);
    Vec<String>: Texts, value => Parameter::Texts(value);
    Vec<[u8; 32]>: Digests, value => Parameter::Digests(value);
}

impl<T: ToParameter + ?Sized> ToParameter for &T {
    const COLUMN: ParameterType = T::COLUMN;

    fn to_parameter(&self) -> Parameter<'_> {
        (**self).to_parameter()
    }
}

impl<T: ToParameter> ToParameter for Option<T> {
    const COLUMN: ParameterType = T::COLUMN;

    fn to_parameter(&self) -> Parameter<'_> {
        self.as_ref().map_or(Parameter::Null(T::COLUMN), T::to_parameter)
    }
}

/// A value that is stored as JSON text.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<T: Serialize> ToParameter for Json<T> {
    const COLUMN: ParameterType = ParameterType::Text;

    fn to_parameter(&self) -> Parameter<'_> {
        Parameter::Json(serde_json::to_string(&self.0))
    }
}

impl<T: DeserializeOwned> FromColumn for Json<T> {
    fn from_column<R: Row>(row: &R, column: usize) -> Result<Self, R::Error> {
        let parsed = serde_json::from_str(row.text(column)?);
        parsed.map(Self).map_err(|error| row.invalid(column, error))
    }
}
