// The state of the page, and the functions that are called when it changes.

export const state = {
  project: null,
  view: "all", // or unlabelled, examples, class:ID, unknown, unsure, ask, changed, group:N, moved:A:B:FROM:TO, groups, map, compare
  search: "",
  similar: null, // the id of a picture
  order: [], // ids as the view shows them
  selected: new Set(), // ids
  cursor: -1, // position in `order`; -1: none yet
  anchor: 0, // where a range with shift begins
  details: false, // whether the panel is open
};

const listeners = new Map();

export function on(events, call) {
  for (const event of events.split(" ")) listeners.set(event, [...(listeners.get(event) ?? []), call]);
}

export function tell(event) {
  for (const call of listeners.get(event) ?? []) call();
}

export const classOf = (id) => state.project?.classes.find((one) => one.id === id);
export const className = (id) => (id === 0 ? "unknown" : (classOf(id)?.name ?? "?"));
export const inGrid = () => !["groups", "map", "compare"].includes(state.view);
export const cursorId = () => (inGrid() ? (state.order[state.cursor] ?? null) : state.pointed ?? null);

// The pictures that a command applies to: the selected ones, or the one under the cursor.
export function targets() {
  if (state.selected.size) return [...state.selected];
  const id = cursorId();
  return id === null ? [] : [id];
}

export function select(ids) {
  state.selected = new Set(ids);
  tell("selection");
}

// ---- The view is part of the address: reload and back work ----------------------------------------------------------

export function show({ view = state.view, search = state.search, similar = null }) {
  const address = new URLSearchParams({ view });
  if (search) address.set("search", search);
  if (similar !== null) address.set("similar", similar);
  const hash = `#${address}`;
  if (location.hash === hash) return;
  location.hash = hash;
}

function readAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  state.view = address.get("view") ?? "all";
  state.search = address.get("search") ?? "";
  state.similar = address.has("similar") ? Number(address.get("similar")) : null;
  state.selected = new Set();
  state.cursor = -1;
  state.anchor = 0;
  state.pointed = null;
  tell("view");
}

export function followAddress() {
  addEventListener("hashchange", readAddress);
  readAddress();
}
