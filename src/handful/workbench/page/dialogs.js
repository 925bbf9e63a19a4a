// A dialog: a sheet with a title and a button to close it.

import { byId, make } from "./dom.js";

const sheet = byId("dialog");

export function openSheet(title, ...parts) {
  sheet.replaceChildren(
    make("div", { class: "title" }, make("h2", { id: "dialog-title" }, title),
      make("button", { "aria-label": "Close", onclick: () => sheet.close() }, "✕")),
    ...parts);
  if (!sheet.open) sheet.showModal();
}
