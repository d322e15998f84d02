//! What a client takes for a token and an address, and what it shows of them.

use super::*;

#[test]
fn only_what_has_the_form_of_a_token_is_one() {
    for (text, is_one) in [
        ("123456789:AbC-dEf_1", true),
        ("123456789", false),
        (":abc", false),
        ("1:", false),
        ("12a:abc", false),
        ("1:a/b", false),
        ("1:a?b", false),
        ("1:a b", false),
        ("1:ü", false),
        ("", false),
    ] {
        assert_eq!(is_token(text), is_one, "{text}");
    }
}
