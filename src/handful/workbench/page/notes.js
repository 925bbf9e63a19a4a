// Error messages, and short notes about what has just happened.

import { byId, make } from "./dom.js";

// `again` repeats what failed, so that a change that did not reach the server is not lost.
export function complain(error, again = null) {
  const box = byId("error");
  const text = make("p", { dir: "auto" }, error.message);
  const buttons = make("div", {},
    again && make("button", { onclick: () => { calm(); again(); } }, "Try again"),
    make("button", { "aria-label": "Close this message", onclick: calm }, "Close"));
  box.replaceChildren(text, buttons);
  box.hidden = false;
  delete box.dataset.lost;
}

export function calm() {
  byId("error").hidden = true;
  byId("error").replaceChildren();
}

export function lostTouch() {
  if (!byId("error").hidden) return;
  complain(new Error("The workbench does not answer. Is it still running in its terminal? Saved work is not lost; this page continues by itself when the workbench runs again."));
  byId("error").dataset.lost = "1";
}

export function foundTouch() {
  if (byId("error").dataset.lost) calm();
}

let fading = 0;

// A note about what has just happened; it disappears by itself.
export function say(text) {
  byId("toast").textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => { byId("toast").textContent = ""; }, 5000);
}
