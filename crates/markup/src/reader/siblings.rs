//! Joins neighbouring blocks that are meant as one: numbered items with unindented bullets between them, and quotations
//! without a blank line.

use crate::tree::{Block, BlockKind, ListItem};

/// Joins the blocks of a container.
pub(super) fn join_siblings(blocks: &mut Vec<Block<'_>>, source: &str) {
    join_quotes(blocks, source);
    join_lists(blocks, source);
}

fn join_quotes(blocks: &mut Vec<Block<'_>>, source: &str) {
    blocks.dedup_by(|next, block| {
        if next.blank_before {
            return false;
        }
        let (BlockKind::Quote { blocks: inner, to_end: false }, BlockKind::Quote { blocks: more, to_end: false }) =
            (&mut block.kind, &mut next.kind)
        else {
            return false;
        };
        inner.append(more);
        join_siblings(inner, source);
        block.range.end = next.range.end;
        true
    });
}

/// Puts what is between two lists of numbers that count on into the item before it, and bullets behind the last of them
/// too.
fn join_lists(blocks: &mut Vec<Block<'_>>, source: &str) {
    if blocks.iter().filter(|block| first_number(block).is_some()).take(2).count() < 2 {
        return;
    }
    let mut joined: Vec<Block<'_>> = Vec::with_capacity(blocks.len());
    let mut last_is_joined = false;
    for mut block in blocks.drain(..) {
        if let Some(first) = first_number(&block)
            && let Some(list) = continued_list(&joined, first, source, last_is_joined)
        {
            let between = joined.split_off(list + 1);
            append_items(&mut joined[list], between, &mut block);
            last_is_joined = true;
        } else if last_is_joined && !block.blank_before && matches!(block.kind, BlockKind::List(_)) {
            if let Some(list) = joined.last_mut() {
                list.range.end = block.range.end;
                append_to_last_item(list, vec![block]);
            }
        } else {
            joined.push(block);
            last_is_joined = false;
        }
    }
    *blocks = joined;
}

/// The index of the first block of a list of numbers that blocks behind these might continue; their number if there is
/// none.
pub(super) fn open_list(blocks: &[Block<'_>]) -> usize {
    let others = blocks.iter().rev().take_while(|block| is_between_items(block)).count();
    let last = blocks.len() - others;
    blocks[last..].iter().position(|block| first_number(block).is_some()).map_or(blocks.len(), |list| last + list)
}

fn is_between_items(block: &Block<'_>) -> bool {
    matches!(block.kind, BlockKind::List(_) | BlockKind::Code(_))
}

fn first_number(block: &Block<'_>) -> Option<u64> {
    match &block.kind {
        BlockKind::List(items) => items.first()?.number,
        _ => None,
    }
}

/// The list of numbers that a list beginning with `first` continues: with nothing but bullets and code between them.
fn continued_list(blocks: &[Block<'_>], first: u64, source: &str, last_is_joined: bool) -> Option<usize> {
    let index = blocks.iter().rposition(|block| first_number(block).is_some())?;
    let between = &blocks[index + 1..];
    let BlockKind::List(items) = &blocks[index].kind else { return None };
    let last = items.last()?.number?;
    // Either it counts on, or every item was written with the same number.
    let counts_on = first == last.saturating_add(1);
    let repeats = items.iter().all(|item| written_number(item, source) == Some(first));
    ((last_is_joined || !between.is_empty()) && between.iter().all(is_between_items) && (counts_on || repeats))
        .then_some(index)
}

/// The number in the mark of an item.
fn written_number(item: &ListItem<'_>, source: &str) -> Option<u64> {
    source[item.mark.clone()].trim_end_matches(['.', ')']).parse().ok()
}

fn append_items<'text>(list: &mut Block<'text>, between: Vec<Block<'text>>, next: &mut Block<'text>) {
    append_to_last_item(list, between);
    let BlockKind::List(items) = &mut list.kind else { return };
    let BlockKind::List(more) = &mut next.kind else { return };
    let mut number = items.last().and_then(|item| item.number);
    for mut item in more.drain(..) {
        number = number.map(|number| number.saturating_add(1));
        item.number = number;
        items.push(item);
    }
    list.range.end = next.range.end;
}

fn append_to_last_item<'text>(list: &mut Block<'text>, blocks: Vec<Block<'text>>) {
    let BlockKind::List(items) = &mut list.kind else { return };
    let Some(last) = items.last_mut() else { return };
    last.range.end = blocks.last().map_or(last.range.end, |block| block.range.end);
    last.blocks.extend(blocks);
}
