//! An oracle that listens: espeak-ng speaks, and ffmpeg says what became of it.

use std::{path::Path, process::Command};

use satchel_ports::Speech;
use satchel_requirements::{find_programs, required};

use crate::stage::{Heard, program, recording, speak, tone, voice};

const WORDS: &str = "Good evening. The milk is in the fridge, and the keys are under the red flower pot. Sleep well!";

/// What ffprobe says of a file: codec, rate, channels and seconds.
fn probed(path: &Path) -> (String, u32, u32, f64) {
    let asked = Command::new("ffprobe")
        .args(["-v", "error", "-show_entries", "stream=codec_name,sample_rate,channels:format=duration"])
        .args(["-of", "default=noprint_wrappers=1"])
        .arg(path)
        .output()
        .expect("it was there a moment ago");
    assert!(asked.status.success() && asked.stderr.is_empty(), "{}", String::from_utf8_lossy(&asked.stderr));
    let answer = String::from_utf8(asked.stdout).expect("ffprobe writes text");
    let value = |key: &str| {
        let line = answer.lines().find_map(|line| line.strip_prefix(key)).expect("ffprobe names it");
        line.trim_start_matches('=').to_owned()
    };
    let number = |key: &str| value(key).parse().expect("a number");
    (value("codec_name"), number("sample_rate"), number("channels"), value("duration").parse().expect("a number"))
}

/// The loudness of each tenth of a second, as ffmpeg decodes a file.
fn energies(path: &Path) -> Vec<f64> {
    let decoded = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(path)
        .args(["-f", "s16le", "-ac", "1", "-ar", "48000", "-"])
        .output()
        .expect("it was there a moment ago");
    assert!(decoded.status.success(), "{}", String::from_utf8_lossy(&decoded.stderr));
    let samples: Vec<f64> =
        decoded.stdout.chunks_exact(2).map(|bytes| f64::from(i16::from_le_bytes([bytes[0], bytes[1]]))).collect();
    #[expect(clippy::cast_precision_loss, reason = "4800 samples")]
    let energies =
        samples.chunks(4_800).map(|tenth| (tenth.iter().map(|s| s * s).sum::<f64>() / tenth.len() as f64).sqrt());
    energies.collect()
}

/// How alike two courses of loudness are, from -1 to 1.
#[expect(clippy::cast_precision_loss, reason = "some hundreds of tenths of a second")]
fn likeness(one: &[f64], two: &[f64]) -> f64 {
    let count = one.len().min(two.len());
    let mean = |values: &[f64]| values[..count].iter().sum::<f64>() / count as f64;
    let (mean_one, mean_two) = (mean(one), mean(two));
    let product = |a: &[f64], ma: f64, b: &[f64], mb: f64| -> f64 {
        a[..count].iter().zip(&b[..count]).map(|(a, b)| (a - ma) * (b - mb)).sum()
    };
    product(one, mean_one, two, mean_two)
        / (product(one, mean_one, one, mean_one) * product(two, mean_two, two, mean_two)).sqrt()
}

fn written(heard: &Heard, directory: &Path) -> std::path::PathBuf {
    let path = directory.join("voice.ogg");
    std::fs::write(&path, &heard.ogg).expect("a temporary directory takes files");
    path
}

#[tokio::test]
async fn espeak_speech_keeps_length_and_loudness_as_opus() {
    let Some(()) = required(find_programs(&["espeak-ng", "ffmpeg", "ffprobe"])) else { return };
    let directory = tempfile::tempdir().unwrap();
    let espeak = voice(Some(program(&["espeak-ng", "-v", "en", "--stdout"])), None, directory.path());
    let heard = speak(&espeak, WORDS).await.unwrap();
    let path = written(&heard, directory.path());
    let (codec, rate, channels, seconds) = probed(&path);
    assert_eq!((codec.as_str(), rate, channels), ("opus", 48_000, 1));

    let original = directory.path().join("original.wav");
    let said = Command::new("espeak-ng").args(["-v", "en", "-w"]).arg(&original).arg(WORDS).status().unwrap();
    assert!(said.success());
    let (.., original_seconds) = probed(&original);
    #[expect(clippy::cast_precision_loss, reason = "some seconds")]
    let told = heard.duration_ms as f64 / 1_000.0;
    assert!((seconds - told).abs() <= 0.03 * told, "ffprobe says {seconds}, we say {told}");
    assert!((original_seconds - told).abs() <= 0.03 * told, "espeak made {original_seconds}, we say {told}");
    assert!(told > 4.0, "{told}");

    let (before, after) = (energies(&original), energies(&path));
    let (sum_before, sum_after): (f64, f64) = (before.iter().sum(), after.iter().sum());
    assert!((0.9..1.1).contains(&(sum_after / sum_before)), "{sum_before} became {sum_after}");
    let likeness = likeness(&before, &after);
    assert!(likeness > 0.97, "{likeness}");

    assert!(heard.waveform.len() > 200 && heard.waveform.len() <= 256, "{}", heard.waveform.len());
    assert_eq!(heard.waveform.iter().max(), Some(&255));
    assert!(heard.waveform.iter().filter(|point| **point < 25).count() > 3, "there are pauses: {:?}", heard.waveform);
}

#[tokio::test]
async fn every_ffmpeg_wav_format_becomes_same_tone() {
    let Some(()) = required(find_programs(&["ffmpeg", "ffprobe"])) else { return };
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("tone.wav");
    std::fs::write(&source, tone(48_000, 3_000)).unwrap();
    let original = energies(&source);
    for (codec, rate, channels) in [
        ("pcm_u8", "8000", "1"),
        ("pcm_s16le", "22050", "2"),
        ("pcm_s24le", "44100", "2"),
        ("pcm_s32le", "16000", "1"),
        ("pcm_f32le", "96000", "6"),
        ("pcm_f64le", "11025", "1"),
    ] {
        let ffmpeg = ["ffmpeg", "-v", "error", "-i", source.to_str().unwrap(), "-ar", rate, "-ac", channels];
        let command = [ffmpeg.as_slice(), &["-c:a", codec, "-f", "wav", "-"]].concat();
        let heard = speak(&voice(Some(program(&command)), None, directory.path()), "x").await.unwrap();
        let (.., seconds) = probed(&written(&heard, directory.path()));
        assert!((seconds - 3.0).abs() < 0.01, "{codec} {rate}: {seconds} s");
        assert!(heard.duration_ms.abs_diff(3_000) <= 1, "{codec} {rate}: {} ms", heard.duration_ms);
        let made = energies(&directory.path().join("voice.ogg"));
        assert!(likeness(&original, &made) > 0.99, "{codec} {rate} {channels}");
    }
}

#[tokio::test]
async fn ffmpeg_recording_reaches_command_as_wav() {
    let Some(()) = required(find_programs(&["ffmpeg", "ffprobe"])) else { return };
    let directory = tempfile::tempdir().unwrap();
    let (source, note) = (directory.path().join("tone.wav"), directory.path().join("note.ogg"));
    std::fs::write(&source, tone(48_000, 3_000)).unwrap();
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-i", source.to_str().unwrap(), "-c:a", "libopus", "-b:a", "24k", "-ac", "2"])
        .arg(&note)
        .status()
        .unwrap();
    assert!(made.success());
    let wav = directory.path().join("heard.wav");
    let listens = program(&["cp", "{wav}", wav.to_str().unwrap()]);
    let voice = voice(None, Some(listens), directory.path());
    voice.transcribe(recording(&std::fs::read(&note).unwrap(), "audio/ogg")).await.unwrap();
    let (codec, rate, channels, seconds) = probed(&wav);
    assert_eq!((codec.as_str(), rate, channels), ("pcm_s16le", 16_000, 1));
    assert!((seconds - 3.0).abs() < 0.02, "{seconds}");
    assert!(likeness(&energies(&source), &energies(&wav)) > 0.99);
}
