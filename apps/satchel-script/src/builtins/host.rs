//! The host's functions, and `wake_llm`.

use satchel_starlark::protocol::{FromWorker, HostCall, MAX_ARGUMENTS_BYTES, MAX_VALUE_BYTES, WakeMessage};
use serde_json::{Map, Value as Json};
use starlark::{
    environment::{Globals, GlobalsBuilder},
    eval::{Arguments, Evaluator},
    starlark_module,
    values::{Value, none::NoneType},
};

use crate::{
    errors::script_error,
    evaluate::current_evaluation,
    values::{from_json, json_bytes, to_json},
};

/// The built-in function behind all of the host's.
const CALL_BUILTIN: &str = "_satchel_call";

/// The host's function of this name, as a value.
///
/// It is `partial(CALL_BUILTIN, name)`: a callable type of our own would need an unsafe implementation.
pub(crate) fn host_function<'v>(
    name: &str,
    globals: &Globals,
    evaluator: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let find_builtin = |builtin: &str| {
        let found = globals.iter().find(|(name, _)| *name == builtin);
        found.expect("it is among the functions that are built in").1.to_value()
    };
    let name = evaluator.heap().alloc(name);
    evaluator.eval_function(find_builtin("partial"), &[find_builtin(CALL_BUILTIN), name], &[])
}

/// Sends a message to the host and returns its response to the script.
pub(super) fn call_host<'v>(message: &FromWorker, evaluator: &Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
    let answer = current_evaluation().host.request(message).map_err(script_error)?;
    from_json(&answer, evaluator.heap()).map_err(script_error)
}

#[starlark_module]
pub(super) fn functions(builder: &mut GlobalsBuilder) {
    /// Calls the function of the host that the first argument names, with the others.
    fn _satchel_call<'v>(
        arguments: &Arguments<'v, '_>,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = evaluator.heap();
        let mut positional = arguments.positions(heap)?;
        let Some(function) = positional.next().and_then(Value::unpack_str) else {
            return Err(script_error(format!("{CALL_BUILTIN} takes the name of a function first")));
        };
        let mut remaining = MAX_ARGUMENTS_BYTES;
        let too_large = |why| script_error(format!("the arguments of {function}: {why}"));
        let mut encode_argument = |value: Value<'v>| -> starlark::Result<Json> {
            let json = to_json(value, heap, remaining).map_err(too_large)?;
            remaining = remaining.saturating_sub(json_bytes(&json));
            Ok(json)
        };
        let positional = positional.map(&mut encode_argument).collect::<Result<_, _>>()?;
        let mut named = Map::new();
        for (name, value) in arguments.names_map()? {
            named.insert(name.as_str().to_owned(), encode_argument(value)?);
        }
        let call = HostCall { function: function.to_owned(), positional, named };
        // Names and commas count, too.
        if json_bytes(&call) > MAX_ARGUMENTS_BYTES {
            return Err(too_large(format!("they have more than {MAX_ARGUMENTS_BYTES} bytes as JSON")));
        }
        call_host(&FromWorker::Call(call), evaluator)
    }

    /// Requests a model call with this context after the script.
    fn wake_llm<'v>(
        context: Value<'v>,
        #[starlark(default = true)] include_event: bool,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let context = to_json(context, evaluator.heap(), MAX_VALUE_BYTES).map_err(script_error)?;
        let wake = FromWorker::Wake(WakeMessage { context, include_event });
        let evaluation = current_evaluation();
        // The whole line counts, or a million empty ones would be free.
        let wake_bytes = evaluation.wake_bytes.get() + json_bytes(&wake);
        if wake_bytes > MAX_VALUE_BYTES {
            return Err(script_error(format!(
                "the contexts of wake_llm have more than {MAX_VALUE_BYTES} bytes together"
            )));
        }
        evaluation.wake_bytes.set(wake_bytes);
        evaluation.host.send(&wake);
        Ok(NoneType)
    }
}
