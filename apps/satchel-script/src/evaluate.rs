//! Evaluates a script: prepares it, sets its variables and functions, runs it, and returns its value.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    rc::Rc,
};

use satchel_starlark::{
    names::is_name,
    protocol::{ErrorReport, FromWorker, MAX_PRINTED_BYTES, MAX_VALUE_BYTES, RunRequest},
};
use serde_json::Value as Json;
use starlark::{
    PrintHandler,
    environment::{Globals, Module},
    eval::Evaluator,
    syntax::{AstModule, Dialect, DialectTypes},
};

use crate::{
    builtins::host_function,
    errors::{ErrorContext, script_error},
    host_connection::HostConnection,
    prepare::{PreparedScript, prepare_script},
    values::{from_json, to_json},
};

/// The largest heap of the interpreter, in bytes. It checks only now and then, so the process has a limit too.
const MAX_HEAP_BYTES: usize = 256 << 20;

/// How deep calls may be nested.
const MAX_CALL_DEPTH: usize = 100;

/// The state of one evaluation outside of the interpreter.
pub(crate) struct EvaluationState {
    /// The connection to the host.
    pub(crate) host: Rc<HostConnection>,
    /// How many bytes of wake requests were sent.
    pub(crate) wake_bytes: Cell<usize>,
    /// The value that it returned outside of a function.
    pub(crate) returned_value: RefCell<Option<Json>>,
    printed_bytes: Cell<usize>,
}

impl PrintHandler for EvaluationState {
    fn println(&self, text: &str) -> starlark::Result<()> {
        let printed_bytes = self.printed_bytes.get().saturating_add(text.len() + 1);
        if printed_bytes > MAX_PRINTED_BYTES {
            return Err(script_error(format!("the script printed more than {MAX_PRINTED_BYTES} bytes")));
        }
        self.printed_bytes.set(printed_bytes);
        self.host.send(&FromWorker::Print(text.to_owned()));
        Ok(())
    }
}

thread_local! {
    /// The evaluation of this thread. The interpreter can hold such state itself, but only in types with an unsafe
    /// implementation.
    static CURRENT: RefCell<Option<Rc<EvaluationState>>> = const { RefCell::new(None) };
}

pub(crate) fn current_evaluation() -> Rc<EvaluationState> {
    CURRENT.with_borrow(Option::clone).expect("built-in functions are called in an evaluation only")
}

/// The dialect of scripts: top-level statements, f-strings, annotations that are parsed and ignored.
pub(crate) fn dialect() -> Dialect {
    Dialect {
        enable_load: false,
        enable_top_level_stmt: true,
        enable_f_strings: true,
        enable_keyword_only_arguments: true,
        enable_positional_only_arguments: true,
        enable_types: DialectTypes::ParseOnly,
        ..Dialect::Standard
    }
}

/// Evaluates the script to its value.
pub(crate) fn evaluate_script(
    run: &RunRequest,
    globals: &Globals,
    host: Rc<HostConnection>,
) -> Result<Json, ErrorReport> {
    let dialect = dialect();
    let prepared = prepare_script(&run.script);
    let script = parse_script(&run.script, &prepared, &dialect)?;
    let evaluation = Rc::new(EvaluationState {
        host,
        wake_bytes: Cell::new(0),
        returned_value: RefCell::new(None),
        printed_bytes: Cell::new(0),
    });
    CURRENT.set(Some(Rc::clone(&evaluation)));
    let outcome = Module::with_temp_heap(|module| {
        let mut evaluator = Evaluator::new(&module);
        evaluator.set_print_handler(&*evaluation);
        evaluator.set_max_heap_size(MAX_HEAP_BYTES).expect("the heap's size is set once, and not to zero");
        evaluator.set_max_callstack_size(MAX_CALL_DEPTH).expect("the calls' depth is set once, and not to zero");
        let builtin_names: HashSet<&str> = globals.iter().map(|(name, _)| name).collect();
        for name in run.functions.iter().filter(|name| is_name(name)) {
            // Built-in functions are not replaced: a tool called `len` is still available through `tools_execute`.
            if !builtin_names.contains(name.as_str()) {
                module.set(name, host_function(name, globals, &mut evaluator)?);
            }
        }
        // The host sends only variables with valid names.
        for (name, value) in &run.globals {
            let value =
                from_json(value, module.heap()).map_err(|why| script_error(format!("the variable {name}: {why}")))?;
            module.set(name, value);
        }
        let value = evaluator.eval_module(script, globals)?;
        to_json(value, module.heap(), MAX_VALUE_BYTES).map_err(script_error)
    });
    match evaluation.returned_value.take() {
        Some(value) => Ok(value),
        None => {
            let context = ErrorContext { script: &run.script, prepared: &prepared };
            outcome.map_err(|error| context.runtime_error(&error, &run.functions))
        }
    }
}

/// Parses the prepared script.
///
/// If that fails, the script is parsed again with its original `return`s: otherwise the closing bracket that
/// preparation inserts would be blamed for one that the script left open.
fn parse_script(script: &str, prepared: &PreparedScript, dialect: &Dialect) -> Result<AstModule, ErrorReport> {
    AstModule::parse("script", prepared.text.clone(), dialect).map_err(|error| {
        let without_returns = prepared.without_returns();
        let error = match AstModule::parse("script", without_returns.text.clone(), dialect) {
            Err(original) if !original.to_string().contains("outside of a `def`") => {
                return ErrorContext { script, prepared: &without_returns }.syntax_error(&original);
            }
            _ => error,
        };
        ErrorContext { script, prepared }.syntax_error(&error)
    })
}
