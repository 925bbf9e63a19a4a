// The order of the view as ids, all at once, and the details of those that are looked at, a window at a time.

import { read } from "./api.js";
import { inGrid, state, tell } from "./state.js";
import { complain } from "./notes.js";

const WINDOW = 300; // ids asked for at once; the server gives at most 500
const known = new Map(); // id -> { item, version, assumed }
let version = 0;
let asking = false;
let looked = [0, 0];
let asked = 0; // number of the latest question for the order: an earlier answer is too late

export const itemOf = (id) => known.get(id)?.item;

// Everything may have changed: what is shown stays until the new answer is there.
export function forget() {
  version += 1;
}

function keep(items, of) {
  for (const item of items) {
    const entry = known.get(item.id);
    if (!entry?.assumed || entry.version < of) known.set(item.id, { item, version: of });
  }
}

// A change that the server is being told of, shown at once. It holds until all is forgotten: an answer that was asked
// for before the change would undo it on the page for a moment.
export function assume(ids, changes) {
  for (const id of ids) {
    const entry = known.get(id);
    if (entry) known.set(id, { item: { ...entry.item, ...changes }, version, assumed: true });
  }
  tell("details");
}

export async function loadOrder() {
  const mine = ++asked;
  if (!inGrid()) {
    state.order = [];
    return tell("order");
  }
  const { view, search, similar } = state;
  try {
    const { ids } = await read("/ids", { view, search, similar });
    if (mine !== asked) return;
    const id = state.order[state.cursor];
    state.order = ids;
    if (state.cursor >= 0 && ids[state.cursor] !== id) {
      const place = ids.indexOf(id); // gone from this view: the cursor stays where it was, on the next one
      state.cursor = place >= 0 ? place : Math.min(state.cursor, ids.length - 1);
    }
    if (state.selected.size) {
      const here = new Set(ids);
      const left = [...state.selected].filter((one) => here.has(one));
      if (left.length < state.selected.size) state.selected = new Set(left);
    }
    tell("order");
    tell("selection");
  } catch (error) {
    if (mine !== asked) return;
    state.order = [];
    tell("order");
    complain(error, loadOrder);
  }
}

// The places [first, last) of the order are in sight: ask for those of them, and around them, that are not known yet.
export function look(first, last) {
  looked = [first, last];
  if (!asking) ask();
}

async function ask() {
  asking = true;
  try {
    for (;;) {
      const [first, last] = looked;
      const missing = lacking(first, last, WINDOW);
      if (!missing.length) return;
      const middle = Math.max(0, Math.floor((first + last - WINDOW) / 2));
      const around = lacking(middle, middle + WINDOW, WINDOW - missing.length).filter((id) => !missing.includes(id));
      const before = version;
      const { items } = await read("/items", { ids: [...missing, ...around].join(",") });
      keep(items, before);
      for (const id of missing) if (!(known.get(id)?.version >= before)) known.set(id, { item: itemOf(id), version: before }); // gone
      tell("details");
    }
  } catch (error) {
    complain(error, () => look(...looked));
  } finally {
    asking = false;
  }
}

function lacking(first, last, most) {
  const ids = [];
  for (let place = first; place < Math.min(last, state.order.length) && ids.length < most; place += 1) {
    const id = state.order[place];
    if (known.get(id)?.version !== version) ids.push(id);
  }
  return ids;
}

// Details of some that need not be in the view, for strips.
export async function fetchItems(ids) {
  const missing = ids.filter((id) => known.get(id)?.version !== version);
  const before = version;
  if (missing.length) keep((await read("/items", { ids: missing.slice(0, 500).join(",") })).items, before);
  return ids.map(itemOf).filter(Boolean);
}
