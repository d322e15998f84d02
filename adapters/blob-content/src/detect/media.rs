//! Reads an image's header: its size, and whether it is animated.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use satchel_domain::MediaInfo;

/// How much of a file is read for its header. It is enough for the second frame of any GIF that people send in a chat;
/// a longer one counts as animated if it loops.
pub const HEADER_BYTES: u64 = 4 * 1024 * 1024;

/// Reads the media information of a file of this type from its header, at most [`HEADER_BYTES`]. Unknown values are
/// absent.
#[must_use]
pub fn detect_media<R: Read + Seek>(mime: &str, content: R) -> MediaInfo {
    const MEASURED_TYPES: [&str; 11] = [
        "image/apng",
        "image/avif",
        "image/bmp",
        "image/gif",
        "image/heic",
        "image/heif",
        "image/jpeg",
        "image/jxl",
        "image/png",
        "image/tiff",
        "image/webp",
    ];
    if !MEASURED_TYPES.contains(&mime) {
        return MediaInfo::default();
    }
    let mut content = BufReader::new(HeaderReader { content, position: 0 });
    let size = imagesize::reader_size(&mut content).ok();
    let valid_side = |side: usize| u32::try_from(side).ok().filter(|side| *side > 0);
    let is_animated = content.rewind().and_then(|()| match mime {
        "image/gif" => is_animated_gif(&mut content),
        "image/webp" => is_animated_webp(&mut content),
        "image/avif" => Ok(read_head::<12>(&mut content)?.ends_with(b"avis")),
        "image/apng" => Ok(true),
        _ => Ok(false),
    });
    MediaInfo {
        width: size.and_then(|size| valid_side(size.width)),
        height: size.and_then(|size| valid_side(size.height)),
        duration_ms: None,
        animated: is_animated.unwrap_or(false),
    }
}

fn read_head<const N: usize>(content: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    content.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The extended header has a bit for it; the simple formats have no animation.
fn is_animated_webp(content: &mut impl Read) -> io::Result<bool> {
    let header = read_head::<21>(content)?;
    Ok(header[12..16] == *b"VP8X" && header[20] & 0x02 != 0)
}

/// The beginning of a file, which ends after [`HEADER_BYTES`].
struct HeaderReader<R> {
    content: R,
    position: u64,
}

impl<R: Read> Read for HeaderReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = HEADER_BYTES.saturating_sub(self.position);
        let length = self.content.by_ref().take(left).read(buffer)?;
        self.position += length as u64;
        Ok(length)
    }
}

impl<R: Seek> Seek for HeaderReader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = self.content.seek(to)?;
        Ok(self.position)
    }
}

/// Whether a GIF has a second frame, or loops where that would come after the header.
fn is_animated_gif<R: Read + Seek>(content: &mut R) -> io::Result<bool> {
    let mut has_loop = false;
    match has_second_frame(content, &mut has_loop) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && content.stream_position()? >= HEADER_BYTES => {
            Ok(has_loop)
        }
        result => result,
    }
}

/// Looks for a second frame, block by block (GIF89a, sections 17 to 27).
fn has_second_frame<R: Read + Seek>(content: &mut R, has_loop: &mut bool) -> io::Result<bool> {
    let header = read_head::<13>(content)?;
    skip(content, color_table_bytes(header[10]))?;
    let mut frames = 0;
    loop {
        match read_head::<1>(content)? {
            [0x21] => {
                let [_, first] = read_head::<2>(content)?;
                let mut name = vec![0; usize::from(first)];
                content.read_exact(&mut name)?;
                *has_loop |= name == b"NETSCAPE2.0";
                if first > 0 {
                    skip_blocks(content)?;
                }
            }
            [0x2c] => {
                frames += 1;
                if frames == 2 {
                    return Ok(true);
                }
                let descriptor = read_head::<9>(content)?;
                // One byte holds the code size of the pixels that follow.
                skip(content, color_table_bytes(descriptor[8]) + 1)?;
                skip_blocks(content)?;
            }
            _ => return Ok(false),
        }
    }
}

fn color_table_bytes(flags: u8) -> i64 {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

fn skip_blocks<R: Read + Seek>(content: &mut R) -> io::Result<()> {
    loop {
        match read_head::<1>(content)? {
            [0] => return Ok(()),
            [length] => skip(content, i64::from(length))?,
        }
    }
}

fn skip(content: &mut impl Seek, bytes: i64) -> io::Result<()> {
    content.seek_relative(bytes)
}
