//! The language: what scripts may say, and what comes of it.

use serde_json::{Value, json};

use crate::worker::{evaluate, value};

fn check(cases: &[(&str, Value)]) {
    for (script, expected) in cases {
        let value = value(script);
        // As text, since `2` and `2.0` are different values of a script.
        assert_eq!(value.to_string(), expected.to_string(), "{script}");
    }
}

#[test]
fn a_script_returns_at_its_top() {
    check(&[
        ("return 1", json!(1)),
        ("return", json!(null)),
        ("return # nothing", json!(null)),
        ("x = 1; return x; y = 2", json!(1)),
        ("return 1, 2", json!([1, 2])),
        ("return 1 + \\\n  2 + \\\n  3", json!(6)),
        ("return (\n  1,\n  # two\n  2,\n)  # end\n", json!([1, 2])),
        ("for i in range(10):\n    if i == 4: return i\nreturn -1", json!(4)),
        (
            "x = 3\nif x > 2:\n    return \"\"\"a\n  return inside\nb\"\"\"  # c\nreturn 'never'",
            json!("a\n  return inside\nb"),
        ),
        (
            "return {\n    'text': 'Created, # not a comment',  # comment )\n    'ids': [1]\n}  # trailing\n",
            json!({"text": "Created, # not a comment", "ids": [1]}),
        ),
        ("if False:\n    return 1\nelif True: return 2\nelse:\n    return 3", json!(2)),
        ("returned = 1\nreturn returned", json!(1)),
        ("return lambda_ if False else [x for x in [1]]\nlambda_ = 1", json!([1])),
        ("return (lambda x: x + 1)(1)", json!(2)),
    ]);
}

#[test]
fn a_function_returns_from_itself() {
    check(&[
        (
            "def f(x):\n    for i in range(x):\n        if i > 2:\n            return i\n    return None\ndef g(): return 5\ny = f(10)\nreturn [y, g(), (lambda q: q + 1)(2)]",
            json!([3, 5, 3]),
        ),
        ("def f():\n    def g():\n        return 1\n    return g() + 1\nreturn f()", json!(2)),
        ("def f(a, *, b=1) -> int:\n    # a comment\n\n    return a + b\nreturn f(1, b=2)", json!(3)),
        ("if True:\n    def f(): return 1\n    return f() + 1\nreturn 0", json!(2)),
        ("def f(): x = 1; return x\nreturn f() + 1", json!(2)),
        ("def f(x: int) -> str:\n    return str(x)\nf(3)", json!("3")),
    ]);
}

#[test]
fn last_expression_is_value_without_return() {
    check(&[
        ("x = 20\nx * 2 + 2", json!(42)),
        ("x = 1", json!(null)),
        ("", json!(null)),
        ("# nothing\n", json!(null)),
        ("def f():\n    return 1\n", json!(null)),
    ]);
}

#[test]
fn f_strings_hold_expressions() {
    check(&[
        (
            r#"d = {"a": [1, 2]}; return f"{d['a'][0]} {len(d["a"])} {'y' if 2 > 1 else 'n'} {{lit}} {[i*2 for i in range(3)]}""#,
            json!("1 2 y {lit} [0, 2, 4]"),
        ),
        ("n = 2\nreturn f\"\"\"line1 {n}\nline2 {n + 1}\n\"\"\"", json!("line1 2\nline2 3\n")),
        ("return f\"{ {k: v for k, v in [('a', 1)]} } {(lambda: 5)()}\"", json!("{\"a\": 1} 5")),
        ("return f'{1!r} {\"x\"!r} {f\"{2}\"}' + f''", json!("1 \"x\" 2")),
        (r"return fr'a\n{1}' + 'b'", json!("a\\n1b")),
        ("x = 1\nreturn f'{x != 2} {x == 1}'", json!("True True")),
    ]);
}

#[test]
fn f_strings_hold_format_specs() {
    check(&[
        (
            "return f'{3.14159:.2f}|{1234567:,}|{7:>3}|{0.25:.1%}|{\"s\":<4}|{42:08d}|{-5:+d}'",
            json!("3.14|1,234,567|  7|25.0%|s   |00000042|-5"),
        ),
        (
            "w = 8; p = 2\nreturn f'{3.14159:>{w}.{p}f}|{\"x\":{w}}|{1:{\"0\"}>{w - 4}}'",
            json!("    3.14|x       |0001"),
        ),
        ("return f'{\"a\"!r:>5}|{\"a\"!s:>3}'", json!("  \"a\"|  a")),
        ("return f'{1:\"^5}|{1:(>3}|{1:#x}|{1:[<3}'", json!("\"\"1\"\"|((1|0x1|1[[")),
        (
            "return f'{f\"{1:>3}\":>5}|{[1, 2][0]:>2}|{ {\"a\": 1}[\"a\"]:>2}|{(lambda x: x)(3):>2}'",
            json!("    1| 1| 1| 3"),
        ),
        ("return f\"\"\"{1:>3}\n{2:<3}|\"\"\"", json!("  1\n2  |")),
        ("for i in range(2):\n    if i: return f'{i:02d}'", json!("01")),
        ("return f'{1:}|{\"x\":}'", json!("1|x")),
    ]);
}

#[test]
fn editor_line_endings_and_tabs_are_accepted() {
    check(&[
        ("x = 1\r\nif x:\r\n    return x\r\n", json!(1)),
        ("if True:\n\tif True:\n\t\treturn 'a\tb'\n", json!("a\tb")),
        ("x = [\t1,\t2 ]\t# a\tcomment\nreturn\tx", json!([1, 2])),
        ("t = '''\ta\n\tb'''\nif t:\n\treturn f'\t{t}\t{\t1\t}'", json!("\t\ta\n\tb\t1")),
        ("\n\n   \nreturn 1\n\n\n", json!(1)),
        ("x = 'é–🎉'\nreturn x + 'ü'", json!("é–🎉ü")),
    ]);
}

#[test]
fn variables_can_be_set_again() {
    check(&[
        ("t = 0\nfor i in range(5):\n    t += i\nif t > 5:\n    t = t * 2\nreturn t", json!(20)),
        ("acc = []\ndef add(x):\n    acc.append(x)\nfor i in range(3):\n    add(i)\nreturn acc", json!([0, 1, 2])),
        ("echo = 1\nreturn echo", json!(1)),
        ("len = 1\nreturn len", json!(1)),
    ]);
}

#[test]
fn values_leave_as_json() {
    check(&[
        (
            "return [1, 1.5, 2.0, -3, 'x', True, None, (1,), {'a': {'b': []}}]",
            json!([1, 1.5, 2.0, -3, "x", true, null, [1], {"a": {"b": []}}]),
        ),
        ("return 1 << 63", json!(9223372036854775808_u64)),
        (
            "return [1 << 64, -(1 << 64), -(1 << 63)]",
            json!(["18446744073709551616", "-18446744073709551616", i64::MIN]),
        ),
        ("return {1: 'a', None: 'b', True: 'c', 1.5: 'd'}", json!({"1": "a", "null": "b", "true": "c", "1.5": "d"})),
        ("return [struct(a=1, b='x'), set([1, 2]), range(3)]", json!([{"a": 1, "b": "x"}, [1, 2], [0, 1, 2]])),
        ("return sorted({'b': 1, 'a': 2}.items())", json!([["a", 2], ["b", 1]])),
    ]);
}

#[test]
fn a_value_may_be_sixty_four_levels_deep() {
    let nested = |levels: usize| format!("x = 1\nfor i in range({levels}):\n    x = [x]\nreturn x");
    assert!(evaluate(&nested(64)).outcome.is_ok());
    let failure = evaluate(&nested(65)).outcome.unwrap_err();
    assert_eq!(failure.message, "a value is nested more than 64 levels deep");
    assert_eq!((failure.line, failure.column), (Some(4), Some(1)));
}

#[test]
fn extensions_are_available_and_internals_are_not() {
    check(&[(
        "return [map(lambda x: x + 1, [1]), filter(lambda x: x > 1, [1, 2]), partial(max, 3)(2), json.decode('1')]",
        json!([[2], [2], 3, 1]),
    )]);
    for name in ["breakpoint", "pprint", "debug", "call_stack", "open", "eval", "exec", "getattr_"] {
        let failure = evaluate(name).outcome.unwrap_err();
        assert!(failure.message.contains("not found"), "{name}: {failure:?}");
    }
}
