// The bar of classes. Each class is a button that labels the selected pictures, a place to drop pictures on, and a link
// to its view.

import { addClass, label } from "./actions.js";
import { byId, count, isolate, key, make, paintTone } from "./dom.js";
import { on, show, state } from "./state.js";
import { itemCount, worded } from "./words.js";

const bar = byId("classes");
const chips = make("ul", { role: "list", class: "chips" });
const field = make("input", {
  id: "new-class", placeholder: "Name a class", "aria-label": "Name a new class", maxlength: 200, autocomplete: "off",
  spellcheck: "false", dir: "auto",
});
const form = make("form", { class: "new" }, field, make("button", { type: "submit" }, "Add"));
let drawn = "";

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = field.value.trim();
  if (!name) return;
  field.value = "";
  if ((await addClass(name)) === null && !field.value) field.value = name; // refused: the user can correct the name
});
field.addEventListener("keydown", (event) => event.key === "Escape" && field.blur());

// If pictures are selected, they get this class; if not, the view of the class opens.
function use(id) {
  if (state.selected.size) label(id);
  else show({ view: id === 0 ? "unknown" : `class:${id}`, search: "" });
}

function chip({ id, name, key: digit, examples, count: total }) {
  const run = state.project.run;
  const view = id === 0 ? "unknown" : `class:${id}`;
  const many = run ? total : examples;
  const main = make("button", { class: "name", onclick: () => use(id), title: id ? `${worded("Give the selected pictures the label")} ${name}` : worded("The selected pictures are none of these: examples of no class") },
    key(id === 0 ? "u" : (digit ?? "·")), isolate(name));
  main.setAttribute("aria-keyshortcuts", id === 0 ? "u" : (digit ?? ""));
  const seen = make("button", { class: "total", onclick: () => show({ view, search: "" }),
    "aria-label": `Show ${itemCount(many)}: ${name}`, title: id ? `${itemCount(examples)} labelled by you` : noneInWords(examples, run && total) },
    examples ? `★${count(examples)}` : "", run ? `${examples ? " · " : ""}${count(total)}` : id && !examples ? "no examples" : "");
  const node = make("li", { class: "chip", "data-class": id }, main, run || id || examples ? seen : null);
  node.classList.toggle("current", state.view === view);
  node.classList.toggle("no-examples", id > 0 && !examples);
  for (const event of ["dragenter", "dragover"]) {
    node.addEventListener(event, (moved) => {
      if (!moved.dataTransfer.types.includes("text/x-handful")) return;
      moved.preventDefault();
      moved.dataTransfer.dropEffect = "copy";
      node.classList.add("over");
    });
  }
  node.addEventListener("dragleave", (moved) => node.contains(moved.relatedTarget) || node.classList.remove("over"));
  node.addEventListener("drop", (moved) => {
    moved.preventDefault();
    document.body.classList.remove("dragging");
    node.classList.remove("over");
    label(id);
  });
  return paintTone(node, id);
}

// What the last chip says: pictures that a person marked, and those that the run decided.
function noneInWords(examples, total) {
  const marked = `none of these: ${count(examples)} example${examples === 1 ? "" : "s"}`;
  return total === null ? marked : `${marked}; ${count(total)} unknown by the run`;
}

function draw() {
  const { classes, run, unknown_examples: marked } = state.project;
  const all = [...classes];
  if (classes.length) all.push({ id: 0, name: "none of these", examples: marked, count: run?.counts.unknown ?? 0 });
  const now = JSON.stringify([all, Boolean(run), state.view]);
  if (now === drawn) return; // no change: a focused button stays as it is
  drawn = now;
  const held = chips.contains(document.activeElement) ? document.activeElement : null;
  const [place, part] = held ? [held.closest("li").dataset.class, held.className] : [];
  chips.replaceChildren(...all.map(chip));
  if (held) [...chips.children].find((node) => node.dataset.class === place)?.querySelector(`.${part}`)?.focus();
}

export function startClasses() {
  bar.replaceChildren(chips, form);
  on("project view", () => state.project && draw());
}
