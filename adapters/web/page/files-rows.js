// Makes the rows of the panel of files, and moves among them by key.

import { downloadUrl, firstSource, fullSource, isPicture } from "./attachments.js";
import { element, icon, iconButton } from "./dom.js";
import { clock, day, duration, size, typeIcon, typeWord } from "./format.js";

// `actions`: open(picture), forget(file).
export function fileRow(file, actions) {
  const { filename, number } = file;
  const facts = [typeWord(file.mime), size(file.bytes), duration(file.duration_ms), `#${number}`].filter(Boolean).join(" · ");
  const sender = file.sender === "person" ? "You" : "Satchel";
  const label = `Download ${filename}`;
  return element(
    "li",
    { class: "files-row" },
    isPicture(file) ? thumbnail(file, () => actions.open(file)) : element("span", { class: "files-thumbnail" }, icon(typeIcon(file.mime))),
    element(
      "div",
      { class: "files-words" },
      element("p", { class: "files-name", title: filename }, filename),
      element("p", { class: "files-facts" }, facts),
      element("p", { class: "files-facts" }, `${sender} · `, element("time", { datetime: new Date(file.at).toISOString() }, `${day(file.at)}, ${clock(file.at)}`)),
    ),
    element("a", { class: "plain-button", href: downloadUrl(file), download: filename, "aria-label": label, title: label }, icon("download")),
    forgetButton(file, actions),
  );
}

function forgetButton(file, actions) {
  const button = iconButton(`Forget ${file.filename}`, "trash", () => actions.forget(file));
  button.dataset.forget = "";
  return button;
}

// A picture that can't be shown is a file with an icon.
function thumbnail(file, open) {
  const image = element("img", { src: firstSource(file), alt: "", loading: "lazy", decoding: "async" });
  const button = element("button", { type: "button", class: "files-thumbnail files-picture", "aria-label": `Open ${file.filename}`, on: { click: open } }, image);
  image.addEventListener("error", () => {
    const whole = fullSource(file);
    if (image.getAttribute("src") !== whole) image.src = whole;
    else button.replaceWith(element("span", { class: "files-thumbnail" }, icon(typeIcon(file.mime))));
  });
  return button;
}

const STEPS = { ArrowDown: (at) => at + 1, ArrowUp: (at) => at - 1, Home: () => 0, End: (at, rows) => rows.length - 1 };

// Up and down go to the same control of the row below or above; left and right to the one beside it.
export function moveInRows(event) {
  const controls = (row) => [...row.querySelectorAll("button, a")];
  const list = event.currentTarget;
  const row = event.target.closest("li");
  const step = STEPS[event.key];
  const own = controls(row).indexOf(event.target);
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    controls(row)[own + (event.key === "ArrowLeft" ? -1 : 1)]?.focus();
  } else if (step) {
    const rows = [...list.children];
    const next = rows[step(rows.indexOf(row), rows)];
    // Counted from the end: only the first control of a row may be missing.
    if (next) (controls(next).at(own - controls(row).length) ?? controls(next)[0]).focus();
  } else {
    return;
  }
  event.preventDefault();
}
