// The map: similar pictures are near each other. Pictures are selected with a lasso, the list of classes or the keys.

import { read } from "./api.js";
import { byId, count, isolate, make, paintTone, tone } from "./dom.js";
import { small } from "./face.js";
import { fetchItems } from "./items.js";
import { complain } from "./notes.js";
import { on, select, state, tell } from "./state.js";
import { spoken, verdict } from "./grid.js";
import { isOfTexts, itemCount } from "./words.js";

const ROOM = 14; // pixels around the points
const box = byId("map");
const under = make("canvas", { "aria-hidden": "true" });
const over = make("canvas", { id: "points", class: "over", tabindex: 0, role: "application" });
const tip = make("div", { class: "tip", hidden: true });
const strip = make("div", { class: "chosen" });
const legend = make("ul", { class: "legend", "aria-label": "What colours and signs mean" });
const chooser = make("select", { id: "choose", "data-noun": true, "aria-label": "Select all pictures of a class" });
let points = { ids: [], x: [], y: [] };
let kinds = new Map(); // id -> class, 0 for unknown
let starred = new Set();
let lasso = null;
let drawn = "";
let size = [0, 0];
let mapped = []; // places in pixels, x and y in turn

// ---- What is shown -------------------------------------------------------------------------------------------------

async function load() {
  if (state.view !== "map" || !state.project?.run) return;
  const { run, classes } = state.project;
  const now = JSON.stringify([run.id, run.threshold, run.counts, classes, state.project.undo]);
  if (now === drawn) return draw();
  drawn = now;
  try {
    const views = ["examples", "unknown", ...classes.map(({ id }) => `class:${id}`)];
    const [map, ...lists] = await Promise.all([read("/map"), ...views.map((view) => read("/ids", { view }))]);
    const scaled = (values) => {
      const [least, most] = values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
      return values.map((v) => (most > least ? (v - least) / (most - least) : 0.5));
    };
    points = { ids: map.ids, x: scaled(map.x), y: scaled(map.y) };
    starred = new Set(lists[0].ids);
    kinds = new Map();
    lists[1].ids.forEach((id) => kinds.set(id, 0));
    classes.forEach((one, n) => lists[n + 2].ids.forEach((id) => kinds.set(id, one.id)));
    const of = (id) => points.ids.filter((one) => kinds.get(one) === id).length;
    chooser.replaceChildren(make("option", { value: "" }, "Select by class…"),
      ...[...classes, { id: 0, name: "unknown" }].map(({ id, name }) => make("option", { value: id }, `${name} (${count(of(id))})`)));
    drawLegend(classes, of);
    over.setAttribute("aria-label", `Map of ${itemCount(points.ids.length)}. Arrow keys move from point to point, space selects; or choose a class from the list before it.`);
    over.dataset.points = points.ids.length;
    draw();
  } catch (error) {
    drawn = "";
    complain(error, load);
  }
}

// The colours of the classes, and the signs.
function drawLegend(classes, of) {
  const entry = (sign, ...words) => make("li", {}, sign, " ", ...words);
  const sign = (name) => make("span", { class: `sign ${name}`, "aria-hidden": "true" });
  legend.replaceChildren(
    ...classes.map(({ id, name }) => entry(paintTone(sign("decided"), id), isolate(name), ` ${count(of(id))}`)),
    entry(sign("unknown-sign"), `unknown ${count(of(0))}`), entry(sign("own"), "labelled by you"), entry(sign("cross"), "none of these, by you"));
}

function place() {
  const [width, height] = size;
  mapped = new Float32Array(2 * points.ids.length);
  for (let n = 0; n < points.ids.length; n += 1) {
    mapped[2 * n] = ROOM + points.x[n] * (width - 2 * ROOM);
    mapped[2 * n + 1] = ROOM + (1 - points.y[n]) * (height - 2 * ROOM);
  }
}

function pen(canvas) {
  const scale = devicePixelRatio || 1;
  const [width, height] = size.map((side) => Math.round(side * scale));
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, ...size);
  return context;
}

function draw() {
  size = [under.clientWidth, under.clientHeight];
  if (!size[0] || !size[1]) return;
  place();
  const style = getComputedStyle(under);
  const value = (name) => style.getPropertyValue(name).trim();
  const [light, each, chroma] = ["--light", "--tier-step", "--chroma"].map((name) => Number(value(name)));
  const many = points.ids.length;
  const radius = many < 1500 ? 4 : many < 6000 ? 3 : 1.5;
  const context = pen(under);
  const byKind = new Map(); // one path for each class, not for each point
  points.ids.forEach((id, n) => {
    const kind = kinds.get(id) ?? 0;
    const which = `${starred.has(id) ? 1 : 0} ${kind}`;
    if (!byKind.has(which)) byKind.set(which, new Path2D());
    const path = byKind.get(which);
    const r = starred.has(id) ? Math.max(4, radius * 1.6) : radius;
    if (starred.has(id) && !kind) { // none of these, by a person: a cross
      const [x, y] = [mapped[2 * n], mapped[2 * n + 1]];
      for (const way of [1, -1]) {
        path.moveTo(x - r, y - way * r);
        path.lineTo(x + r, y + way * r);
      }
    } else if (many > 6000) path.rect(mapped[2 * n] - r, mapped[2 * n + 1] - r, 2 * r, 2 * r);
    else {
      path.moveTo(mapped[2 * n] + r, mapped[2 * n + 1]);
      path.arc(mapped[2 * n], mapped[2 * n + 1], r, 0, 7);
    }
  });
  for (const [which, path] of [...byKind].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [star, kind] = which.split(" ").map(Number);
    const { hue, tier } = tone(kind);
    context.globalAlpha = star ? 1 : !kind && many > 6000 ? 0.4 : 0.8;
    context.fillStyle = kind ? `oklch(${light + tier * each} ${chroma} ${hue})` : value("--unknown");
    context.strokeStyle = star ? value("--ink") : kind ? value("--sheet") : value("--unknown");
    context.lineWidth = star ? (kind ? 1.5 : 2.5) : 1;
    if (kind || (many > 6000 && !star)) context.fill(path);
    if (star || (!kind && many <= 6000) || many < 1500) context.stroke(path);
  }
  drawOver();
}

function drawOver() {
  if (!size[0]) return;
  const style = getComputedStyle(under);
  const context = pen(over);
  context.strokeStyle = context.fillStyle = style.getPropertyValue("--ink");
  if (state.selected.size) {
    context.lineWidth = 1.5;
    context.beginPath();
    points.ids.forEach((id, n) => {
      if (!state.selected.has(id)) return;
      context.moveTo(mapped[2 * n] + 6, mapped[2 * n + 1]);
      context.arc(mapped[2 * n], mapped[2 * n + 1], 6, 0, 7);
    });
    context.stroke();
  }
  const now = points.ids.indexOf(state.pointed);
  if (state.pointed !== null && now >= 0) {
    context.lineWidth = 2.5;
    context.beginPath();
    context.arc(mapped[2 * now], mapped[2 * now + 1], 9, 0, 7);
    context.stroke();
  }
  if (lasso?.length > 1) {
    context.beginPath();
    lasso.forEach(([x, y], n) => context[n ? "lineTo" : "moveTo"](x, y));
    context.closePath();
    context.lineWidth = 1.5;
    context.setLineDash([5, 4]);
    context.stroke();
    context.globalAlpha = 0.08;
    context.fill();
  }
}

// ---- Pointing and selecting ----------------------------------------------------------------------------------------

function nearest(x, y, reach = 14) {
  let best = -1;
  let least = reach ** 2;
  for (let n = 0; n < points.ids.length; n += 1) {
    const far = (mapped[2 * n] - x) ** 2 + (mapped[2 * n + 1] - y) ** 2;
    if (far < least) [best, least] = [n, far];
  }
  return best;
}

async function point(n) {
  const id = n < 0 ? null : points.ids[n];
  if (id === state.pointed) return;
  state.pointed = id;
  tip.hidden = id === null;
  drawOver();
  tell("cursor");
  if (id === null) return;
  const name = make("p", { dir: "auto" });
  const face = small(id);
  tip.replaceChildren(face, name);
  const [x, y] = [mapped[2 * n], mapped[2 * n + 1]];
  const put = () => {
    const [width, height] = isOfTexts() ? [tip.offsetWidth, tip.offsetHeight] : [190, 122];
    tip.style.setProperty("left", `${Math.max(0, Math.min(x - width / 2 + 5, size[0] - width))}px`);
    tip.style.setProperty("top", `${y > height + 28 ? y - height - 16 : y + 16}px`);
  };
  put();
  const [item] = await fetchItems([id]).catch(() => []);
  if (!item || state.pointed !== id) return;
  name.textContent = isOfTexts() ? verdict(item) : spoken(item);
  if (isOfTexts()) face.textContent = item.text;
  put(); // a text has its height now
}

function inside(x, y, shape) {
  let odd = false;
  for (let n = 0, before = shape.length - 1; n < shape.length; before = n, n += 1) {
    const [[x1, y1], [x2, y2]] = [shape[n], shape[before]];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) odd = !odd;
  }
  return odd;
}

function finish(event) {
  const shape = lasso;
  lasso = null;
  if (!shape) return;
  const before = event.shiftKey || event.ctrlKey || event.metaKey ? state.selected : [];
  if (shape.length < 4) {
    const n = nearest(event.offsetX, event.offsetY);
    if (n < 0) return select(before);
    const id = points.ids[n];
    const both = new Set(before);
    if (!both.delete(id)) both.add(id);
    return select(both);
  }
  select([...before, ...points.ids.filter((_, n) => inside(mapped[2 * n], mapped[2 * n + 1], shape))]);
}

// Moves to the nearest point in that direction; a sideways distance counts double.
function walk(event) {
  const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  const now = points.ids.indexOf(state.pointed);
  if (event.key === " " && now >= 0) {
    event.preventDefault();
    const both = new Set(state.selected);
    if (!both.delete(state.pointed)) both.add(state.pointed);
    return select(both);
  }
  if (!by || !points.ids.length) return;
  event.preventDefault();
  if (now < 0) return point(0);
  let best = now;
  let least = Infinity;
  for (let n = 0; n < points.ids.length; n += 1) {
    const [dx, dy] = [mapped[2 * n] - mapped[2 * now], mapped[2 * n + 1] - mapped[2 * now + 1]];
    const along = dx * by[0] + dy * by[1];
    const far = along + 2 * (Math.abs(dx * by[1]) + Math.abs(dy * by[0]));
    if (along > 0 && far < least) [best, least] = [n, far];
  }
  point(best);
}

function drawChosen() {
  if (state.view !== "map") return;
  drawOver();
  const ids = [...state.selected];
  strip.replaceChildren(...ids.slice(0, 40).map((id) => small(id)));
  if (ids.length > 40) strip.append(make("span", { class: "note" }, `and ${count(ids.length - 40)} more`));
}

export function startMap() {
  chooser.addEventListener("change", () => {
    if (chooser.value !== "") select(points.ids.filter((id) => kinds.get(id) === Number(chooser.value)));
    chooser.value = "";
    over.focus({ preventScroll: true }); // so that the next key is a command
  });
  over.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    over.setPointerCapture(event.pointerId);
    lasso = [[event.offsetX, event.offsetY]];
  });
  over.addEventListener("pointermove", (event) => {
    if (!lasso) return point(nearest(event.offsetX, event.offsetY));
    const [x, y] = lasso[lasso.length - 1];
    if (Math.hypot(event.offsetX - x, event.offsetY - y) < 4) return;
    lasso.push([event.offsetX, event.offsetY]);
    tip.hidden = true;
    drawOver();
  });
  over.addEventListener("pointerup", finish);
  over.addEventListener("pointercancel", () => { lasso = null; drawOver(); });
  over.addEventListener("pointerleave", () => lasso || point(-1));
  over.addEventListener("keydown", walk);
  const bar = make("div", { class: "map-bar" }, chooser, make("span", { class: "note" }, "Draw around points to select them; shift adds."), legend);
  box.replaceChildren(bar, make("div", { class: "plane" }, under, over, tip), strip);
  new ResizeObserver(draw).observe(under);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  on("view content", load);
  on("selection", drawChosen);
}
