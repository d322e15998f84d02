// Shows one picture as large as the window, and steps through all of the conversation's.

import { downloadUrl, fullSource } from "./attachments.js";
import { byId, icon } from "./dom.js";

// `pictures` yields the files that one can step through, in their order, unless others are named when one is opened.
export function createLightbox(pictures) {
  const dialog = byId("lightbox");
  const image = byId("lightbox-image");
  const before = byId("lightbox-before");
  const after = byId("lightbox-after");
  const download = byId("lightbox-download");
  const close = byId("lightbox-close");
  let shown = null;
  let among = pictures;

  before.append(icon("back"));
  after.append(icon("forward"));
  download.append(icon("download"));
  close.append(icon("close"));

  function show(file) {
    shown = file;
    image.src = fullSource(file);
    image.alt = file.description || file.filename;
    byId("lightbox-name").textContent = file.filename;
    download.href = downloadUrl(file);
    download.download = file.filename;
    before.hidden = !neighbour(-1);
    after.hidden = !neighbour(1);
  }

  function neighbour(step) {
    const all = among();
    const at = all.findIndex((file) => file.id === shown?.id);
    return at < 0 ? undefined : all[at + step];
  }

  function step(by) {
    const next = neighbour(by);
    if (next) show(next);
  }

  before.addEventListener("click", () => step(-1));
  after.addEventListener("click", () => step(1));
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target === image) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("close", () => image.removeAttribute("src"));

  return (file, others = pictures) => {
    among = others;
    show(file);
    dialog.showModal();
    close.focus();
  };
}
