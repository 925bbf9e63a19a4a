// Helpers for all parts of the page: nodes, numbers, colours. Names are added to the page only as text, never as HTML: a
// class or a file may have any name.

export const byId = (id) => document.getElementById(id);
export const { format: count } = new Intl.NumberFormat("en-US");
export const percent = (value) => (value === null || value === undefined ? "" : `${Math.round(100 * value)}%`);
export const partOf = ({ value, low, high }) => `${Math.round(100 * value)} % (${Math.round(100 * low)} to ${Math.round(100 * high)} %)`;
export const pictureUrl = (id, size) => `/api/v1/pictures/${id}?size=${size}`;

// Attributes by name; "onclick" and the like are functions. true: an attribute without a value.
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const isolate = (text) => make("bdi", {}, text);
export const key = (text) => make("kbd", { "aria-hidden": "true" }, text);

// The colour of a class does not depend on other classes: steps of the golden angle keep neighbours apart.
export function tone(id) {
  return { hue: (28 + 137.508 * (id - 1)) % 360, tier: id % 3 };
}

export function paintTone(node, id) {
  node.classList.toggle("known", id > 0);
  node.classList.toggle("unknown", id === 0);
  if (!id) return node;
  const { hue, tier } = tone(id);
  node.style.setProperty("--hue", hue);
  node.style.setProperty("--tier", tier);
  return node;
}

export function thumbnail(id, size = 160) {
  return make("img", { src: pictureUrl(id, size), alt: "", decoding: "async", loading: "lazy", draggable: "false" });
}

// Calls a function after a pause, once, with the last arguments.
export function later(wait, call) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), wait);
  };
}
