//! Texts of which the rest may come in a message of its own.

use super::*;

/// Catches: the limit of people with Nitro that is unknown, and a text of theirs that waits because it is longer than others'.
#[test]
fn text_near_a_limit_may_continue() {
    let may_continue = |units: usize| read(&direct(json!({ "content": "x".repeat(units) }))).may_continue;
    let lengths = [1_000, 1_990, 2_000, 2_500, 3_900, 4_000];
    assert_eq!(lengths.map(may_continue), [false, true, true, false, true, true]);
}
