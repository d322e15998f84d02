// Leads from a number in a text to its footnote and back.

import { element } from "./dom.js";

// Makes buttons of the numbers of footnotes, and adds to each footnote one that leads back.
export function linkFootnotes(fragment) {
  for (const reference of fragment.querySelectorAll("sup.footnote-ref")) {
    const number = reference.textContent;
    // Within a link its number is part of the link.
    if (reference.closest("a")) continue;
    const show = () => goTo(noteOf(reference, number));
    reference.replaceChildren(element("button", { type: "button", "data-footnote": number, "aria-label": `Footnote ${number}`, on: { click: show } }, number));
  }
  for (const list of fragment.querySelectorAll("ol.footnotes")) {
    list.setAttribute("aria-label", "Footnotes");
    [...list.children].forEach((note, at) => {
      const back = () => goTo(note.closest(".prose")?.querySelector(`[data-footnote="${at + 1}"]`));
      const button = element("button", { type: "button", class: "footnote-back", "aria-label": "Back to the text", title: "Back to the text", on: { click: back } }, "↩");
      (note.querySelector(":scope > p:last-child") ?? note).append(" ", button);
    });
  }
}

function noteOf(reference, number) {
  return reference.closest(".prose")?.querySelector(`ol.footnotes > li:nth-child(${Number(number)})`);
}

function goTo(place) {
  if (!place) return;
  if (place.localName === "li") place.tabIndex = -1;
  place.focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
}
