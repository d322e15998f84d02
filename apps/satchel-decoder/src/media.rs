//! Sound and videos: their containers, and what these tell of duration and size without any sample being decoded.

pub(crate) mod container;
mod track_header;

use satchel_decoders::protocol::{MAX_DURATION_MS, MAX_VIDEO_SIDE, MediaSummary};
use symphonia::core::{
    codecs::{CodecParameters, audio::well_known::CODEC_ID_OPUS},
    formats::{FormatReader, Track, TrackType},
    units::{Duration, Time, TimeBase},
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
        // before they know its length.
        MediaFormat::Wav | MediaFormat::Mpeg | MediaFormat::Adts => None,
        _ => stated_duration(reader.as_ref()),
    };
    let duration_ms = match stated {
        Some(duration_ms) => Some(duration_ms),
        None => plausible_ms(counted_duration(reader.as_mut())),
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

/// The duration by the header, or in OGG by the last page. Streams that were recorded live have none.
fn stated_duration(reader: &dyn FormatReader) -> Option<u64> {
    let info = reader.media_info();
    let (duration, time_base) = match (info.duration, info.time_base) {
        (Some(duration), Some(time_base)) => (duration, time_base),
        _ => reader.tracks().iter().find_map(|track| Some((track.duration?, track.time_base?)))?,
    };
    let skipped = reader.tracks().iter().find_map(opus_delay).unwrap_or_default();
    plausible_ms(time_base.calc_duration(duration.saturating_sub(skipped)))
}

/// The samples before the sound of Opus in OGG, which its last page counts too.
fn opus_delay(track: &Track) -> Option<Duration> {
    let is_opus = matches!(&track.codec_params, Some(CodecParameters::Audio(audio)) if audio.codec == CODEC_ID_OPUS);
    is_opus.then_some(Duration::from(u64::from(track.delay?)))
}

/// The duration by all packets: where the last one ends, or how long all of them are if they have no place in time.
fn counted_duration(reader: &mut dyn FormatReader) -> Option<Time> {
    let track = reader.default_track(TrackType::Audio).or_else(|| reader.default_track(TrackType::Video))?;
    let (id, time_base): (u32, TimeBase) = (track.id, track.time_base?);
    let mut end = Duration::ZERO;
    // A damaged end costs what comes behind it, as when it is played.
    while let Ok(Some(packet)) = reader.next_packet() {
        if packet.track_id == id {
            let packet_end = packet.pts.saturating_add(packet.dur);
            end = end.max(Duration::from(u64::try_from(packet_end.get()).unwrap_or_default()));
        }
    }
    time_base.calc_duration(end)
}

fn plausible_ms(time: Option<Time>) -> Option<u64> {
    let duration_ms = u64::try_from(time?.as_millis()).ok()?;
    (1..=MAX_DURATION_MS).contains(&duration_ms).then_some(duration_ms)
}

#[cfg(test)]
mod tests;
