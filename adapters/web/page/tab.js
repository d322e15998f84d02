// The title of the tab: what is open, and a mark while there is something that nobody has seen yet.

let title = "Satchel";
let marked = false;

export function setTitle(words) {
  title = words;
  show();
}

export function markTitle(mark) {
  marked = mark;
  show();
}

function show() {
  document.title = marked ? `● ${title}` : title;
}
