// Shows files: pictures, sound and film in place, everything else as a card, and what was refused with the reason.

import { element, icon } from "./dom.js";
import { duration, size, typeIcon, typeWord } from "./format.js";

const WIDEST = 460;
const HIGHEST = 340;
const HIGHEST_OF_MANY = 190;
// From so many on, the files of a message are tiles of one size.
const GRID_FROM = 5;

// The images of which neither a copy nor the file itself can be shown here.
const unseen = new Set();

// Whether a file is shown as a picture.
export function isPicture(file) {
  return (file.inline === "image" || Boolean(file.preview)) && !unseen.has(file.id);
}

// An element that loads a file can't send the header of a login; the signature of the file takes its place.
const signed = (file, url) => `${url}?signature=${file.signature}`;

export const fileUrl = (file) => signed(file, file.url);

export const downloadUrl = (file) => `${fileUrl(file)}&download=1`;

// What is shown of a picture at first: a small copy, if there is one.
export const firstSource = (file) => (file.preview ? signed(file, file.preview) : fileUrl(file));

// What is shown of a picture at window size: the file, unless browsers don't know its type.
export const fullSource = (file) => (file.inline === "image" ? fileUrl(file) : firstSource(file));

// The files of one message or part, in their order; pictures that follow each other stand side by side.
export function filesView(files, onOpenPicture) {
  if (files.length >= GRID_FROM) return gridView(files, onOpenPicture);
  const list = element("div", { class: "files" });
  let row = null;
  const pictures = files.filter(isPicture).length;
  for (const file of files) {
    if (isPicture(file)) {
      if (!row) list.append((row = element("div", { class: "pictures" })));
      row.append(picture(file, pictures > 1 ? HIGHEST_OF_MANY : HIGHEST, onOpenPicture));
    } else {
      row = null;
      list.append(file.inline === "video" ? video(file) : file.inline === "audio" ? audio(file) : card(file));
    }
  }
  return list;
}

// Many files, in their order: pictures and cards alike as tiles; what is played keeps its player.
function gridView(files, onOpenPicture) {
  const tileOf = (file) => {
    if (isPicture(file)) return picture(file, HIGHEST_OF_MANY, onOpenPicture, fileTile);
    if (file.inline === "video") return video(file);
    return file.inline === "audio" ? audio(file) : fileTile(file);
  };
  return element("div", { class: "files files-grid" }, ...files.map(tileOf));
}

// A file that isn't shown, as large as the pictures around it.
function fileTile(file) {
  if (file.forgotten) return tombstone(file);
  return element("figure", { class: "figure" }, element("div", { class: "tile-icon" }, icon(typeIcon(file.mime))), caption(file));
}

function facts(file) {
  const length = duration(file.duration_ms);
  return [typeWord(file.mime), size(file.bytes), length, file.number ? `#${file.number}` : ""].filter(Boolean).join(" · ");
}

// The size at which it is shown, known before a byte of it is here, so that nothing jumps when it comes.
function fitted(file, highest) {
  if (!file.width || !file.height) return null;
  const scale = Math.min(1, WIDEST / file.width, highest / file.height);
  return { width: Math.max(Math.round(file.width * scale), 1), height: Math.max(Math.round(file.height * scale), 1) };
}

function download(file) {
  const label = `Download ${file.filename}`;
  return element("a", { class: "plain-button", href: downloadUrl(file), download: file.filename, "aria-label": label, title: label }, icon("download"));
}

// `instead` makes what takes its place where it can't be shown.
function picture(file, highest, onOpenPicture, instead = card) {
  const fit = fitted(file, highest);
  const image = element("img", {
    src: firstSource(file),
    alt: file.description || file.filename,
    width: fit?.width,
    height: fit?.height,
    loading: "lazy",
    decoding: "async",
  });
  const button = element("button", { type: "button", class: fit ? "picture" : "picture picture-unknown", "aria-label": `Open ${file.filename}` }, image);
  button.addEventListener("click", () => onOpenPicture(file));
  const figure = element("figure", { class: "figure" }, button, caption(file));
  image.addEventListener("error", () => {
    // Without a copy the file itself is shown. One that is gone or broken is still a file that one can have.
    if (file.inline === "image" && image.getAttribute("src") !== fileUrl(file)) {
      image.src = fileUrl(file);
    } else {
      unseen.add(file.id);
      figure.replaceWith(instead(file));
    }
  });
  return figure;
}

function caption(file) {
  return element(
    "figcaption",
    { class: "caption" },
    element("span", { class: "caption-name", title: file.filename }, file.filename),
    element("span", { class: "caption-facts" }, facts(file)),
    download(file),
  );
}

// A player that can't play becomes a card: the file is still one that somebody else's program may know.
function playable(player, file, className) {
  const figure = element("figure", { class: className }, player, caption(file));
  player.addEventListener("error", () => figure.replaceWith(card(file)), { once: true });
  return figure;
}

function video(file) {
  const fit = fitted(file, HIGHEST);
  const player = element("video", {
    src: fileUrl(file), controls: true, preload: "metadata", playsinline: true, "aria-label": file.filename,
    width: fit?.width ?? WIDEST, height: fit?.height ?? Math.round((WIDEST * 9) / 16),
  });
  return playable(player, file, "figure");
}

function audio(file) {
  const player = element("audio", { src: fileUrl(file), controls: true, preload: "metadata", "aria-label": file.filename });
  return playable(player, file, "figure figure-audio");
}

// What is left of a file that was removed for good.
function tombstone(file) {
  return element(
    "div",
    { class: "card card-refused" },
    element("span", { class: "card-icon" }, icon("refused")),
    element("div", { class: "card-words" }, element("p", { class: "card-name" }, "Removed file"), element("p", { class: "card-facts" }, `#${file.number}`)),
  );
}

function card(file) {
  if (file.forgotten) return tombstone(file);
  return element(
    "div",
    { class: "card" },
    element("span", { class: "card-icon" }, icon(typeIcon(file.mime))),
    element(
      "div",
      { class: "card-words" },
      element("p", { class: "card-name", title: file.filename }, file.filename),
      element("p", { class: "card-facts" }, facts(file)),
      file.description ? element("p", { class: "card-description" }, file.description) : null,
    ),
    download(file),
  );
}

// A file of a message that is still being taken in.
export function waitingCard({ filename, bytes }) {
  return element(
    "div",
    { class: "card" },
    element("span", { class: "card-icon" }, icon("clock")),
    element("div", { class: "card-words" }, element("p", { class: "card-name", title: filename }, filename), element("p", { class: "card-facts" }, [size(bytes), "being stored"].filter(Boolean).join(" · "))),
  );
}

// A file that was not taken, and why.
export function refusedCard({ filename, bytes, reason }) {
  return element(
    "div",
    { class: "card card-refused" },
    element("span", { class: "card-icon" }, icon("refused")),
    element(
      "div",
      { class: "card-words" },
      element("p", { class: "card-name", title: filename }, filename),
      element("p", { class: "card-facts" }, [size(bytes), `not taken: ${reason || "no reason was given"}`].filter(Boolean).join(" · ")),
    ),
  );
}
