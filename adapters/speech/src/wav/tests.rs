//! Reading WAV: every sample format, every chunking, and headers that lie.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn chunk(name: &[u8; 4], length: u32, content: &[u8]) -> Vec<u8> {
    [name.as_slice(), &length.to_le_bytes(), content].concat()
}

fn format(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let align = channels * bits / 8;
    let mut content = Vec::new();
    content.extend(tag.to_le_bytes());
    content.extend(channels.to_le_bytes());
    content.extend(rate.to_le_bytes());
    content.extend((rate * u32::from(align)).to_le_bytes());
    content.extend(align.to_le_bytes());
    content.extend(bits.to_le_bytes());
    chunk(b"fmt ", 16, &content)
}

fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
    [b"RIFF\xFF\xFF\xFF\xFFWAVE".to_vec(), chunks.concat()].concat()
}

fn data(content: &[u8]) -> Vec<u8> {
    chunk(b"data", u32::try_from(content.len()).unwrap(), content)
}

fn read(wav: &[u8], piece: usize) -> Result<(Vec<f32>, WavReader), UnsupportedAudio> {
    let (mut reader, mut samples) = (WavReader::default(), Vec::new());
    for bytes in wav.chunks(piece.max(1)) {
        reader.push(bytes, &mut samples)?;
    }
    Ok((samples, reader))
}

#[rstest]
#[case::unsigned_8(1, 8, vec![0, 128, 255])]
#[case::signed_16(1, 16, [i16::MIN, 0, i16::MAX].into_iter().flat_map(i16::to_le_bytes).collect())]
#[case::signed_24(1, 24, vec![0, 0, 0x80, 0, 0, 0, 0xFF, 0xFF, 0x7F])]
#[case::signed_32(1, 32, [i32::MIN, 0, i32::MAX].into_iter().flat_map(i32::to_le_bytes).collect())]
#[case::float_32(3, 32, [-1.0f32, f32::NAN, 7.0].into_iter().flat_map(f32::to_le_bytes).collect())]
#[case::float_64(3, 64, [-1.0f64, 0.0, 1.0].into_iter().flat_map(f64::to_le_bytes).collect())]
fn every_usual_sample_format_is_read(#[case] tag: u16, #[case] bits: u16, #[case] content: Vec<u8>) {
    let wav = riff(&[format(tag, 1, 22_050, bits), data(&content)]);
    for piece in [1, 3, 7, 1000] {
        let (samples, reader) = read(&wav, piece).unwrap();
        assert_eq!((reader.rate(), reader.is_complete()), (Some(22_050), true));
        assert_eq!((samples[0], samples[1].abs() < 1e-6, samples[2] > 0.99, samples.len()), (-1.0, true, true, 3));
    }
}

#[test]
fn wav_channels_are_mixed_and_unknown_chunks_skipped() {
    let content: Vec<u8> = [16_384i16, 0, -16_384, -16_384].into_iter().flat_map(i16::to_le_bytes).collect();
    let list = chunk(b"LIST", 5, b"a\0\0\0\0\0");
    let trailer = chunk(b"id3 ", 4, b"abcd");
    let wav = riff(&[list, format(1, 2, 48_000, 16), data(&content), trailer]);
    for piece in [1, 5, 1000] {
        assert_eq!(read(&wav, piece).unwrap().0, [0.25, -0.5]);
    }
}

#[test]
fn extensible_wav_is_read_by_its_subformat() {
    let mut content = format(0xFFFE, 1, 16_000, 16)[8..].to_vec();
    content.extend([22, 0, 16, 0, 4, 0, 0, 0, 1, 0]);
    content.extend([0; 14]);
    let wav = riff(&[chunk(b"fmt ", 40, &content), data(&[0, 0x40])]);
    assert_eq!(read(&wav, 9).unwrap().0, [0.5]);
}

#[rstest]
#[case::espeak(0x7FFF_F000)]
#[case::openai(0xFFFF_FFFF)]
#[case::ffmpeg_to_a_pipe(0)]
fn a_length_that_nobody_knew_is_none(#[case] length: u32) {
    let wav = riff(&[format(1, 1, 8_000, 8), chunk(b"data", length, &[255; 10])]);
    let (samples, reader) = read(&wav, 4).unwrap();
    assert_eq!((samples.len(), reader.is_complete()), (10, true));
}

#[test]
fn wavs_that_follow_one_another_are_one_sound() {
    let one = riff(&[format(1, 1, 8_000, 8), data(&[255; 4]), chunk(b"LIST", 2, b"ab")]);
    let two = riff(&[format(1, 1, 8_000, 8), data(&[0; 6])]);
    let both = [one.clone(), two].concat();
    for piece in [1, 7, 1000] {
        let (samples, reader) = read(&both, piece).unwrap();
        assert_eq!((samples.len(), samples[3] > 0.9, samples[4], reader.is_complete()), (10, true, -1.0, true));
    }
    let broken = read(&both[..both.len() - 1], 9).unwrap().1;
    assert!(!broken.is_complete(), "the second one broke off");
    let faster = [one, riff(&[format(1, 1, 16_000, 8), data(&[0; 6])])].concat();
    assert_eq!(read(&faster, 9).err(), Some(UnsupportedAudio("WAV whose rate changes in the middle")));
}

#[test]
fn sound_that_breaks_off_is_not_whole() {
    let wav = riff(&[format(1, 1, 8_000, 8), data(&[255; 10])]);
    for length in 0..wav.len() {
        let whole = read(&wav[..length], 5).is_ok_and(|(_, reader)| reader.is_complete());
        assert!(!whole, "{length} of {} bytes", wav.len());
    }
    assert!(read(&wav, 5).unwrap().1.is_complete());
}

#[rstest]
#[case::another_riff(b"RIFF\0\0\0\0AVI ".to_vec())]
#[case::no_format(riff(&[data(&[1])]))]
#[case::mp3_in_wav(riff(&[format(0x55, 1, 8_000, 8)]))]
#[case::twelve_bits(riff(&[format(1, 1, 8_000, 12)]))]
#[case::no_channels(riff(&[format(1, 0, 8_000, 8)]))]
#[case::many_channels(riff(&[format(1, 9, 8_000, 8)]))]
#[case::no_rate(riff(&[format(1, 1, 0, 8)]))]
#[case::short_format(riff(&[chunk(b"fmt ", 4, &[1, 0, 1, 0])]))]
#[case::endless_format(riff(&[chunk(b"fmt ", u32::MAX, &[])]))]
fn what_can_not_be_sound_is_refused(#[case] wav: Vec<u8>) {
    assert!(read(&wav, 64).is_err());
}

proptest! {
    #[test]
    fn no_bytes_break_it_and_nothing_is_kept(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..40) {
        let wav = riff(&[format(1, 2, 8_000, 16), bytes.clone()]);
        for bytes in [bytes, wav] {
            if let Ok((_, reader)) = read(&bytes, piece) {
                prop_assert!(reader.buffer.len() <= 1024 + 12);
            }
        }
    }
}
