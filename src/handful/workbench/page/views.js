// The list of views, the heading of the open view, and the text of an empty view.

import { editClass, removeClass } from "./actions.js";
import { read } from "./api.js";
import { byId, count, isolate, key, make, paintTone, partOf } from "./dom.js";
import { fetchItems, itemOf } from "./items.js";
import { classOf, className, inGrid, on, show, state } from "./state.js";
import { shortName } from "./face.js";
import { redraw, toTop } from "./grid.js";
import { isOfTexts, itemCount, worded } from "./words.js";

const VIEWS = [
  ["all", "All", (p) => p.items],
  ["unlabelled", "Not labelled by you"],
  ["examples", "Labelled by you"],
  ["unsure", "Least sure first", null, true],
  ["ask", "Worth asking", null, true],
  ["changed", "Changed", (p) => p.run?.counts.changed, true],
  ["unknown", "Unknown", (p) => p.run?.counts.unknown, true],
  ["groups", "Groups of unknowns", null, true],
  ["map", "Map", null, true],
  ["compare", "Compare runs", null, true],
];
export const viewNames = VIEWS.map(([view]) => view);

const nav = byId("views");
const lead = byId("lead");
const empty = byId("empty");

function drawNav() {
  const { project } = state;
  const held = nav.contains(document.activeElement) ? document.activeElement.dataset.view : null;
  const all = VIEWS.map(([view, name, total, late]) => {
    const size = total?.(project);
    const current = state.view === view && state.similar === null;
    return make("button", { "data-view": view, "aria-current": current ? "page" : null, class: late && !project.run ? "late" : null,
      onclick: () => show({ view, search: "" }) }, name, size === undefined || size === null ? null : make("b", {}, count(size)));
  });
  nav.replaceChildren(...all);
  if (held) nav.querySelector(`[data-view="${held}"]`)?.focus();
}

// ---- Heading -------------------------------------------------------------------------------------------------------

// How many labels of a class should be right, or are right by the check: as it is said of all classes.
function rightOf({ expected, trust }, id) {
  const measured = trust.is_measured && trust.classes.find((one) => one.class === id);
  if (measured) return `${partOf(measured)} of the labels are right by the check`;
  const { labels, right } = expected.find((one) => one.class === id) ?? { labels: 0 };
  if (!labels) return "";
  if (labels === 1) return `the label of the last run is right with a probability of ${Math.round(100 * right)} %`;
  const few = Math.round(right) === labels ? "nearly all" : `about ${count(Math.round(right))}`;
  return `${few} of ${count(labels)} labels of the last run should be right`;
}

// The telling words of a group of texts, which are its name.
async function groupWords(number) {
  const groups = await read("/groups").catch(() => []);
  const name = groups.find((one) => one.number === number)?.name ?? "";
  return name === `group ${number}` ? "" : name;
}

async function drawLead() {
  const { view, search, similar, project } = state;
  const [kind, number] = view.split(":");
  const title = make("h2");
  const extra = [];
  if (similar !== null) {
    title.append("Similar to ", isolate(shortName(itemOf(similar)) ?? `${worded("picture")} ${similar}`));
    extra.push(make("button", { onclick: () => show({ view: "all", search: "" }) }, "Show all"));
    if (!itemOf(similar)) fetchItems([similar]).then(([item]) => item && state.similar === similar && drawLead(), () => {});
  } else if (kind === "class") {
    const one = classOf(Number(number));
    title.append(paintTone(make("span", { class: "dot" }), Number(number)), isolate(one?.name ?? "A deleted class"));
    if (one) extra.push(...classTools(one));
  } else if (kind === "group") {
    const words = isOfTexts() ? await groupWords(Number(number)) : "";
    if (state.view !== view) return;
    title.append(`Group ${number} of the unknowns`, words ? ": " : "", isolate(words));
    extra.push(make("button", { onclick: () => show({ view: "groups", search: "" }) }, "All groups"));
  } else if (kind === "moved") {
    const [, first, second, from, to] = view.split(":");
    if (from === undefined) title.append("All that moved");
    else title.append("From ", isolate(className(Number(from))), " to ", isolate(className(Number(to))));
    title.append(make("small", { class: "note" }, `, run ${first} to run ${second},`));
    extra.push(make("button", { onclick: () => show({ view: "compare", search: "" }) }, "Compare runs"));
  } else title.append(VIEWS.find(([one]) => one === view)?.[1] ?? view);
  if (search) title.append(make("small", {}, " with ", isolate(`“${search}”`), isOfTexts() ? " in the text" : " in the name"));
  if (inGrid()) title.append(make("small", { class: "note", id: "found" }, ` ${itemCount(state.order.length)}`));
  const words = kind === "class" && similar === null && project?.run ? rightOf(project.run, Number(number)) : "";
  if (words) title.append(make("small", { class: "note", id: "expected" }, `, ${words}`));
  const held = lead.contains(document.activeElement) ? document.activeElement.id : null;
  if (held === "rename" && byId("rename").value !== byId("rename").defaultValue) return; // a half-typed name stays
  lead.replaceChildren(make("div", { class: "title" }, title, make("div", { class: "extra" }, ...extra)), coach(project) ?? "");
  if (held) byId(held)?.focus();
}

function classTools({ id, name, key: digit }) {
  const rename = make("input", { id: "rename", value: name, "aria-label": "Name of this class", maxlength: 200, dir: "auto" });
  rename.addEventListener("change", () => rename.value.trim() && rename.value.trim() !== name && editClass(id, { name: rename.value.trim() }));
  rename.addEventListener("keydown", (event) => event.key === "Enter" && rename.blur());
  const keys = make("select", { id: "class-key", "aria-label": "Key of this class", onchange: (event) =>
    editClass(id, { key: event.target.value ? Number(event.target.value) : null }) },
    make("option", { value: "" }, "no key"));
  for (let one = 1; one <= 9; one += 1) {
    keys.append(make("option", { value: one, selected: digit === one }, `key ${one}`)); // another class with this key loses it
  }
  return [rename, keys, make("button", { id: "remove", onclick: () => removeClass(id) }, "Delete class")];
}

// ---- What to do next, until the first run is done -------------------------------------------------------------------

function coach(project) {
  if (!project || project.run || !project.items || state.similar !== null) return null;
  const bare = project.classes.filter((one) => !one.examples);
  if (!project.classes.length) {
    return step(1, "Name what you want to find.", "Press ", key("n"), isOfTexts() ? " or use the field above: one class for each kind of text, “refund”, “complaint”. Two or more." : " or use the field above: one class for each kind of picture, “cat”, “dog”. Two or more.");
  }
  if (bare.length) {
    return step(2, "Give each class a few examples.", "Click one, ", key("ctrl"), "-click more, then press the class's number or drag them onto it. About five each. Still without: ",
      ...bare.slice(0, 4).flatMap((one, n) => [n ? ", " : "", isolate(one.name)]), bare.length > 4 ? ` and ${bare.length - 4} more.` : ".");
  }
  return step(3, "Run.", "Press ", key("r"), worded(": every other picture gets one of your classes, or is set aside as unknown. You can correct and run again as often as you like."));
}

function step(n, title, ...words) {
  return make("div", { class: "coach" }, make("b", {}, `${n} of 3`), make("p", {}, make("strong", {}, title), " ", ...words));
}

// ---- Nothing to show -----------------------------------------------------------------------------------------------

function nothing() {
  const { project, view, search, similar } = state;
  const [kind] = view.split(":");
  if (!project) return null;
  if (!project.items && isOfTexts() && !project.can_add) return ["No texts.", "The table has no row with a text. Start the workbench on another one."];
  if (!project.items) return ["No pictures yet.", "The folder has no pictures that can be read. Add some with the button above, or start the workbench on another folder."];
  if (!project.run && ["unsure", "ask", "changed", "unknown", "groups", "map", "group", "compare", "moved"].includes(kind)) {
    return ["No run yet.", "Name your classes, give each a few examples, and press r. Then the decisions appear here."];
  }
  if (!inGrid() || state.order.length) return null;
  if (similar !== null) return ["No features yet.", "The features of the pictures are still being computed; try again when that is done."];
  if (search) return [isOfTexts() ? "No text has this in it." : "No picture has this in its name.", "Press escape in the search field to see all again."];
  if (kind === "examples") return ["No examples yet.", "Select pictures in “All”, then press the number of their class."];
  if (kind === "class") return ["Nothing in this class yet.", "Give it examples: select pictures in “All” and press its number. After a run, decided pictures appear here too."];
  if (kind === "unlabelled") return ["Every picture has a label.", "Export writes them to files."];
  if (kind === "changed") return ["Nothing changed with the last run.", "Corrections and new examples change decisions at the next run."];
  if (kind === "unknown") return ["Nothing is unknown.", "Lower the threshold to set more pictures aside."];
  if (kind === "ask") return ["Nothing is worth asking.", "Every picture has a label by you, or there is no answer of the run for it."];
  if (kind === "moved") return ["Nothing moved so.", "Another cell of the comparison may have pictures."];
  return ["Nothing here.", "Another view may have more."];
}

let waiting = true;
export function drawMain() {
  if (!state.project) return;
  const words = waiting && inGrid() && state.project.items ? null : nothing();
  empty.hidden = !words;
  if (words) empty.replaceChildren(...words.map((text, n) => make(n ? "p" : "h2", {}, worded(text))));
  byId("grid").hidden = Boolean(words) || !inGrid();
  byId("groups").hidden = Boolean(words) || state.view !== "groups";
  byId("map").hidden = Boolean(words) || state.view !== "map";
  byId("compare").hidden = Boolean(words) || state.view !== "compare";
  drawLead();
  redraw();
}

export function startViews() {
  on("project view", () => state.project && drawNav());
  on("view", () => {
    waiting = true;
    toTop();
    byId("search").value = state.search;
  });
  on("order", () => {
    waiting = false;
    drawMain();
  });
  on("content view", drawMain);
  on("details selection cursor", redraw);
}
