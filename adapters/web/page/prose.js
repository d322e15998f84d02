// Shows rendered Markdown: copy buttons on code, tables that scroll by themselves, blocks that are patched in place.

import { byId, element, icon } from "./dom.js";
import { linkFootnotes } from "./footnotes.js";
import { highlight } from "./highlighting.js";
import { sanitised } from "./sanitise.js";
import { hideSpoilers } from "./spoilers.js";

const COPIED_MS = 1600;

const coloured = new WeakSet();

// An element with a whole text.
export function prose(html) {
  const body = element("div", { class: "prose" });
  body.append(dressed(html));
  colourCode(body);
  return body;
}

// An element whose blocks can be replaced one by one while a text grows.
export function growingProse() {
  const body = element("div", { class: "prose" });
  let blocks = [];
  return {
    body,
    // Replaces the blocks from one on; blocks that stay the same are left alone, with what is selected in them.
    patch(from, html) {
      const kept = blocks.slice(0, from);
      html.forEach((text, at) => {
        const before = blocks[from + at];
        if (before && before.html === text) {
          kept.push(before);
          return;
        }
        const fragment = dressed(text);
        // A block of nothing keeps its place with an empty text.
        if (!fragment.hasChildNodes()) fragment.append("");
        const nodes = [...fragment.childNodes];
        const next = before?.nodes[0] ?? null;
        body.insertBefore(fragment, next);
        before?.nodes.forEach((node) => node.remove());
        kept.push({ html: text, nodes });
      });
      blocks.slice(from + html.length).forEach((block) => block.nodes.forEach((node) => node.remove()));
      blocks = kept;
      // The last block may still grow, and would be coloured with each piece of it.
      blocks.slice(0, -1).forEach((block) => block.nodes.forEach(colourCode));
    },
    get blocks() {
      return blocks.length;
    },
  };
}

// Colours the code in a node, each piece of it once.
export function colourCode(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  for (const code of node.querySelectorAll("pre code")) {
    if (coloured.has(code)) continue;
    coloured.add(code);
    highlight(code, languageOf(code));
  }
}

function languageOf(code) {
  return (code?.className ?? "").replace("language-", "");
}

function dressed(html) {
  const fragment = sanitised(html);
  // Line breaks between blocks mean nothing, but would make a whole text differ from one that grew block by block.
  for (const child of [...fragment.childNodes]) if (child.nodeType === Node.TEXT_NODE && !child.data.trim()) child.remove();
  for (const pre of fragment.querySelectorAll("pre")) {
    const language = languageOf(pre.querySelector("code"));
    const place = document.createComment("");
    pre.replaceWith(place);
    place.replaceWith(framed(pre, language));
  }
  for (const table of fragment.querySelectorAll("table")) {
    const frame = element("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Table" });
    table.replaceWith(frame);
    frame.append(table);
  }
  linkFootnotes(fragment);
  hideSpoilers(fragment);
  return fragment;
}

// Code with its language above it and a button that copies it.
export function codeBlock(code, language) {
  const words = element("code", {}, code);
  highlight(words, language);
  return framed(element("pre", {}, words), language);
}

function framed(pre, language) {
  const words = element("span", {}, "Copy");
  const button = element("button", { type: "button", class: "copy-button", "aria-label": "Copy code" }, icon("copy"), words);
  let resetTimer = 0;
  const show = (text, label, iconName) => {
    words.textContent = text;
    button.setAttribute("aria-label", label);
    button.replaceChild(icon(iconName), button.firstChild);
  };
  button.addEventListener("click", async () => {
    const copied = await copyText(pre.textContent);
    show(copied ? "Copied" : "Can't copy", copied ? "Copied" : "Can't copy", copied ? "check" : "warning");
    sayCopied(copied);
    clearTimeout(resetTimer);
    resetTimer = setTimeout(() => show("Copy", "Copy code", "copy"), COPIED_MS);
  });
  return element("div", { class: "code" }, element("div", { class: "code-bar" }, element("span", {}, language || "text"), button), pre);
}

// Tells those who listen instead of looking.
export function sayCopied(copied) {
  byId("announcer").textContent = copied ? "Copied to the clipboard." : "It could not be copied.";
}

// The clipboard of the browser exists on safe addresses only; the old way works on the others.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element("textarea", { class: "sr-only", readonly: true, "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    const focused = document.activeElement;
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return copied;
  }
}
