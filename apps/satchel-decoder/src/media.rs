//! Sound and videos: their containers, and what these tell of duration and size without any sample being decoded.

pub(crate) mod container;
mod track_header;

use satchel_decoders::protocol::{MAX_DURATION_MS, MAX_VIDEO_SIDE, MediaSummary};
use symphonia::core::{
    codecs::{CodecParameters, audio::well_known::CODEC_ID_OPUS},
    errors::Error,
    formats::{FormatReader, Track, TrackType},
    units::{Duration, Timestamp},
};

use self::container::{Container, MediaFormat};
use crate::error::FileDecodeError;

/// Measures a file. Its format is recognised by its bytes; `mime` is only named.
pub(crate) fn measure(content: Vec<u8>, mime: &str) -> Result<MediaSummary, FileDecodeError> {
    // Before the content goes into the reader, which doesn't tell how pictures are turned.
    let mp4_sides = track_header::displayed_sides(&content);
    let Container { format, mut reader } = container::open(content, mime)?;
    let sides = match format {
        MediaFormat::Mp4 => mp4_sides,
        _ => reader.first_track(TrackType::Video).and_then(coded_sides),
    };
    let sides = sides.filter(|(width, height)| [width, height].iter().all(|side| (1..=MAX_VIDEO_SIDE).contains(*side)));
    let stated = match format {
        // MP3 and bare AAC have no header, so that what is read of one is a guess. That of WAV is written by many programs
        // before they know its length. OGG can be several recordings, and part of a longer one.
        MediaFormat::Wav | MediaFormat::Mpeg | MediaFormat::Adts | MediaFormat::Ogg => None,
        _ => stated_duration(reader.as_ref()),
    };
    let duration_ms = match stated {
        Some(duration_ms) => Some(duration_ms),
        None => counted_duration(reader.as_mut()).and_then(plausible_ms),
    };
    Ok(MediaSummary { width: sides.map(|(width, _)| width), height: sides.map(|(_, height)| height), duration_ms })
}

/// The sides of the coded pictures.
fn coded_sides(track: &Track) -> Option<(u32, u32)> {
    match &track.codec_params {
        Some(CodecParameters::Video(video)) => Some((u32::from(video.width?), u32::from(video.height?))),
        _ => None,
    }
}

/// The duration by the header. Streams that were recorded live have none.
fn stated_duration(reader: &dyn FormatReader) -> Option<u64> {
    let info = reader.media_info();
    let (duration, time_base) = match (info.duration, info.time_base) {
        (Some(duration), Some(time_base)) => (duration, time_base),
        _ => reader.tracks().iter().find_map(|track| Some((track.duration?, track.time_base?)))?,
    };
    plausible_ms(time_base.calc_duration(duration)?.as_millis())
}

/// The duration by all packets of all recordings in the file, in milliseconds.
fn counted_duration(reader: &mut dyn FormatReader) -> Option<i128> {
    let mut nanos = None;
    loop {
        let track = reader.default_track(TrackType::Audio).or_else(|| reader.default_track(TrackType::Video));
        let Some((track, time_base)) = track.and_then(|track| Some((track, track.time_base?))) else { break };
        let (id, skipped) = (track.id, opus_delay(track));
        // From the start of the first packet to the end of the last one. What comes before zero isn't played.
        let (mut start, mut end) = (None, Duration::ZERO);
        let last = loop {
            match reader.next_packet() {
                Ok(Some(packet)) if packet.track_id == id => {
                    let position =
                        |timestamp: Timestamp| Duration::from(u64::try_from(timestamp.get()).unwrap_or_default());
                    start.get_or_insert(position(packet.pts));
                    end = end.max(position(packet.pts.saturating_add(packet.dur)));
                }
                Ok(Some(_)) => {}
                last => break last,
            }
        };
        let played = end.saturating_sub(start.unwrap_or(end)).saturating_sub(skipped);
        if let Some(played) = time_base.calc_duration(played) {
            nanos = Some(nanos.unwrap_or(0) + played.as_nanos());
        }
        // A damaged end costs what comes behind it, as when it is played.
        if !matches!(last, Err(Error::ResetRequired)) {
            break;
        }
    }
    nanos.map(|nanos| nanos / 1_000_000)
}

/// The samples that an encoder of Opus puts before the sound.
fn opus_delay(track: &Track) -> Duration {
    let is_opus = matches!(&track.codec_params, Some(CodecParameters::Audio(audio)) if audio.codec == CODEC_ID_OPUS);
    Duration::from(if is_opus { u64::from(track.delay.unwrap_or_default()) } else { 0 })
}

fn plausible_ms(duration_ms: i128) -> Option<u64> {
    let duration_ms = u64::try_from(duration_ms).ok()?;
    (1..=MAX_DURATION_MS).contains(&duration_ms).then_some(duration_ms)
}

#[cfg(test)]
mod tests;
