// The bar for selected pictures: what can be done with them, by mouse or finger.

import { accept, label, similar } from "./actions.js";
import { byId, count, key, make } from "./dom.js";
import { on, select, state } from "./state.js";
import { openDetail } from "./detail.js";

const bar = byId("picked");
const many = make("b", { role: "status" });
const choose = make("select", { id: "give", "data-noun": true, "aria-label": "Give the selected pictures a class" });
const tools = {
  accept: make("button", { onclick: () => accept(), title: "The decision is right: make it your label (Enter)" }, "Accept ", key("⏎")),
  unknown: make("button", { onclick: () => label(0), title: "None of the classes: an example of no class (u)" }, "None of these ", key("u")),
  clear: make("button", { onclick: () => label(null), title: "Remove your label (0)" }, "Clear ", key("0")),
  similar: make("button", { onclick: () => similar(), "data-noun": true, title: "Show similar pictures (s)" }, "Similar ", key("s")),
  details: make("button", { onclick: () => openDetail(), title: "Show the details (d)" }, "Details ", key("d")),
  none: make("button", { onclick: () => select([]), "aria-label": "Deselect", title: "Deselect (escape)" }, "✕"),
};

function draw() {
  const n = state.selected.size;
  bar.hidden = !n;
  document.body.classList.toggle("picking", n > 0);
  if (!n) return;
  many.textContent = `${count(n)} selected`;
  tools.accept.hidden = !state.project?.run;
  tools.similar.hidden = n !== 1;
  tools.details.hidden = n !== 1 || state.details;
}

function drawClasses() {
  const classes = state.project?.classes ?? [];
  choose.replaceChildren(make("option", { value: "" }, "Give a class…"),
    ...classes.map((one) => make("option", { value: one.id }, one.key ? `${one.key}  ${one.name}` : one.name)));
}

export function startPicked() {
  choose.addEventListener("change", () => {
    const id = Number(choose.value);
    choose.value = "";
    if (id) label(id);
  });
  bar.replaceChildren(many, choose, ...Object.values(tools));
  on("selection project layout", draw);
  on("content", drawClasses);
}
