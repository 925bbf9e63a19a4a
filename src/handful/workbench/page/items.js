// The ids of the view in their order, all at once, and the details of the pictures in sight.

import { read } from "./api.js";
import { inGrid, state, tell } from "./state.js";
import { complain } from "./notes.js";

const WINDOW = 300; // ids in one request; the server allows 500
const details = new Map(); // id -> { item, version, assumed }
let version = 0;
let asking = false;
let inSight = [0, 0];
let orderRequest = 0; // number of the latest request for the order: answers to earlier ones are ignored

export const itemOf = (id) => details.get(id)?.item;

// Everything may have changed. The old details stay on the page until new ones arrive.
export function forget() {
  version += 1;
}

function keep(items, of) {
  for (const item of items) {
    const entry = details.get(item.id);
    if (!entry?.assumed || entry.version < of) details.set(item.id, { item, version: of });
  }
}

// Shows a change at once, before the server confirms it. It stays until `forget`: the answer to an earlier request
// would undo it on the page for a moment.
export function assume(ids, changes) {
  for (const id of ids) {
    const entry = details.get(id);
    if (entry) details.set(id, { item: { ...entry.item, ...changes }, version, assumed: true });
  }
  tell("details");
}

export async function loadOrder() {
  const mine = ++orderRequest;
  if (!inGrid()) {
    state.order = [];
    return tell("order");
  }
  const { view, search, similar } = state;
  try {
    const { ids } = await read("/ids", { view, search, similar });
    if (mine !== orderRequest) return;
    const id = state.order[state.cursor];
    state.order = ids;
    if (state.cursor >= 0 && ids[state.cursor] !== id) {
      const place = ids.indexOf(id); // not in this view any more: the cursor stays at its place, on the next picture
      state.cursor = place >= 0 ? place : Math.min(state.cursor, ids.length - 1);
    }
    if (state.selected.size) {
      const here = new Set(ids);
      const stillHere = [...state.selected].filter((one) => here.has(one));
      if (stillHere.length < state.selected.size) state.selected = new Set(stillHere);
    }
    tell("order");
    tell("selection");
  } catch (error) {
    if (mine !== orderRequest) return;
    state.order = [];
    tell("order");
    complain(error, loadOrder);
  }
}

// The places [first, last) of the order are in sight: request missing details there and around them.
export function look(first, last) {
  inSight = [first, last];
  if (!asking) ask();
}

async function ask() {
  asking = true;
  try {
    for (;;) {
      const [first, last] = inSight;
      const missing = lacking(first, last, WINDOW);
      if (!missing.length) return;
      const middle = Math.max(0, Math.floor((first + last - WINDOW) / 2));
      const around = lacking(middle, middle + WINDOW, WINDOW - missing.length).filter((id) => !missing.includes(id));
      const before = version;
      const { items } = await read("/items", { ids: [...missing, ...around].join(",") });
      keep(items, before);
      for (const id of missing) if (!(details.get(id)?.version >= before)) details.set(id, { item: itemOf(id), version: before }); // gone
      tell("details");
    }
  } catch (error) {
    complain(error, () => look(...inSight));
  } finally {
    asking = false;
  }
}

function lacking(first, last, limit) {
  const ids = [];
  for (let place = first; place < Math.min(last, state.order.length) && ids.length < limit; place += 1) {
    const id = state.order[place];
    if (details.get(id)?.version !== version) ids.push(id);
  }
  return ids;
}

// Details of some items, also outside of the view, for strips.
export async function fetchItems(ids) {
  const missing = ids.filter((id) => details.get(id)?.version !== version);
  const before = version;
  if (missing.length) keep((await read("/items", { ids: missing.slice(0, 500).join(",") })).items, before);
  return ids.map(itemOf).filter(Boolean);
}
