//! The functions that a prepared script calls in place of syntax that Starlark doesn't have.

use satchel_starlark::protocol::MAX_VALUE_BYTES;
use starlark::{
    environment::GlobalsBuilder,
    eval::Evaluator,
    starlark_module,
    values::{Value, none::NoneType},
};

use crate::{errors::script_error, evaluate::current_evaluation, format::format_value, values::to_json};

/// The function that stands for `return` outside of a function.
pub(crate) const RETURN: &str = "_satchel_return";

/// The function that stands for a format spec in an f-string.
pub(crate) const FORMAT: &str = "_satchel_format";

#[starlark_module]
pub(super) fn functions(builder: &mut GlobalsBuilder) {
    /// Stores the script's value and ends the script with an error, which Starlark can't catch.
    fn _satchel_return<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let value = to_json(value, evaluator.heap(), MAX_VALUE_BYTES).map_err(script_error)?;
        current_evaluation().returned_value.replace(Some(value));
        Err(script_error("the script has returned"))
    }

    fn _satchel_format<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        #[starlark(require = pos)] spec: &str,
    ) -> starlark::Result<String> {
        format_value(value, spec).map_err(script_error)
    }
}
