// Tells people who look at another tab that a long answer is ready: in the title of the tab, and by a notification where
// they allowed it.

import { byId, icon } from "./dom.js";
import { markTitle } from "./tab.js";

// Whoever waits longer than this has probably gone elsewhere.
const LONG_MS = 10_000;
const CHOICE = "satchel.notifications";
const MOST_WORDS = 140;

export function createNotifier() {
  const button = byId("notifications");
  const supported = "Notification" in window && isSecureContext;
  let began = 0;

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) markTitle(false);
  });
  button.hidden = !supported;
  button.addEventListener("click", choose);

  const wanted = () => read() === "on" && Notification.permission === "granted";
  show();

  // Browsers show their question only to those who have pressed something.
  async function choose() {
    if (wanted()) {
      write("off");
    } else {
      const permission = await Notification.requestPermission();
      write(permission === "granted" ? "on" : "off");
    }
    show();
  }

  function show() {
    if (!supported) return;
    const denied = Notification.permission === "denied";
    const label = denied ? "Notifications: blocked by the browser" : `Notifications: ${wanted() ? "on" : "off"}`;
    button.setAttribute("aria-label", label);
    button.title = denied ? `${label}. Allow them in its settings for this page.` : `${label}. They tell when a long answer is ready while another tab is open.`;
    button.replaceChildren(icon(wanted() ? "bell" : "bellOff"));
  }

  return {
    // Whether a turn runs. That it ended is told by `answered`, which comes after it.
    runs(running) {
      if (running && !began) began = Date.now();
    },
    answered(words) {
      const took = began ? Date.now() - began : 0;
      began = 0;
      if (!document.hidden || took < LONG_MS) return;
      markTitle(true);
      if (!supported || !wanted()) return;
      // Whoever has the page in several tabs is told once: the tag replaces the notification of the other tab.
      const short = words.length > MOST_WORDS ? `${words.slice(0, MOST_WORDS)} …` : words;
      try {
        const note = new Notification("Satchel has answered", { body: short, tag: location.hash, icon: "/page/icon.svg" });
        note.addEventListener("click", () => {
          window.focus();
          note.close();
        });
      } catch {
        // Some browsers of telephones show none from a page; the title tells it.
      }
    },
    // Another conversation was opened: what runs there began at a time that is not known.
    forget() {
      began = 0;
    },
  };
}

function read() {
  try {
    return localStorage.getItem(CHOICE);
  } catch {
    return null;
  }
}

function write(choice) {
  try {
    localStorage.setItem(CHOICE, choice);
  } catch {
    // Without storage the choice holds until a reload forgets it.
  }
}
