//! Tests of the edits and of the way back from the result to the script.

use proptest::prelude::*;

use super::prepare_script;

fn check(script: &str, expected: &str) {
    assert_eq!(prepare_script(script).text, expected, "{script}");
}

#[test]
fn a_return_at_the_top_becomes_a_call() {
    check("return 1", "_satchel_return(( 1))");
    check("return", "_satchel_return((None))");
    check("return # why\n", "_satchel_return((None)) # why\n");
    check("if x: return 1 # why\nreturn 2;", "if x: _satchel_return(( 1)) # why\n_satchel_return(( 2));");
    check("return (\n1,\n)\n", "_satchel_return(( (\n1,\n)))\n");
}

#[test]
fn a_return_in_a_function_stays() {
    for script in [
        "def f():\n  if x:\n    return 1\n  return 2\n",
        "def f(a=lambda x: x): return 1",
        "returned = 1",
        "'return 1'",
    ] {
        check(script, script);
    }
    check("def f(): return 1\nreturn 2", "def f(): return 1\n_satchel_return(( 2))");
    check("def f():\n\n  # c\n  return 1\nreturn 2", "def f():\n\n  # c\n  return 1\n_satchel_return(( 2))");
}

#[test]
fn a_format_spec_becomes_a_call() {
    check("f'{x:>3}'", "f'{_satchel_format(x,\">3\")}'");
    check("f'{x!r:>3}{y}'", "f'{_satchel_format(repr(x),\">3\")}{y}'");
    check("f'{x:{w}.{p}f}'", "f'{_satchel_format(x,\"\"+str(w)+\".\"+str(p)+\"f\")}'");
    check("f\"{x:'>3}\"", "f\"{_satchel_format(x,\"'>3\")}\"");
    for script in [
        "f'{x}'",
        "f'{a[1:2]}'",
        "f'{{x:3}}'",
        "f'{(lambda y: y)(1)}'",
        "f'{x != 1}'",
        "f'{x:>3",
        "f'{x!q:>3}'",
        "{1: 2}",
    ] {
        check(script, script);
    }
}

#[test]
fn a_tab_becomes_a_space_but_in_strings() {
    check("if x:\n\ty = '\t' # \t\n", "if x:\n y = '\t' #  \n");
    check("f'\t{x\t}' + b'\t' + '''\n\t'''", "f'\t{x }' + b'\t' + '''\n\t'''");
}

#[test]
fn prepared_positions_map_back_to_script() {
    let script = "return f'{x:>3}' + y";
    let prepared = prepare_script(script);
    for word in ["f'", "x", "y"] {
        let at = prepared.text.rfind(word).unwrap();
        assert_eq!(prepared.original_offset(at), script.rfind(word).unwrap(), "{word}");
    }
    assert_eq!(prepared.original_offset(0), 0);
    assert_eq!(prepared.original_offset(prepared.text.len()), script.len());
    assert_eq!(prepared.original_offset(usize::MAX / 2), script.len());
}

#[test]
fn without_returns_the_rest_stays_edited() {
    let prepared = prepare_script("return f'{x:>3}'");
    assert_eq!(prepared.without_returns().text, "return f'{_satchel_format(x,\">3\")}'");
}

/// A hundred of them are read past one by one; a script of nothing else must not take the square of its length.
#[test]
fn many_unreadable_format_specs_stay_fast() {
    let script = "f'{x:#x}'\n".repeat(20_000);
    let prepared = prepare_script(&script);
    assert_eq!(prepared.text.matches("_satchel_format").count(), 100);
}

/// Pieces that scripts are made of, so that the pass sees more than noise.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "return",
            "return ",
            "def f():",
            "lambda",
            "if x:",
            "for i in y:",
            "\n",
            "\n    ",
            "\n\t",
            ";",
            ":",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "f'",
            "f\"",
            "f'''",
            "'",
            "\"",
            "'''",
            "\"\"\"",
            "#",
            "\\",
            "!r",
            ":>3",
            "x",
            " ",
            "1",
            "é",
            "🎉",
            "\r\n",
            "\t",
            "b'",
            "r'",
            ",",
            "=",
        ])
        .prop_map(str::to_owned),
        ".{0,3}",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_prepared_with_valid_positions(script in pieces()) {
        let prepared = prepare_script(&script);
        let mut last = 0;
        for at in 0..=prepared.text.len() {
            let original = prepared.original_offset(at);
            prop_assert!(original >= last, "{} after {last}", original);
            prop_assert!(original <= script.len());
            last = original;
        }
        prop_assert_eq!(last, script.len());
        prop_assert!(prepared.without_returns().text.len() <= prepared.text.len());
    }

    #[test]
    fn what_needs_no_edit_is_not_edited(script in pieces()) {
        let script = script.replace(['\t', ':'], "-").replace("return", "turn");
        prop_assert_eq!(prepare_script(&script).text, script);
    }

    #[test]
    fn what_was_not_inserted_is_the_same_character(script in pieces()) {
        let prepared = prepare_script(&script);
        let removed: usize = prepared.edits.iter().map(|edit| edit.removed_bytes).sum();
        let inserted: usize = prepared.edits.iter().map(|edit| edit.inserted.len()).sum();
        prop_assert_eq!(prepared.text.len() + removed, script.len() + inserted);
    }
}
