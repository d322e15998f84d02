//! Errors: their kind, their words, and their place in the script as it was written.

use satchel_starlark::protocol::ErrorKind::{self, Execution, Syntax};

use crate::worker::{evaluate, evaluate_run, failure, run};

fn check(script: &str, kind: ErrorKind, words: &str, line: u32, column: u32) {
    let failure = failure(script);
    assert_eq!((failure.line, failure.column), (Some(line), Some(column)), "{script}\n{failure:?}");
    assert_eq!(failure.kind, kind, "{script}\n{failure:?}");
    assert!(failure.message.contains(words), "{script}\n{failure:?}");
    assert!(!failure.message.contains("_satchel"), "{script}\n{failure:?}");
    assert!(!failure.message.contains('\n'), "{script}\n{failure:?}");
}

#[test]
fn a_syntax_error_has_its_place() {
    check("a = 1\nif a == 1\n    return 2\n", Syntax, "expected symbol ':'", 2, 10);
    check("a = 1\nreturn (1 +\n", Syntax, "", 2, 12);
    // Blamed for its own end, not for the bracket that stands there after the edit.
    check("return 1 +", Syntax, "unexpected new line", 1, 11);
    check("return f'{1:>3}' + )", Syntax, "", 1, 20);
    check("x = f'{1:>3}'; y = = 2", Syntax, "", 1, 20);
    check("invalid syntax !@#", Syntax, "", 1, 9);
    check("x = 'abc", Syntax, "unfinished string", 1, 5);
    check("é = 1", Syntax, "invalid input", 1, 1);
    check("load('x', 'y')", Syntax, "load", 1, 1);
    check("def f():\n    return 1\n   return 2", Syntax, "ndentation", 3, 1);
    check("x = '–🎉' $", Syntax, "invalid input", 1, 10);
}

/// The place must not move with what was inserted before it, in its line or in one above.
#[test]
fn an_error_after_an_edit_has_its_place() {
    check("x = [1]\nreturn f\"{x[0]:>5}\" + x[7]\n", Execution, "out of bound", 2, 23);
    check("a = 1\nb = f\"{a:.1f}\" + str(1 // 0)\nreturn b", Execution, "by zero", 2, 22);
    check("x = f'{1:>2}{2:>2}{3:>2}'\nif x:\n    return x + 1", Execution, "not supported", 3, 12);
    check("\tx = 1", Syntax, "indentation", 1, 1);
    check("if True:\n\tx = '–\t' + 1", Execution, "not supported", 2, 6);
}

#[test]
fn f_string_error_has_its_position() {
    check("a = 1\nx = f'é {a + 1} {a.b}'", Execution, "b", 2, 18);
    check("return f'{nowhere:>3}'", Syntax, "`nowhere` not found", 1, 11);
    check("return f'{1:{nowhere}}'", Syntax, "`nowhere` not found", 1, 14);
    check("return f'{1:>3} {1 // 0:>3}'", Execution, "by zero", 1, 18);
    check("return f'{1:q}'", Execution, "is not one of Python's", 1, 11);
    check("return f'{[]:d}'", Execution, "for numbers, not for list", 1, 11);
    check("return f'{1:>100000}'", Execution, "more than 1000", 1, 11);
}

#[test]
fn error_in_function_names_innermost_position() {
    check("def f(x):\n    y = x + 1\n    return y + 's'\n\nz = 3\nreturn f(z)", Execution, "not supported", 3, 12);
    check("def f():\n    return refuse(1)\n\nreturn f()", Execution, "the host refuses: \"no\"", 2, 12);
    check("return sorted([1], key=lambda x: x.y)", Execution, "y", 1, 34);
    check("def f(n):\n    return f(n + 1)\nreturn f(0)", Execution, "stack overflow", 2, 12);
}

#[test]
fn failed_call_ends_script_at_its_position() {
    check("x = 1\ny = refuse(a=x)\nprint('never')", Execution, "the host refuses: \"no\"", 2, 5);
    check("echo(len)", Execution, "the arguments of echo: a value of type `function` can't leave", 1, 1);
    check("echo(x=1, **{'x': 2})", Execution, "", 1, 1);
    assert!(evaluate("refuse()\nprint('never')").said.len() == 1);
}

#[test]
fn undefined_names_are_found_before_execution() {
    let told = evaluate("echo('done')\nif False:\n    nowhere()");
    assert!(told.said.is_empty());
    let failure = told.outcome.unwrap_err();
    assert_eq!((failure.kind, failure.line, failure.column), (Execution, Some(3), Some(5)));
    let told = evaluate("echo('done')\nif False:\n    x = nowhere");
    assert!(told.said.is_empty());
    let failure = told.outcome.unwrap_err();
    assert_eq!((failure.kind, failure.line, failure.column), (Syntax, Some(3), Some(9)));
}

/// As `tools_execute` fails, and at its own position; a variable that doesn't exist is a mistake of the text.
#[test]
fn call_of_missing_tool_fails_with_those_that_exist() {
    let missing = "there is no tool `send_mail`; there are: search_notes, tools_execute, attachment_get, echo";
    check("x = 1\nsend_mail(to='a')", Execution, missing, 2, 1);
    check("return [send_mail (x) for x in [1]]", Execution, missing, 1, 9);
    check("return f'{send_mail(1):>3}'", Execution, missing, 1, 11);
    check("def total(x):\n    return x\nreturn totl(1)", Execution, "did you mean `total`?", 3, 8);
    check("attachment.get('x')", Execution, "scripts call the tool `attachment.get` as `attachment_get`", 1, 1);
    check("nowhere.append(1)", Syntax, "`nowhere` not found", 1, 1);
    check("x = send_mail\nx()", Syntax, "`send_mail` not found", 1, 5);
}

#[test]
fn habits_from_python_are_answered_with_advice() {
    for (script, advice) in [
        ("while True:\n    pass", "use `for … in range(…)`"),
        ("import os", "nothing can be imported"),
        ("try:\n    x = 1\nexcept E:\n    x = 2", "an error ends the script"),
        ("class A:\n    pass", "struct"),
        ("raise 'x'", "`fail(…)`"),
        ("x = 1 is 2", "`==`"),
        ("return 2 ** 3", "has no `**`"),
        ("return sum([1, 2])", "add in a `for` loop"),
    ] {
        let failure = failure(script);
        assert!(failure.message.contains(advice), "{script}\n{failure:?}");
        assert_eq!(failure.kind, Syntax);
    }
}

/// The interpreter calls the first of these an error of its parser.
#[test]
fn runtime_parse_error_is_not_a_syntax_error() {
    check("return int('x')", Execution, "Cannot parse `x`", 1, 8);
    check("return '%.2f' % 1.5", Execution, "f-strings", 1, 8);
    check("return '{:.2f}'.format(1.5)", Execution, "f-strings", 1, 8);
}

#[test]
fn unserializable_value_is_an_error_at_return() {
    check("x = 1\nreturn [len]", Execution, "a value of type `function` can't leave", 2, 1);
    check("return float('inf')", Execution, "float +inf", 1, 1);
    check("return [float('nan')]", Execution, "float nan", 1, 1);
    check("return b'abc'", Execution, "bytes can't leave", 1, 1);
    check("return {(1, 2): 3}", Execution, "keys are text", 1, 1);
    check("x = []\nx.append(x)\nreturn x", Execution, "64 levels", 3, 1);
    check("return 'x' * (1 << 20)", Execution, "more than 1048576 bytes", 1, 1);
    check("return '\\n' * (600 << 10)", Execution, "more than 1048576 bytes", 1, 1);
    check("echo('x' * (4 << 20))", Execution, "more than 4194304 bytes", 1, 1);
}

/// Two arguments that are small enough each, but not together.
#[test]
fn the_arguments_of_a_call_are_bounded_together() {
    check("x = 'x' * (3 << 20)\necho(x, y=x)", Execution, "the arguments of echo", 2, 1);
    check("echo(**{'x' * (4 << 20): 1})", Execution, "the arguments of echo: they have more than", 1, 1);
}

/// Every level doubles the value without using more memory in the script; as JSON it would have 2^60 items.
#[test]
fn small_value_with_huge_json_is_refused_quickly() {
    check("x = [0]\nfor i in range(60):\n    x = [x, x]\nreturn x", Execution, "more than 1048576 bytes", 4, 1);
}

#[test]
fn too_much_output_ends_the_script() {
    let told = evaluate("for i in range(100000):\n    print('x' * 99)");
    assert_eq!(told.said.len(), (1 << 20) / 100);
    let failure = told.outcome.unwrap_err();
    assert_eq!((failure.line, failure.column), (Some(2), Some(5)));
    assert!(failure.message.contains("printed more than 1048576 bytes"));
}

#[test]
fn fail_says_its_words() {
    check("fail('no ' + 'way')", Execution, "no way", 1, 1);
}

#[test]
fn invalid_global_variable_is_an_error() {
    let mut run = run("return 1");
    run.globals.insert("x".to_owned(), serde_json::from_str("1e400").unwrap());
    let failure = evaluate_run(run).outcome.unwrap_err();
    assert!(failure.message.contains("the variable x"), "{failure:?}");
}
