//! Files that a person of a fake platform sends: given bytes, or generated ones of any length that are never held.

use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::Sha256;
use satchel_ports::ByteStream;
use sha2::Digest;

/// The length of a generated block; also the most that is held of a file at once.
const BLOCK_BYTES: u64 = 64 * 1024;

/// A file that a person sends.
#[derive(Debug, Clone)]
pub struct FakeFile {
    /// Its name, as the person's device gives it.
    pub filename: String,
    pub mime: String,
    content: FileBytes,
}

#[derive(Debug, Clone)]
enum FileBytes {
    Given(Bytes),
    /// A head, such as an image's, and then noise.
    Generated {
        head: Bytes,
        seed: u64,
        bytes: u64,
    },
}

impl FakeFile {
    /// A file of these bytes.
    pub fn from_bytes(filename: impl Into<String>, mime: impl Into<String>, content: impl Into<Bytes>) -> Self {
        Self { filename: filename.into(), mime: mime.into(), content: FileBytes::Given(content.into()) }
    }

    /// A file of noise: the same seed and length are the same bytes.
    pub fn generated(filename: impl Into<String>, mime: impl Into<String>, seed: u64, bytes: u64) -> Self {
        let content = FileBytes::Generated { head: Bytes::new(), seed, bytes };
        Self { filename: filename.into(), mime: mime.into(), content }
    }

    /// A PNG as far as its header tells: its pixels are noise.
    pub fn photo(filename: impl Into<String>, width: u32, height: u32, seed: u64, bytes: u64) -> Self {
        let mut head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        head.extend(width.to_be_bytes());
        head.extend(height.to_be_bytes());
        head.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
        let bytes = bytes.max(head.len() as u64);
        let content = FileBytes::Generated { head: head.into(), seed, bytes };
        Self { filename: filename.into(), mime: "image/png".to_owned(), content }
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.content {
            FileBytes::Given(bytes) => bytes.len() as u64,
            FileBytes::Generated { bytes, .. } => *bytes,
        }
    }

    #[must_use]
    pub fn sha256(&self) -> Sha256 {
        let mut hasher = sha2::Sha256::new();
        self.blocks().for_each(|block| hasher.update(&block));
        Sha256(hasher.finalize().into())
    }

    /// Its bytes as they flow.
    #[must_use]
    pub fn stream(&self) -> ByteStream {
        stream::iter(self.blocks().map(Ok)).boxed()
    }

    /// The same, block by block.
    pub fn blocks(&self) -> Box<dyn Iterator<Item = Bytes> + Send> {
        match self.content.clone() {
            FileBytes::Given(bytes) => Box::new(std::iter::once(bytes)),
            FileBytes::Generated { head, seed, bytes } => {
                Box::new((0..bytes.div_ceil(BLOCK_BYTES)).map(move |index| {
                    let length = BLOCK_BYTES.min(bytes - index * BLOCK_BYTES);
                    let mut block = noise(seed, index, usize::try_from(length).expect("a block is small"));
                    if index == 0 {
                        block[..head.len()].copy_from_slice(&head);
                    }
                    block.into()
                }))
            }
        }
    }
}

/// SplitMix64, begun anew for each block so that any block can be made alone.
fn noise(seed: u64, index: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0xa076_1d64_78bd_642f) ^ index.wrapping_mul(0xe703_7ed1_a0b4_28db);
    let mut block = vec![0; length.next_multiple_of(8)];
    for word in block.as_chunks_mut::<8>().0 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *word = (mixed ^ (mixed >> 31)).to_le_bytes();
    }
    block.truncate(length);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn streamed_bytes_match_size_and_digest() {
        for file in [
            FakeFile::from_bytes("a.txt", "text/plain", "hello"),
            FakeFile::generated("b.bin", "application/octet-stream", 7, 3 * BLOCK_BYTES + 5),
            FakeFile::photo("c.png", 640, 480, 7, 100_000),
        ] {
            let blocks: Vec<Bytes> = file.stream().map(|block| block.expect("generated")).collect().await;
            let whole = blocks.concat();
            assert_eq!(whole.len() as u64, file.bytes(), "{}", file.filename);
            assert_eq!(Sha256(sha2::Sha256::digest(&whole).into()), file.sha256(), "{}", file.filename);
        }
        assert_ne!(FakeFile::generated("a", "", 1, 9).sha256(), FakeFile::generated("a", "", 2, 9).sha256());
    }
}
