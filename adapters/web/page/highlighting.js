// Colours code by its language. The library (highlight.js 11.12.0, see `vendor`) is loaded with the first code that is shown.

// Longer code stays in one colour: it would hold up the page.
const MAX_CHARS = 50_000;
const TOKEN = /^hljs-[a-z_]+( [a-z_]+)*$/;

let library = null;
let loading = null;

// Colours the words of a `code` element, at once if the library is there, otherwise as soon as it is.
export function highlight(code, language) {
  if (!language) return;
  if (library) {
    colour(code, language);
    return;
  }
  loading ??= import("./vendor/highlight.js").then((module) => (library = module.default));
  // Without colours it is still code.
  loading.then(() => colour(code, language)).catch(() => (loading = null));
}

function colour(code, language) {
  const text = code.textContent;
  if (text.length > MAX_CHARS || !library.getLanguage(language)) return;
  const { value } = library.highlight(text, { language, ignoreIllegals: true });
  // In a `pre` the parser keeps all space but the first line break. The document is inert: nothing in it runs or loads.
  const parsed = new DOMParser().parseFromString(`<pre>\n${value}</pre>`, "text/html");
  const coloured = document.createDocumentFragment();
  copyTokens(parsed.body.firstChild, coloured);
  // Never at the price of a character.
  if (coloured.textContent === text) code.replaceChildren(coloured);
}

// Copies texts, and elements as spans with nothing but the class of a token.
function copyTokens(from, to) {
  for (const child of from.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) {
      to.append(child.data);
      continue;
    }
    const token = document.createElement("span");
    const kind = child.getAttribute?.("class") ?? "";
    if (TOKEN.test(kind)) token.className = kind;
    copyTokens(child, token);
    to.append(token);
  }
}
