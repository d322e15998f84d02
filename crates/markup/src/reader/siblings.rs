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
    let mut open: Option<OpenList> = None;
    for mut block in blocks.drain(..) {
        if let (Some(first), Some(list)) = (first_number(&block), &mut open)
            && list.is_continued(&joined, first)
        {
            list.repeated = list.repeated.filter(|number| has_repeated_number(&block, *number, source));
            let between = joined.split_off(list.index + 1);
            list.is_joined = true;
            list.has_blanks |= between.first().is_some_and(|block| block.blank_before);
            append_items(&mut joined[list.index], between, &mut block);
        } else if let Some(list) = open.as_ref().filter(|list| list.takes(&block)) {
            joined[list.index].range.end = block.range.end;
            append_to_last_item(&mut joined[list.index], vec![block]);
        } else {
            let index = joined.len();
            open = match first_number(&block) {
                Some(first) => {
                    let repeated = Some(first).filter(|first| has_repeated_number(&block, *first, source));
                    Some(OpenList { index, repeated, is_joined: false, has_blanks: false })
                }
                None => open.filter(|_| is_between_items(&block)),
            };
            joined.push(block);
        }
    }
    *blocks = joined;
}

/// A list of numbers that blocks behind it may continue.
struct OpenList {
    index: usize,
    /// The number that all its items were written with.
    repeated: Option<u64>,
    /// Whether another list was joined to it.
    is_joined: bool,
    /// Whether a blank line is between an item and what belongs to it.
    has_blanks: bool,
}

impl OpenList {
    /// Whether a list that begins with `first` continues it: it counts on, or every item was written with the same number.
    fn is_continued(&self, blocks: &[Block<'_>], first: u64) -> bool {
        let BlockKind::List(items) = &blocks[self.index].kind else { return false };
        let last = items.last().and_then(|item| item.number);
        let counts_on = last.is_some_and(|last| first == last.saturating_add(1));
        let has_blocks_between = self.is_joined || blocks.len() > self.index + 1;
        has_blocks_between && (counts_on || self.repeated == Some(first))
    }

    /// Whether bullets belong to its last item.
    fn takes(&self, block: &Block<'_>) -> bool {
        let is_near = !block.blank_before || self.has_blanks;
        self.is_joined && is_near && first_number(block).is_none() && matches!(block.kind, BlockKind::List(_))
    }
}

/// Whether all items of a list were written with a number.
fn has_repeated_number(block: &Block<'_>, number: u64, source: &str) -> bool {
    let BlockKind::List(items) = &block.kind else { return false };
    items.iter().all(|item| written_number(item, source) == Some(number))
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
