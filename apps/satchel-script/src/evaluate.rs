//! Evaluates a script: prepares it, sets what it finds, runs it, and says how that ended.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    rc::Rc,
};

use satchel_starlark::{
    names::is_name,
    protocol::{ErrorReport, FromWorker, LARGEST_VALUE, MAX_PRINTED_BYTES, RunRequest},
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
    prepare::{PreparedScript, prepare},
    values::{from_json, to_json},
};

/// How large the interpreter's heap may get, in bytes. It looks now and then, so the process has a limit too.
const MAX_HEAP_BYTES: usize = 256 << 20;

/// How deep calls may be nested.
const MAX_CALL_DEPTH: usize = 100;

/// What one evaluation keeps outside of the interpreter.
pub(crate) struct EvaluationState {
    /// The way to the host.
    pub(crate) conversation: Rc<HostConnection>,
    /// How many bytes the host was told of for a model to look at.
    pub(crate) woken: Cell<usize>,
    /// What it returned outside of a function.
    pub(crate) returned: RefCell<Option<Json>>,
    printed: Cell<usize>,
}

impl PrintHandler for EvaluationState {
    fn println(&self, text: &str) -> starlark::Result<()> {
        let printed = self.printed.get().saturating_add(text.len() + 1);
        if printed > MAX_PRINTED_BYTES {
            return Err(script_error(format!("the script printed more than {MAX_PRINTED_BYTES} bytes")));
        }
        self.printed.set(printed);
        self.conversation.send(&FromWorker::Print(text.to_owned()));
        Ok(())
    }
}

thread_local! {
    /// The evaluation of this thread. The interpreter has a place of its own for such things, but only for types with an
    /// implementation that is unsafe to write.
    static CURRENT: RefCell<Option<Rc<EvaluationState>>> = const { RefCell::new(None) };
}

pub(crate) fn evaluation() -> Rc<EvaluationState> {
    CURRENT.with_borrow(Option::clone).expect("built-in functions are called in an evaluation only")
}

/// Starlark as scripts are written: statements at the top, f-strings, annotations that nobody reads.
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
pub(crate) fn evaluate(
    run: &RunRequest,
    globals: &Globals,
    conversation: Rc<HostConnection>,
) -> Result<Json, ErrorReport> {
    let dialect = dialect();
    let prepared = prepare(&run.script);
    let script = parse(&run.script, &prepared, &dialect)?;
    let evaluation = Rc::new(EvaluationState {
        conversation,
        woken: Cell::new(0),
        returned: RefCell::new(None),
        printed: Cell::new(0),
    });
    CURRENT.set(Some(Rc::clone(&evaluation)));
    let outcome = Module::with_temp_heap(|module| {
        let mut evaluator = Evaluator::new(&module);
        evaluator.set_print_handler(&*evaluation);
        evaluator.set_max_heap_size(MAX_HEAP_BYTES).expect("the heap's size is set once, and not to zero");
        evaluator.set_max_callstack_size(MAX_CALL_DEPTH).expect("the calls' depth is set once, and not to zero");
        let built_in: HashSet<&str> = globals.iter().map(|(name, _)| name).collect();
        for name in run.functions.iter().filter(|name| is_name(name)) {
            // What is built in stays what it is: a tool called `len` is still reached through `tools_execute`.
            if !built_in.contains(name.as_str()) {
                module.set(name, host_function(name, globals, &mut evaluator)?);
            }
        }
        // The host hands over none whose name a script can't say.
        for (name, value) in &run.globals {
            let value =
                from_json(value, module.heap()).map_err(|why| script_error(format!("the variable {name}: {why}")))?;
            module.set(name, value);
        }
        let value = evaluator.eval_module(script, globals)?;
        to_json(value, module.heap(), LARGEST_VALUE).map_err(script_error)
    });
    match evaluation.returned.take() {
        Some(value) => Ok(value),
        None => {
            outcome.map_err(|error| ErrorContext { script: &run.script, prepared: &prepared }.runtime_error(&error))
        }
    }
}

/// Parses what was prepared.
///
/// Where that fails, the error is first sought in the script with its `return`s as they are: the closing bracket of our
/// own making would else be blamed for one that the script has left open.
fn parse(script: &str, prepared: &PreparedScript, dialect: &Dialect) -> Result<AstModule, ErrorReport> {
    AstModule::parse("script", prepared.text.clone(), dialect).map_err(|error| {
        let plain = prepared.without_returns();
        let blamed = match AstModule::parse("script", plain.text.clone(), dialect) {
            Err(original) if !original.to_string().contains("outside of a `def`") => {
                return ErrorContext { script, prepared: &plain }.syntax_error(&original);
            }
            _ => error,
        };
        ErrorContext { script, prepared }.syntax_error(&blamed)
    })
}
