// One file on its way as a person sees it: picture or icon, name, progress, and what can be done about it.

import { element, icon, iconButton, tell } from "./dom.js";
import { size, typeIcon } from "./format.js";
import { isLost, isUnderWay, retry } from "./uploads.js";

// A row that follows its upload. `onRemove` is missing where it can't be taken back.
export function uploadRow(upload, onRemove) {
  const picture = upload.preview
    ? element("img", { class: "upload-picture", src: upload.preview, alt: "" })
    : element("span", { class: "upload-picture" });
  const bar = element("progress", { class: "upload-bar", max: Math.max(upload.bytes ?? 1, 1), "aria-label": `Upload of ${upload.name}` });
  const state = element("p", { class: "upload-state" });
  const again = iconButton(`Try ${upload.name} again`, "retry", () => retry(upload));
  const remove = onRemove ? iconButton(`Remove ${upload.name}`, "close", () => onRemove(upload)) : null;
  const row = element(
    "li",
    { class: "upload" },
    picture,
    element("div", { class: "upload-words" }, element("p", { class: "upload-name", title: upload.name }, upload.name), bar, state),
    again,
    remove,
  );

  function show() {
    if (!upload.preview && picture.dataset.lost !== String(isLost(upload))) {
      picture.dataset.lost = String(isLost(upload));
      picture.replaceChildren(icon(isLost(upload) ? "refused" : typeIcon(upload.result?.mime ?? upload.mime)));
    }
    row.classList.toggle("upload-lost", isLost(upload));
    row.classList.toggle("upload-done", upload.state === "done");
    bar.hidden = !isUnderWay(upload);
    bar.value = upload.loaded;
    again.hidden = !(upload.state === "failed" && upload.file);
    if (remove) {
      const label = `${isUnderWay(upload) ? "Cancel" : "Remove"} ${upload.name}`;
      remove.setAttribute("aria-label", label);
      remove.title = label;
    }
    tell(state, words(upload));
  }
  show();
  const stop = upload.subscribe(show);
  return { row, stop };
}

function words(upload) {
  switch (upload.state) {
    case "queued":
      return `${size(upload.bytes)} · waiting to upload`;
    case "sending": {
      const speed = upload.speed > 0 ? ` · ${size(upload.speed)}/s` : "";
      // All bytes are out, but the server is still making sure that they will stay.
      if (upload.loaded >= upload.bytes && upload.bytes > 0) return `${size(upload.bytes)} · storing`;
      return `${size(upload.loaded)} of ${size(upload.bytes)}${speed}`;
    }
    case "pausing":
      return `${upload.reason} Trying again.`;
    case "done":
      return size(upload.bytes);
    default:
      return upload.reason;
  }
}
