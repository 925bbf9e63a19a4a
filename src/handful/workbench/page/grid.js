// Thumbnails of any number of pictures, or a list of texts: only those in sight have nodes in the page, and nodes are
// reused.
// The list has the focus, and the cursor is its active descendant. So reusing a node does not move the focus.

import { byId, make, paintTone, percent, pictureUrl } from "./dom.js";
import { marked, shortName } from "./face.js";
import { itemOf, look } from "./items.js";
import { className, inGrid, state, tell } from "./state.js";
import { isOfTexts, itemCount, worded } from "./words.js";

const GAP = 10;
const MARGIN = 300; // pixels above and below the window in which tiles are made
const SIZES = [84, 120, 168, 248];
const LINES = [1, 2, 3, 5, 9]; // of each text
const NARROW = 560; // pixels below which the label of a text is under it
const box = byId("grid");
const sheet = byId("sheet");
const tiles = new Map(); // place -> tile
const spare = [];
let size = { columns: 1, tile: 100, pitch: 130 };
let sizeStep = Number(localStorage.getItem("handful-tile") ?? (innerWidth < 600 ? 0 : 1));
let lineStep = Number(localStorage.getItem("handful-lines") ?? 1);
let lastTop = 0;
let calmTimer = 0;
let drawing = false;
const pictured = { good: 0, bad: 0 };

// ---- Size ----------------------------------------------------------------------------------------------------------

function measure() {
  const width = sheet.clientWidth;
  if (!width || !state.project) return;
  const before = Math.floor(box.scrollTop / size.pitch) * size.columns;
  const rest = box.scrollTop % size.pitch;
  const seen = tiles.has(state.cursor);
  const now = isOfTexts() ? measureRows(width) : measureTiles(width);
  const { columns, tile } = now;
  const changed = columns !== size.columns || tile !== size.tile || now.pitch !== size.pitch;
  size = now;
  box.style.setProperty("--tile", `${tile}px`);
  sheet.style.setProperty("height", `${Math.ceil(state.order.length / columns) * size.pitch}px`);
  if (changed) {
    for (const node of tiles.values()) node.place = -1;
    if (before) box.scrollTop = Math.floor(before / columns) * size.pitch + rest;
    if (seen) reveal(state.cursor); // with fewer columns, as when the details open, it may be out of sight
  }
}

function measureTiles(width) {
  const least = SIZES[sizeStep] ?? SIZES[1];
  const columns = Math.max(2, Math.floor((width + GAP) / (least + GAP)));
  const tile = Math.floor((width - GAP * (columns - 1)) / columns);
  const caption = 2.75 * parseFloat(getComputedStyle(box).fontSize);
  return { columns, tile, pitch: Math.round(tile + caption + GAP) };
}

// The heights are those of texts.css. All rows have the same, so that any number of them can be scrolled.
function measureRows(width) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const lines = LINES[lineStep] ?? LINES[1];
  const narrow = width < NARROW;
  const single = lines === 1 && !narrow; // no room for the name
  box.classList.toggle("narrow", narrow);
  box.classList.toggle("single", single);
  box.style.setProperty("--lines", lines);
  const text = 1.3125 * lines; // rem
  const pitch = Math.round((narrow ? text + 2.6 : Math.max(text, single ? 1.6 : 2.8) + 0.9) * rem);
  box.style.setProperty("--row", `${pitch}px`);
  return { columns: 1, tile: width, pitch };
}

export function resizeTiles(step) {
  if (isOfTexts()) {
    lineStep = Math.min(LINES.length - 1, Math.max(0, lineStep + step));
    localStorage.setItem("handful-lines", lineStep);
    return redraw();
  }
  sizeStep = Math.min(SIZES.length - 1, Math.max(0, sizeStep + step));
  localStorage.setItem("handful-tile", sizeStep);
  redraw();
}

// ---- Drawing -------------------------------------------------------------------------------------------------------

export function redraw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    measure();
    draw();
  });
}

function draw() {
  if (box.hidden || !box.clientHeight || !state.project) return;
  const top = box.scrollTop;
  const fast = Math.abs(top - lastTop) > 0.4 * box.clientHeight;
  lastTop = top;
  if (fast) {
    clearTimeout(calmTimer); // during fast scrolling no pictures are requested
    calmTimer = setTimeout(redraw, 80);
  }
  const { columns, pitch } = size;
  const first = Math.max(0, Math.floor((top - MARGIN) / pitch)) * columns;
  const last = Math.min(state.order.length, Math.ceil((top + box.clientHeight + MARGIN) / pitch) * columns);
  for (const [place, tile] of tiles) {
    if (place >= first && place < last) continue;
    tiles.delete(place);
    spare.push(tile);
  }
  for (let place = first; place < last; place += 1) {
    let tile = tiles.get(place);
    if (!tile) {
      tile = spare.pop() ?? makeTile();
      tiles.set(place, tile);
      if (!tile.node.isConnected) sheet.append(tile.node);
    }
    paint(tile, place, !fast);
  }
  while (spare.length > 2 * columns) spare.pop().node.remove();
  for (const tile of spare) blank(tile);
  if (!fast) look(first, last);
  const active = tiles.get(state.cursor);
  if (active) box.setAttribute("aria-activedescendant", active.node.id);
  else box.removeAttribute("aria-activedescendant");
}

let tileCount = 0;
function makeTile() {
  const image = make("img", { alt: "", decoding: "async", draggable: "false" });
  const text = make("span", { class: "text", dir: "auto" });
  const name = make("span", { class: "file", dir: "auto" });
  const label = make("bdi");
  const sure = make("i");
  const tag = make("span", { class: "tag" }, label, sure);
  const bar = make("span", { class: "bar" });
  const changed = make("span", { class: "was" }, "changed");
  const node = make("div", { role: "option", class: "tile", draggable: "true", id: `t${(tileCount += 1)}` },
    make("span", { class: "frame" }, isOfTexts() ? text : image, changed), tag, bar, name);
  image.addEventListener("load", () => { pictured.good += 1; });
  image.addEventListener("error", () => {
    pictured.bad += 1;
    node.classList.add("bare");
  });
  return { node, image, text, name, label, sure, bar, tag, changed, id: null, place: -1, content: "" };
}

function blank(tile) {
  if (tile.id === null) return;
  tile.id = null;
  tile.place = -1;
  tile.content = "";
  tile.image.removeAttribute("src");
  tile.text.replaceChildren();
  tile.node.className = "tile";
  tile.node.hidden = true;
}

function paint(tile, place, calm) {
  const { node } = tile;
  const id = state.order[place];
  if (tile.place !== place) {
    tile.place = place;
    const row = Math.floor(place / size.columns);
    const x = (place - row * size.columns) * (size.tile + GAP);
    node.style.setProperty("transform", `translate(${x}px, ${row * size.pitch}px)`);
    node.setAttribute("aria-posinset", place + 1);
  }
  if (tile.id !== id) {
    tile.id = id;
    tile.content = "";
    tile.image.removeAttribute("src");
    node.classList.remove("bare");
    node.hidden = false;
  }
  const allBad = pictured.bad > 12 && !pictured.good; // a table without pictures: do not request each
  if (!isOfTexts() && allBad) node.classList.add("bare");
  else if (!isOfTexts() && calm && !tile.image.hasAttribute("src")) tile.image.src = pictureUrl(id, size.tile > 170 ? 320 : 160);
  const item = itemOf(id);
  const chosen = state.selected.has(id);
  const ownLabel = item ? item.class : null; // by a person
  const label = ownLabel ?? item?.decision ?? null;
  const content = `${item?.name}|${ownLabel}|${label}|${item?.confidence}|${item?.p_unknown}|${item?.changed}|${chosen}|${place === state.cursor}|${
    label ? className(label) : ""}|${state.order.length}|${state.search}|${item?.text?.length}`;
  if (tile.content === content) return;
  tile.content = content;
  node.setAttribute("aria-setsize", state.order.length);
  node.setAttribute("aria-selected", chosen);
  node.classList.toggle("chosen", chosen);
  node.classList.toggle("cursor", place === state.cursor);
  node.classList.toggle("labelled", ownLabel !== null);
  node.classList.toggle("decided", ownLabel === null && label !== null);
  node.classList.toggle("waiting", !item);
  tile.changed.hidden = !item?.changed;
  paintTone(node, label);
  const sure = ownLabel === null && label !== null ? item.confidence : null;
  tile.label.textContent = label === null ? "" : className(label);
  tile.sure.textContent = percent(sure);
  tile.bar.style.setProperty("--at", percent(sure) || "0%");
  tile.name.textContent = item?.name ?? "";
  if (isOfTexts()) tile.text.replaceChildren(...marked(item?.text ?? "", state.search));
  node.title = item?.name ?? "";
  node.setAttribute("aria-label", item ? spoken(item) : worded("picture"));
}

export const spoken = (item) => `${shortName(item)}, ${verdict(item)}`;

export function verdict(item) {
  const sure = percent(item.confidence);
  if (item.class !== null) return `labelled: ${className(item.class)}`;
  if (item.decision === null) return "no label";
  return `decided: ${className(item.decision)}${sure ? `, ${sure} sure` : ""}${item.changed ? ", changed" : ""}`;
}

// ---- Cursor and selection ------------------------------------------------------------------------------------------

export function moveCursor(place, { extend = false, choose = false } = {}) {
  if (!state.order.length) return;
  const from = state.cursor;
  state.cursor = Math.min(state.order.length - 1, Math.max(0, place));
  if (extend) {
    if (from < 0) state.anchor = state.cursor;
    range(state.anchor, state.cursor);
  } else {
    state.anchor = state.cursor;
    if (choose) state.selected = new Set([state.order[state.cursor]]);
  }
  reveal(state.cursor);
  tell("selection");
  tell("cursor");
}

function range(a, b) {
  state.selected = new Set(state.order.slice(Math.min(a, b), Math.max(a, b) + 1));
}

export function toggle(place) {
  const id = state.order[place];
  if (id === undefined) return;
  const selected = new Set(state.selected);
  if (!selected.delete(id)) selected.add(id);
  state.selected = selected;
  state.cursor = state.anchor = place;
  tell("selection");
  tell("cursor");
}

function reveal(place) {
  const top = Math.floor(place / size.columns) * size.pitch;
  if (top < box.scrollTop) box.scrollTop = top;
  const foot = byId("picked").offsetHeight ? byId("picked").offsetHeight + 16 : 0; // the bar covers the last row
  const room = box.clientHeight - foot;
  if (top >= box.scrollTop && top + size.pitch > box.scrollTop + room) box.scrollTop = top + size.pitch - room;
}

// Moves the cursor by arrow keys and similar keys; returns whether the key was one of them.
export function step(name, extend) {
  const { columns, pitch } = size;
  const page = Math.max(1, Math.floor(box.clientHeight / pitch)) * columns;
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -page, PageDown: page,
    Home: -Infinity, End: Infinity }[name];
  if (by === undefined || !inGrid()) return false;
  const from = Math.max(0, state.cursor);
  let to = state.cursor < 0 ? 0 : from + by;
  if (Math.abs(by) === columns && (to < 0 || to >= state.order.length)) to = from; // do not jump to the end of the last row
  moveCursor(to, { extend });
  return true;
}

function placeOf(event) {
  const node = event.target.closest?.(".tile");
  for (const [place, tile] of tiles) if (tile.node === node) return place;
  return -1;
}

export function startGrid(open) {
  box.addEventListener("scroll", redraw, { passive: true });
  new ResizeObserver(redraw).observe(box);
  box.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (place < 0) return;
    if (event.shiftKey) moveCursor(place, { extend: true });
    else if (event.ctrlKey || event.metaKey || event.pointerType === "touch") toggle(place);
    else moveCursor(place, { choose: true });
  });
  box.addEventListener("dblclick", (event) => placeOf(event) >= 0 && open());
  box.addEventListener("focus", () => {
    if (state.cursor < 0 && box.matches(":focus-visible")) moveCursor(Math.floor(box.scrollTop / size.pitch) * size.columns);
  });
  box.addEventListener("dragstart", (event) => {
    const place = placeOf(event);
    if (place < 0) return;
    if (!state.selected.has(state.order[place])) moveCursor(place, { choose: true });
    const n = state.selected.size;
    byId("dragged").textContent = itemCount(n);
    event.dataTransfer.setData("text/x-handful", String(n));
    event.dataTransfer.effectAllowed = "copy";
    event.dataTransfer.setDragImage(byId("dragged"), -12, -12);
    document.body.classList.add("dragging");
  });
  box.addEventListener("dragend", () => document.body.classList.remove("dragging"));
}

export function toTop() {
  box.scrollTop = 0;
  lastTop = 0;
}
