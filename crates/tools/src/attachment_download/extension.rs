//! The extension of a downloaded file: from its claimed type, else its name, else its address, else its bytes. Pure.

use satchel_domain::Filename;

/// The longest extension that is taken from a name or an address.
const MAX_EXTENSION_CHARS: usize = 16;

/// The extension of each type that has a usual one. Types that servers give whatever they don't know are not here.
const EXTENSIONS: [(&str, &str); 49] = [
    ("application/epub+zip", "epub"),
    ("application/gzip", "gz"),
    ("application/json", "json"),
    ("application/msword", "doc"),
    ("application/ogg", "ogg"),
    ("application/pdf", "pdf"),
    ("application/rtf", "rtf"),
    ("application/toml", "toml"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.ms-powerpoint", "ppt"),
    ("application/vnd.oasis.opendocument.presentation", "odp"),
    ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/x-7z-compressed", "7z"),
    ("application/x-bzip2", "bz2"),
    ("application/x-gzip", "gz"),
    ("application/x-tar", "tar"),
    ("application/x-yaml", "yaml"),
    ("application/xml", "xml"),
    ("application/yaml", "yaml"),
    ("application/zip", "zip"),
    ("audio/aac", "aac"),
    ("audio/flac", "flac"),
    ("audio/m4a", "m4a"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("image/avif", "avif"),
    ("image/bmp", "bmp"),
    ("image/gif", "gif"),
    ("image/heic", "heic"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/tiff", "tiff"),
    ("image/webp", "webp"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/xml", "xml"),
    ("video/mp4", "mp4"),
    ("video/quicktime", "mov"),
    ("video/webm", "webm"),
];

/// The extension with its dot; nothing where none can be told.
///
/// What the platform or the server calls the file comes first, then its name, then its address. Only where all of them
/// say nothing, its bytes do. `application/octet-stream` is no type but the word for not knowing one, so it says
/// nothing.
pub(crate) fn choose_extension(served_as: Option<&str>, filename: &Filename, url: &str, detected: &str) -> String {
    let served_as = served_as.unwrap_or_default();
    let extension = from_mime(served_as)
        .or_else(|| filename.extension().filter(|extension| is_plain(extension)))
        .or_else(|| from_url(url))
        // Servers call text whatever they don't know better, and much is text.
        .or_else(|| from_filename(served_as))
        .or_else(|| from_mime(detected))
        .or_else(|| from_filename(detected));
    extension.map(|extension| format!(".{extension}")).unwrap_or_default()
}

fn from_mime(kind: &str) -> Option<String> {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    EXTENSIONS.iter().find(|(mime, _)| *mime == kind).map(|(_, extension)| (*extension).to_owned())
}

fn from_filename(kind: &str) -> Option<String> {
    kind.starts_with("text/plain").then(|| "txt".to_owned())
}

/// The extension in the path of a web address.
fn from_url(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let (_, path) = rest.split(['?', '#']).next()?.split_once('/')?;
    let (_, extension) = path.rsplit('/').next()?.rsplit_once('.')?;
    is_plain(extension).then(|| extension.to_ascii_lowercase())
}

fn is_plain(extension: &str) -> bool {
    (1..=MAX_EXTENSION_CHARS).contains(&extension.len()) && extension.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_prefers_claimed_type_name_url_then_bytes() {
        for (served_as, filename, address, sniffed, extension) in [
            ("image/jpeg", "photo.png", "https://x/a.gif", "image/png", ".jpg"),
            ("Image/JPEG; q=1", "photo", "", "image/png", ".jpg"),
            ("application/octet-stream", "photo.PNG", "https://x/a.gif", "image/jpeg", ".png"),
            ("application/octet-stream", "photo", "https://x/b/a.GIF?width=3.14#f.txt", "image/jpeg", ".gif"),
            ("application/octet-stream", "photo", "https://x.gif", "image/jpeg", ".jpg"),
            ("application/octet-stream", "photo", "https://x.gif/a", "", ""),
            ("application/octet-stream", "photo", "satchel:attachment/7.x", "application/octet-stream", ""),
            ("text/plain", "main.rs", "https://x/main", "text/plain", ".rs"),
            ("text/plain", "main", "https://x/main", "text/html", ".txt"),
            ("", "main.py", "", "text/plain", ".py"),
            ("", "report.docx", "", "application/zip", ".docx"),
            ("", "main", "", "text/plain", ".txt"),
            ("", "a.b/c", "", "", ""),
            ("", "archive.tar.gz", "", "", ".gz"),
            ("", "a.no way", "https://x/a.n%2Fo", "", ""),
            ("", "a.exe\u{202e}gpj", "", "", ".exegpj"),
        ] {
            let filename = Filename::from_untrusted(filename);
            let served_as = (!served_as.is_empty()).then_some(served_as);
            assert_eq!(
                choose_extension(served_as, &filename, address, sniffed),
                extension,
                "{served_as:?} {filename} {address}"
            );
        }
    }

    #[test]
    fn extension_table_is_sorted_and_plain() {
        assert!(EXTENSIONS.is_sorted());
        assert!(EXTENSIONS.iter().all(|(_, extension)| is_plain(extension)));
    }
}
