//! Format specs: what Python makes of them, we do too.

use serde_json::json;

use crate::worker::{failure, value};

/// Expression, spec, and what Python 3 printed for it.
const FORMATS: [(&str, &str, &str); 54] = [
    ("3.14159", ".2f", "3.14"),
    ("1234567", ",", "1,234,567"),
    ("1234567.891", ",.2f", "1,234,567.89"),
    ("42", "08d", "00000042"),
    ("-42", "08d", "-0000042"),
    ("-5", "+d", "-5"),
    ("5", "+d", "+5"),
    ("5", " d", " 5"),
    ("7", ">3", "  7"),
    ("7", "<3", "7  "),
    ("7", "^4", " 7  "),
    ("7", "*^5", "**7**"),
    ("-7", "=5", "-   7"),
    ("255", "x", "ff"),
    ("255", "X", "FF"),
    ("255", "#x", "0xff"),
    ("255", "b", "11111111"),
    ("255", "_b", "1111_1111"),
    ("8", "#o", "0o10"),
    ("-255", "#010x", "-0x00000ff"),
    ("0.25", "%", "25.000000%"),
    ("0.25", ".1%", "25.0%"),
    ("10000000000.0", "g", "1e+10"),
    ("1e-05", "g", "1e-05"),
    ("123456789.0", "g", "1.23457e+08"),
    ("0.0001", "g", "0.0001"),
    ("100.0", "g", "100"),
    ("1.5", "e", "1.500000e+00"),
    ("12345.678", ".2e", "1.23e+04"),
    ("1e-300", "E", "1.000000E-300"),
    ("2.0", "", "2.0"),
    ("2.5", ">6", "   2.5"),
    ("1e+20", "", "1e+20"),
    ("3", "f", "3.000000"),
    ("3", ".1e", "3.0e+00"),
    ("3", "%", "300.000000%"),
    ("1180591620717411303424", ",", "1,180,591,620,717,411,303,424"),
    ("1180591620717411303424", "d", "1180591620717411303424"),
    ("1180591620717411303424", ">25", "   1180591620717411303424"),
    ("'x'", "<4", "x   "),
    ("'x'", ">4", "   x"),
    ("'x'", "^4", " x  "),
    ("'x'", "4", "x   "),
    ("'xyz'", ".2", "xy"),
    ("'xyz'", ">5.1s", "    x"),
    ("'é'", "*>3", "**é"),
    ("0.5", ".0f", "0"),
    ("1.5", ".0f", "2"),
    ("2.675", ".2f", "2.67"),
    ("-0.0", ".1f", "-0.0"),
    ("1234.5", "10,.1f", "   1,234.5"),
    ("3.0", ".3g", "3"),
    ("3.14159", ".3", "3.14"),
    ("0", "d", "0"),
];

#[test]
fn a_value_is_formatted_as_in_python() {
    let parts: Vec<_> = FORMATS.iter().map(|(value, spec, _)| format!("f\"{{{value}:{spec}}}\"")).collect();
    let formatted = value(&format!("return [{}]", parts.join(", ")));
    for (at, (value, spec, expected)) in FORMATS.iter().enumerate() {
        assert_eq!(formatted[at], json!(expected), "{value}:{spec}");
    }
}

#[test]
fn unsuitable_format_spec_is_an_error() {
    for (value, spec, words) in [
        ("'x'", "d", "is for numbers, not for string"),
        ("1.5", "d", "is for an int, not for a float"),
        ("1.5", "x", "is for an int of at most 64 bits, not for float"),
        ("1 << 70", "x", "is for an int of at most 64 bits, not for int"),
        ("1", "1001", "more than 1000 characters"),
        ("1.0", ".101f", "more than 100 characters"),
        ("1.0", ".f", "no digits after its point"),
        ("1", "d d", "not one of Python's"),
        ("None", "f", "not for NoneType"),
    ] {
        let failure = failure(&format!("return f\"{{{value}:{spec}}}\""));
        assert!(failure.message.contains(words), "{value}:{spec}\n{failure:?}");
    }
}
