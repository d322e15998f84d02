// Puts the remembered theme on the page before anything is painted, so that it never flashes in the other one.
(() => {
  try {
    const theme = localStorage.getItem("satchel.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage can be switched off; the system's theme is then the only one.
  }
})();
