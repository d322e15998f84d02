//! What the prepared script calls where the written one says something that Starlark doesn't know.

use satchel_starlark::protocol::LARGEST_VALUE;
use starlark::{
    environment::GlobalsBuilder,
    eval::Evaluator,
    starlark_module,
    values::{Value, none::NoneType},
};

use crate::{errors::script_error, evaluate::evaluation, format::format, values::to_json};

/// The function that stands for `return` outside of a function.
pub(crate) const RETURN: &str = "_satchel_return";

/// The function that stands for a format spec in an f-string.
pub(crate) const FORMAT: &str = "_satchel_format";

#[starlark_module]
pub(super) fn functions(builder: &mut GlobalsBuilder) {
    /// Keeps the script's value and ends it by an error, since nothing in Starlark can catch one.
    fn _satchel_return<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let value = to_json(value, evaluator.heap(), LARGEST_VALUE).map_err(script_error)?;
        evaluation().returned.replace(Some(value));
        Err(script_error("the script has returned"))
    }

    fn _satchel_format<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        #[starlark(require = pos)] spec: &str,
    ) -> starlark::Result<String> {
        format(value, spec).map_err(script_error)
    }
}
