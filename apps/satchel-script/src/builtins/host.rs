//! The host's functions, and what else a script says to its host.

use satchel_starlark::protocol::{FromWorker, HostCall, LARGEST_ARGUMENTS, LARGEST_VALUE, WakeMessage};
use serde_json::{Map, Value as Json};
use starlark::{
    environment::{Globals, GlobalsBuilder},
    eval::{Arguments, Evaluator},
    starlark_module,
    values::{Value, none::NoneType},
};

use crate::{
    errors::script_error,
    evaluate::evaluation,
    values::{from_json, size, to_json},
};

/// The built-in function behind all of the host's.
const CALL_BUILTIN: &str = "_satchel_call";

/// The host's function of this name, as a value.
///
/// It is `partial(CALL_BUILTIN, name)`: a type of our own that can be called would take an implementation that is unsafe to
/// write.
pub(crate) fn host_function<'v>(
    name: &str,
    globals: &Globals,
    evaluator: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let built_in = |wanted: &str| {
        let found = globals.iter().find(|(name, _)| *name == wanted);
        found.expect("it is among the functions that are built in").1.to_value()
    };
    let name = evaluator.heap().alloc(name);
    evaluator.eval_function(built_in("partial"), &[built_in(CALL_BUILTIN), name], &[])
}

/// Says it to the host and gives the script what the host answers.
pub(super) fn call_host<'v>(message: &FromWorker, evaluator: &Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
    let answer = evaluation().conversation.request(message).map_err(script_error)?;
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
        let mut left = LARGEST_ARGUMENTS;
        let too_large = |why| script_error(format!("the arguments of {function}: {why}"));
        let mut taken = |value: Value<'v>| -> starlark::Result<Json> {
            let json = to_json(value, heap, left).map_err(too_large)?;
            left = left.saturating_sub(size(&json));
            Ok(json)
        };
        let positional = positional.map(&mut taken).collect::<Result<_, _>>()?;
        let mut named = Map::new();
        for (name, value) in arguments.names_map()? {
            named.insert(name.as_str().to_owned(), taken(value)?);
        }
        let call = HostCall { function: function.to_owned(), positional, named };
        // Names and commas have a length too.
        if size(&call) > LARGEST_ARGUMENTS {
            return Err(too_large(format!("they have more than {LARGEST_ARGUMENTS} bytes as JSON")));
        }
        call_host(&FromWorker::Call(call), evaluator)
    }

    /// Asks that a model look at something when the script has ended.
    fn wake_llm<'v>(
        context: Value<'v>,
        #[starlark(default = true)] include_event: bool,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let context = to_json(context, evaluator.heap(), LARGEST_VALUE).map_err(script_error)?;
        let wake = FromWorker::Wake(WakeMessage { context, include_event });
        let evaluation = evaluation();
        // As a line, or a million of the smallest could be said.
        let woken = evaluation.woken.get() + size(&wake);
        if woken > LARGEST_VALUE {
            return Err(script_error(format!(
                "the contexts of wake_llm have more than {LARGEST_VALUE} bytes together"
            )));
        }
        evaluation.woken.set(woken);
        evaluation.conversation.send(&wake);
        Ok(NoneType)
    }
}
