// Shows what a person wrote: as it was typed, and fenced blocks as code.

import { element } from "./dom.js";
import { codeBlock } from "./prose.js";

const FENCE = /^( {0,3})(`{3,}|~{3,})(.*)$/;
const LANGUAGE = /^[\w+#.-]{1,40}$/;

export function bubble(text) {
  const pieces = piecesOf(text);
  const onlyCode = pieces.length === 1 && pieces[0].code !== undefined;
  const kind = onlyCode ? "bubble bubble-code" : text.startsWith("/") ? "bubble bubble-command" : "bubble";
  return element("div", { class: kind }, ...pieces.map(({ words, code, language }) => words ?? codeBlock(code, language)));
}

// Splits a text into words and the code between fences. A fence that nothing closes is words, like all other Markdown.
function piecesOf(text) {
  const lines = text.split(/\r?\n/);
  const closing = closingsOf(lines);
  const pieces = [];
  let begun = 0;
  const endWords = (end) => {
    // Blank lines beside a block would only widen the gap that is there already.
    const words = lines.slice(begun, end);
    const first = words.findIndex((line) => line.trim());
    if (first >= 0) pieces.push({ words: words.slice(first, words.findLastIndex((line) => line.trim()) + 1).join("\n") });
  };
  for (let at = 0; at < lines.length; at += 1) {
    const opening = openingOf(lines[at]);
    const end = opening ? closing(at + 1, opening.fence) : -1;
    if (end < 0) continue;
    endWords(at);
    const code = lines.slice(at + 1, end).map((line) => `${withoutIndent(line, opening.indent)}\n`);
    pieces.push({ code: code.join(""), language: opening.language });
    at = end;
    begun = end + 1;
  }
  if (pieces.length === 0) return [{ words: text }];
  endWords(lines.length);
  return pieces;
}

function openingOf(line) {
  const [, indent, fence, info] = line.match(FENCE) ?? [];
  // Between backticks on one line stands a word of code, not the beginning of a block.
  if (!fence || (fence[0] === "`" && info.includes("`"))) return null;
  const language = info.trim().split(/\s/, 1)[0];
  return { indent: indent.length, fence, language: LANGUAGE.test(language) ? language : "" };
}

// Finds the line that closes a fence, from a line on: only signs of its kind, at least as many.
function closingsOf(lines) {
  // What was looked for in vain isn't there further down either; without this, many open fences would take for ever.
  const missing = { "`": Infinity, "~": Infinity };
  return (from, fence) => {
    if (fence.length >= missing[fence[0]]) return -1;
    for (let at = from; at < lines.length; at += 1) {
      const signs = lines[at].trim();
      if (signs.length >= fence.length && signs === fence[0].repeat(signs.length)) return at;
    }
    missing[fence[0]] = fence.length;
    return -1;
  };
}

function withoutIndent(line, most) {
  const indent = line.length - line.trimStart().length;
  return line.slice(Math.min(indent, most));
}
