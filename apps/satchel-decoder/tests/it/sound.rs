//! Sound of each format passes through the worker, and a hostile file costs no more than that.

use satchel_decoders::DecoderSettings;

use crate::{
    fixtures::Noise,
    harness::{count_samples, measure, settings},
    sound_fixtures::{SOUNDS, sound, tiny_opus_packets, wav, wav_that_claims},
};

async fn reason(content: Vec<u8>) -> String {
    count_samples(settings(), content).await.unwrap_err().to_string()
}

#[tokio::test]
async fn each_sound_format_is_decoded_and_measured() {
    for fixture in &SOUNDS {
        let samples = count_samples(settings(), fixture.content.to_vec()).await;
        let samples = samples.unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        assert!((15_000..=17_600).contains(&samples), "{}: {samples} samples", fixture.name);
        let duration_ms = measure(fixture.content.to_vec()).await.unwrap().duration_ms.unwrap();
        assert!(duration_ms.abs_diff(fixture.duration_ms) <= fixture.packet_ms, "{}: {duration_ms}", fixture.name);
    }
    let video = measure(sound("video.mp4")).await.unwrap();
    assert_eq!((video.width, video.height), (Some(64), Some(48)));
}

#[tokio::test]
async fn long_sound_streams_within_little_memory() {
    // Two hours of samples take 230 MB, and the stacks and heaps that a worker reserves about 145 MiB.
    let small = DecoderSettings { memory_bytes: 200 << 20, ..settings() };
    let packets = 2 * 60 * 60 * 1_000 / 120;
    let samples = count_samples(small, tiny_opus_packets(packets, 5_760)).await.unwrap();
    assert_eq!(samples, packets * 1_920 - 104);
}

#[tokio::test]
async fn hostile_sound_costs_one_worker() {
    let endless = tiny_opus_packets(2 * 60 * 60 * 1_000 / 120 + 1, 0);
    assert_eq!(reason(endless).await, "it is longer than 120 minutes");
    assert_eq!(count_samples(settings(), wav_that_claims(u32::MAX, 16_000, 1, 1_600)).await, Ok(1_600));
    let noise: Vec<u8> = Noise::new(7).take(100_000).collect();
    for magic in [&b"OggS"[..], b"fLaC", b"\x1a\x45\xdf\xa3", b"\0\0\0\x18ftypM4A ", b"RIFF\0\0\0\0WAVE"] {
        let content = [magic, &noise].concat();
        assert!(count_samples(settings(), content.clone()).await.is_err(), "{magic:?}");
        let measured = measure(content).await;
        assert!(measured.as_ref().is_err() || measured.as_ref().unwrap().width.is_none(), "{magic:?}: {measured:?}");
    }
    assert_eq!(count_samples(settings(), wav(16_000, 1, 9)).await, Ok(9), "the next recording is decoded");
}

#[tokio::test]
async fn no_sound_is_named_with_its_type() {
    let expected = "by its bytes it is no WAV, FLAC, MP3, AAC, OGG, MP4 or WebM (its type was given as audio/test)";
    assert_eq!(reason(b"%PDF-1.7 and so on".to_vec()).await, expected);
    assert!(measure(b"%PDF-1.7 and so on".to_vec()).await.is_err());
}
