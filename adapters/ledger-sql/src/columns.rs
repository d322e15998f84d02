//! What is read from a row.

use std::error::Error;

use uuid::Uuid;

/// A row as an engine reads it. Columns count from 0.
pub trait Row {
    /// Why a column couldn't be read.
    type Error;

    /// Finds a column by its name.
    fn position(&self, name: &str) -> Result<usize, Self::Error>;

    /// Whether the column is NULL.
    fn is_null(&self, column: usize) -> Result<bool, Self::Error>;

    /// Reads a boolean.
    fn boolean(&self, column: usize) -> Result<bool, Self::Error>;

    /// Reads a number.
    fn integer(&self, column: usize) -> Result<i64, Self::Error>;

    /// Reads text.
    fn text(&self, column: usize) -> Result<&str, Self::Error>;

    /// Reads bytes.
    fn bytes(&self, column: usize) -> Result<&[u8], Self::Error>;

    /// Reads an id.
    fn id(&self, column: usize) -> Result<Uuid, Self::Error>;

    /// What says that the value of a column is invalid.
    fn invalid(&self, column: usize, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self::Error;

    /// Reads a column by its name.
    fn get<T: FromColumn>(&self, name: &str) -> Result<T, Self::Error>
    where
        Self: Sized,
    {
        T::from_column(self, self.position(name)?)
    }
}

/// A value that is read from a column.
pub trait FromColumn: Sized {
    /// Reads the value of a column.
    fn from_column<R: Row>(row: &R, column: usize) -> Result<Self, R::Error>;
}

/// A value that is read from a row.
pub trait FromRow: Sized {
    /// Reads the values of its columns.
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error>;
}

/// A row that is read by the names of its columns.
#[macro_export]
macro_rules! row_struct {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident { $($field_visibility:vis $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        $visibility struct $name { $($field_visibility $field: $type,)* }

        impl $crate::FromRow for $name {
            fn from_row<R: $crate::Row>(row: &R) -> Result<Self, R::Error> {
                Ok(Self { $($field: row.get(stringify!($field))?,)* })
            }
        }
    };
}

macro_rules! from_column {
    ($($type:ty, $row:ident, $column:ident => $read:expr;)*) => {
        $(impl FromColumn for $type {
            fn from_column<R: Row>($row: &R, $column: usize) -> Result<Self, R::Error> {
                $read
            }
        })*
    };
}

from_column! {
    bool, row, column => row.boolean(column);
    i64, row, column => row.integer(column);
    u32, row, column => u32::try_from(row.integer(column)?).map_err(|error| row.invalid(column, error));
    String, row, column => row.text(column).map(str::to_owned);
    [u8; 32], row, column => row.bytes(column)?.try_into().map_err(|error| row.invalid(column, error));
    Uuid, row, column => row.id(column);
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column<R: Row>(row: &R, column: usize) -> Result<Self, R::Error> {
        if row.is_null(column)? { Ok(None) } else { T::from_column(row, column).map(Some) }
    }
}

macro_rules! tuples {
    ($($($type:ident $column:tt),+;)*) => {
        $(impl<$($type: FromColumn),+> FromRow for ($($type,)+) {
            fn from_row<Columns: Row>(row: &Columns) -> Result<Self, Columns::Error> {
                Ok(($($type::from_column(row, $column)?,)+))
            }
        })*
    };
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
}
