// How an item looks on the page: a picture, or a text. A text is added as text only, whatever it holds.

import { make, pictureUrl, thumbnail } from "./dom.js";
import { fetchItems } from "./items.js";
import { state } from "./state.js";
import { isOfTexts } from "./words.js";

const BRIEF = 60; // characters of a text that stand for it in a sentence
let waiting = []; // [id, node] of texts that are not in the page yet

// A few words that name an item: its text where it has one.
export function shortName(item) {
  if (!item || !isOfTexts()) return item?.name;
  const line = (item.text ?? "").replace(/\s+/g, " ").trim();
  const letters = [...line];
  return letters.length > BRIEF ? `${letters.slice(0, BRIEF - 1).join("").trimEnd()}…` : line || item.name;
}

// A thumbnail, or the beginning of the text.
export function small(id, size = 96) {
  if (!isOfTexts()) return thumbnail(id, size);
  const node = make("span", { class: "excerpt", dir: "auto" });
  if (!waiting.length) queueMicrotask(fill);
  waiting.push([id, node]);
  return node;
}

async function fill() {
  const nodes = waiting;
  waiting = [];
  const items = await fetchItems([...new Set(nodes.map(([id]) => id))]).catch(() => []);
  const texts = new Map(items.map(({ id, text }) => [id, text ?? ""]));
  for (const [id, node] of nodes) node.textContent = texts.get(id) ?? "";
}

// The picture in a large size, or the whole text; `item` is what GET /items/ID gave.
export function large(item) {
  if (isOfTexts()) {
    const cut = make("p", { class: "note" }, "The text is longer: this is its beginning.");
    return make("div", { class: "large whole", tabindex: 0, role: "region", "aria-label": "The text" },
      make("p", { class: "text", dir: "auto" }, ...marked(item.text ?? "", state.search)), item.is_cut ? cut : null);
  }
  const image = make("img", { class: "large", src: pictureUrl(item.id, 1024), alt: item.name });
  image.addEventListener("error", () => image.classList.add("bare"), { once: true });
  return image;
}

// A text as nodes in which each place with `search` is marked.
export function marked(text, search) {
  const [low, part] = [text.toLowerCase(), search.toLowerCase()];
  if (!part || low.length !== text.length) return [text]; // a few letters change their length
  const nodes = [];
  let end = 0;
  for (let at = low.indexOf(part); at >= 0; at = low.indexOf(part, end)) {
    nodes.push(text.slice(end, at), make("mark", {}, text.slice(at, at + part.length)));
    end = at + part.length;
  }
  return [...nodes, text.slice(end)];
}
