// Builds nodes from the server's HTML through an allow-list. The server's HTML is clean already; this is the second lock.

const HTML = "http://www.w3.org/1999/xhtml";
const DEEPEST = 120;

// What an element becomes. Headings stay below those of the page itself.
const ALLOWED = {
  a: "a", b: "strong", blockquote: "blockquote", br: "br", code: "code", dd: "dd", del: "del", dl: "dl", dt: "dt",
  em: "em", h1: "h3", h2: "h4", h3: "h3", h4: "h4", h5: "h5", h6: "h6", hr: "hr", i: "em", kbd: "kbd",
  li: "li", ol: "ol", p: "p", pre: "pre", s: "del", span: "span", strong: "strong", sub: "sub", sup: "sup", table: "table",
  tbody: "tbody", td: "td", th: "th", thead: "thead", tr: "tr", ul: "ul",
};

// What goes with all that is in it. Everything else that is not allowed gives way to its children.
const DROPPED = new Set([
  "audio", "base", "button", "canvas", "embed", "form", "frame", "frameset", "head", "iframe", "img", "link", "math",
  "meta", "noembed", "noframes", "noscript", "object", "option", "picture", "portal", "script", "select", "source",
  "style", "svg", "template", "textarea", "title", "track", "video", "xmp",
]);

export function sanitised(html) {
  // A document made by DOMParser is inert: no script runs, nothing is loaded.
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const fragment = document.createDocumentFragment();
  copyChildren(parsed.body, fragment, 0);
  return fragment;
}

function copyChildren(from, to, depth) {
  for (const child of from.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) to.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE) copyElement(child, to, depth);
  }
}

function copyElement(from, to, depth) {
  if (from.namespaceURI !== HTML || DROPPED.has(from.localName)) return;
  if (depth > DEEPEST) {
    to.append(from.textContent);
    return;
  }
  const name = Object.hasOwn(ALLOWED, from.localName) ? ALLOWED[from.localName] : null;
  if (name === null) {
    copyChildren(from, to, depth + 1);
    return;
  }
  const copy = document.createElement(name);
  copyAttributes(from, copy, name);
  copyChildren(from, copy, depth + 1);
  to.append(copy);
}

function copyAttributes(from, copy, name) {
  if (name === "a") {
    const href = safeLink(from.getAttribute("href"));
    if (href) {
      copy.setAttribute("href", href);
      copy.setAttribute("target", "_blank");
      copy.setAttribute("rel", "noopener noreferrer");
    }
    if (from.title) copy.title = from.title;
  } else if (name === "code") {
    const language = (from.getAttribute("class") ?? "").match(/^language-[\w+#.-]{1,40}$/);
    if (language) copy.className = language[0];
  } else if (name === "ol") {
    const start = Number.parseInt(from.getAttribute("start") ?? "", 10);
    if (Number.isSafeInteger(start)) copy.start = start;
  } else if (name === "td" || name === "th") {
    takeClass(from, copy, ["center", "right"]);
    if (name === "th") copy.scope = "col";
  } else if (name === "p") {
    takeClass(from, copy, ["plain"]);
  } else if (name === "span" && takeClass(from, copy, ["task"])) {
    copy.setAttribute("role", "img");
    copy.setAttribute("aria-label", from.getAttribute("aria-label") === "done" ? "done" : "to do");
  }
}

// Takes a class over when it is one of those that the style knows.
function takeClass(from, copy, known) {
  const name = from.getAttribute("class") ?? "";
  if (!known.includes(name)) return false;
  copy.className = name;
  return true;
}

// Absolute links of the three harmless kinds. Relative ones would point into the page itself.
function safeLink(href) {
  try {
    const url = new URL(href ?? "");
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
