// Says sizes, times and types of files the way people do.

const NAMED = 5;
const LONGEST_NAME = 36;
const UNITS = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "KB"]];

// The same words as the server's: decimal units, cut rather than rounded, so that a limit never seems to be reached.
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const unit = UNITS.find(([least]) => bytes >= least);
  if (!unit) return `${Math.floor(bytes)} B`;
  const tenths = Math.floor((bytes * 10) / unit[0]);
  return tenths >= 100 || tenths % 10 === 0 ? `${Math.floor(tenths / 10)} ${unit[1]}` : `${tenths / 10} ${unit[1]}`;
}

const clockFormat = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
const dateFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });
const shortDateFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

export const date = (milliseconds) => dateFormat.format(milliseconds);

export function clock(milliseconds) {
  return clockFormat.format(milliseconds);
}

function daysAgo(milliseconds) {
  const midnight = new Date();
  midnight.setHours(0, 0, 0, 0);
  return milliseconds >= midnight.getTime() ? 0 : Math.ceil((midnight.getTime() - milliseconds) / 86_400_000);
}

export function day(milliseconds) {
  const ago = daysAgo(milliseconds);
  if (ago === 0) return "Today";
  return ago === 1 ? "Yesterday" : dateFormat.format(milliseconds);
}

// When something was, as short as it can be said.
export function shortWhen(milliseconds) {
  const ago = daysAgo(milliseconds);
  if (ago === 0) return clock(milliseconds);
  return ago === 1 ? "Yesterday" : shortDateFormat.format(milliseconds);
}

const monthFormat = new Intl.DateTimeFormat(undefined, { month: "long", year: "numeric" });

// The period of the past in which something was, as a list groups them.
export function period(milliseconds) {
  const ago = daysAgo(milliseconds);
  if (ago === 0) return "Today";
  if (ago === 1) return "Yesterday";
  if (ago <= 7) return "Last 7 days";
  return ago <= 30 ? "Last 30 days" : monthFormat.format(milliseconds);
}

export function duration(milliseconds) {
  if (!milliseconds) return "";
  const seconds = Math.round(milliseconds / 1000);
  const two = (number) => String(number).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

// How long something took.
export function elapsed(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  return milliseconds < 60_000 ? `${(milliseconds / 1000).toFixed(1)} s` : `${duration(milliseconds)} min`;
}

export function count(number, one, many) {
  return `${number} ${number === 1 ? one : many}`;
}

// Names of files in a sentence: the first few, shortened, and how many there are besides.
export function someNames(names) {
  const shown = names.slice(0, NAMED).map(shortName);
  const rest = names.length - shown.length;
  if (rest > 0) return `${shown.join(", ")} and ${rest} more`;
  return shown.length < 2 ? shown.join() : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

// The end of a name often tells more than its middle.
function shortName(name) {
  const letters = [...name];
  return letters.length <= LONGEST_NAME ? name : `${letters.slice(0, 19).join("")}…${letters.slice(-16).join("")}`;
}

const WORDS = {
  "application/pdf": "PDF",
  "application/zip": "ZIP archive",
  "application/gzip": "GZIP archive",
  "application/x-tar": "TAR archive",
  "application/json": "JSON",
  "application/octet-stream": "File",
  "application/msword": "Word document",
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "Word document",
  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "Excel sheet",
  "application/vnd.openxmlformats-officedocument.presentationml.presentation": "PowerPoint",
  "image/svg+xml": "SVG drawing",
  "audio/mpeg": "MP3 audio",
  "video/quicktime": "QuickTime video",
  "application/javascript": "JavaScript",
  "text/csv": "CSV table",
  "text/html": "HTML document",
  "text/markdown": "Markdown",
  "text/plain": "Text",
  "text/x-python": "Python script",
  "text/x-shellscript": "Shell script",
};

// A MIME type in a word.
export function typeWord(mime) {
  const bare = (mime ?? "").split(";")[0].trim().toLowerCase();
  if (WORDS[bare]) return WORDS[bare];
  const [kind, name = ""] = bare.split("/");
  const short = name.replace(/^(x-|vnd\.)/, "").toUpperCase();
  if (kind === "image") return `${short} image`;
  if (kind === "audio") return `${short} audio`;
  if (kind === "video") return `${short} video`;
  return short && short.length <= 12 ? short : "File";
}

// The icon of a MIME type.
export function typeIcon(mime) {
  const bare = (mime ?? "").split(";")[0].trim().toLowerCase();
  if (bare === "application/pdf") return "pdf";
  if (/zip|tar|compressed|rar|7z/.test(bare)) return "archive";
  if (/csv|spreadsheet|excel/.test(bare)) return "sheet";
  if (/json|xml|html|javascript|x-sh|yaml|toml|^text\/x-/.test(bare) && !bare.includes("openxml")) return "code";
  if (/^text\/|document|msword/.test(bare)) return "text";
  const kind = bare.split("/")[0];
  return ["image", "audio", "video"].includes(kind) ? kind : "file";
}
