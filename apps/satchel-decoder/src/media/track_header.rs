//! The sides of an MP4's pictures as they are shown: phones turn a video by its header, not by its pictures.

/// How deep the boxes of a track's header lie, and the names on the way: `moov`, `trak`, `tkhd`.
const PATH: [&[u8; 4]; 3] = [b"moov", b"trak", b"tkhd"];

/// The numbers of a header behind its creation times and its duration: the matrix, of nine, and the two sides.
const MATRIX_AND_SIDES: usize = 11;

/// The width and height of the first track that is shown.
pub(super) fn displayed_sides(content: &[u8]) -> Option<(u32, u32)> {
    if content.get(4..8) != Some(b"ftyp") {
        return None;
    }
    find_sides(content, 0)
}

/// Looks into the boxes that lie one after the other here, for those of the path.
fn find_sides(mut boxes: &[u8], depth: usize) -> Option<(u32, u32)> {
    while let Some((name, body, rest)) = split_box(boxes) {
        if name == PATH[depth] {
            let sides = if depth + 1 == PATH.len() { parse_header(body) } else { find_sides(body, depth + 1) };
            if sides.is_some() {
                return sides;
            }
        }
        boxes = rest;
    }
    None
}

/// The name and the body of the first box, and what follows it.
fn split_box(boxes: &[u8]) -> Option<(&[u8; 4], &[u8], &[u8])> {
    let (size, rest) = boxes.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_first_chunk::<4>()?;
    let (size, rest) = match u32::from_be_bytes(*size) {
        // The last box takes all that is left.
        0 => return Some((name, rest, &[])),
        1 => {
            let (size, rest) = rest.split_first_chunk::<8>()?;
            (u64::from_be_bytes(*size).checked_sub(16)?, rest)
        }
        size => (u64::from(size).checked_sub(8)?, rest),
    };
    let (body, rest) = rest.split_at_checked(usize::try_from(size).ok()?)?;
    Some((name, body, rest))
}

/// The sides of a track's header, turned as its matrix says; `None` for a track without any, or one that is turned askew.
fn parse_header(header: &[u8]) -> Option<(u32, u32)> {
    // Times of 64 bits in version 1. Behind them: reserved, layer, group, volume, reserved.
    let start = if header.first()? == &1 { 4 + 8 + 8 + 4 + 4 + 8 } else { 4 + 4 + 4 + 4 + 4 + 4 } + 16;
    let numbers: Vec<i32> = header
        .get(start..start + 4 * MATRIX_AND_SIDES)?
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| i32::from_be_bytes(*bytes))
        .collect();
    // The numbers are fractions of 65536.
    let side = |number: i32| u32::try_from(number >> 16).ok().filter(|side| *side > 0);
    let (width, height) = (side(numbers[9])?, side(numbers[10])?);
    match (numbers[0], numbers[1], numbers[3], numbers[4]) {
        (_, 0, 0, _) => Some((width, height)),
        (0, _, _, 0) => Some((height, width)),
        _ => None,
    }
}
