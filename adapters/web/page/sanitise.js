// Builds nodes from the server's HTML through an allow-list. The server's HTML is clean already; this is the second lock.

const HTML = "http://www.w3.org/1999/xhtml";
const MATHML = "http://www.w3.org/1998/Math/MathML";
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
  "audio", "base", "button", "canvas", "embed", "form", "frame", "frameset", "head", "iframe", "img", "link",
  "meta", "noembed", "noframes", "noscript", "object", "option", "picture", "portal", "script", "select", "source",
  "style", "svg", "template", "textarea", "title", "track", "video", "xmp",
]);

// What a formula may be made of, and the attributes of its elements. None of them leads anywhere or holds HTML.
const FORMULA = new Set([
  "math", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded", "mphantom", "mprescripts", "mroot", "mrow", "ms",
  "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder", "munderover", "none",
]);
const FORMULA_ATTRIBUTES = [
  "accent", "accentunder", "columnspan", "depth", "display", "displaystyle", "fence", "form", "height", "largeop",
  "linethickness", "lspace", "mathvariant", "maxsize", "minsize", "movablelimits", "rowspan", "rspace", "scriptlevel",
  "separator", "stretchy", "symmetric", "voffset", "width",
];
const FORMULA_VALUE = /^[a-z0-9.%+-]{1,24}$/i;
const FORMULA_CLASS = /^(menv|cell)-[a-z-]+$/;

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
  if (from.namespaceURI === MATHML) {
    copyFormula(from, to, depth);
    return;
  }
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

// Copies an element of a formula. HTML within formulas, where parsers disagree about what is what, is left out.
function copyFormula(from, to, depth) {
  if (!FORMULA.has(from.localName)) return;
  if (depth > DEEPEST) {
    to.append(from.textContent);
    return;
  }
  const copy = document.createElementNS(MATHML, from.localName);
  for (const name of FORMULA_ATTRIBUTES) {
    const value = from.getAttribute(name) ?? "";
    if (FORMULA_VALUE.test(value)) copy.setAttribute(name, value);
  }
  const classes = (from.getAttribute("class") ?? "").split(" ").filter((one) => FORMULA_CLASS.test(one));
  if (classes.length) copy.setAttribute("class", classes.join(" "));
  for (const child of from.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) copy.append(child.data);
    else if (child.namespaceURI === MATHML) copyFormula(child, copy, depth + 1);
  }
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
    takeClass(from, copy, ["footnotes"]);
  } else if (name === "sup") {
    takeClass(from, copy, ["footnote-ref"]);
  } else if (name === "td" || name === "th") {
    takeClass(from, copy, ["center", "right"]);
    if (name === "th") copy.scope = "col";
  } else if (name === "p") {
    takeClass(from, copy, ["plain"]);
  } else if (name === "span" && takeClass(from, copy, ["spoiler", "task"]) && copy.className === "task") {
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
