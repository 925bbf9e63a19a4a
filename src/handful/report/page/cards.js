// Cards, and lists in which only the cards near the window exist.

const SMALL = 96; // pixels

// Text comes in as text nodes and attributes alone: nothing in the data is ever read as html.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// A file name that may break after its separators; its text is as it was.
function wrapping(name) {
  return name.match(/[^/_-]*[/_-]?/g).flatMap((part, at) => (at ? [make("wbr"), part] : [part]));
}

// A thumbnail, or a frame that says there is none. The button or the name beside it names it, so it has no alt text.
function pictureOf(data) {
  if (!data) return make("span", { class: "none" }, "no picture");
  const kind = data.startsWith("iVBOR") ? "png" : "jpeg";
  const image = make("img", { src: `data:image/${kind};base64,${data}`, alt: "", decoding: "async", draggable: "false" });
  if (kind === "png" && isSmall(data)) image.className = "small";
  return image;
}

// A PNG of fewer than SMALL pixels per side is enlarged on the page: its pixels stay square and sharp.
function isSmall(data) {
  const head = atob(data.slice(0, 32));
  const side = (at) => [0, 1, 2, 3].reduce((sum, k) => sum * 256 + head.charCodeAt(at + k), 0);
  return Math.max(side(16), side(20)) < SMALL; // width and height in the header
}

// A list of equal cards. It has the height of all of them and holds the elements of the rows near the window.
class CardList {
  constructor(list, card) {
    Object.assign(this, { list, card, ids: [], columns: 1, pitch: 1, first: 0, last: 0 });
  }

  // pitch: a card's height with the gap below it.
  measure(columns, pitch, gap) {
    Object.assign(this, { columns, pitch });
    const rows = Math.ceil(this.ids.length / columns);
    this.list.style.setProperty("height", rows ? `${rows * pitch - gap}px` : "auto");
  }

  top(id) {
    return Math.floor(this.ids.indexOf(id) / this.columns) * this.pitch;
  }

  // Which rows are near, given where the list's top is in a window of that height.
  look(top, height, margin) {
    const rows = Math.ceil(this.ids.length / this.columns);
    const row = (y) => Math.min(rows, Math.max(0, Math.floor((y - top) / this.pitch)));
    this.first = row(-margin) * this.columns;
    this.last = Math.min(this.ids.length, (row(height + margin) + 1) * this.columns);
    if (top > height + margin || this.first >= this.ids.length) this.first = this.last = 0; // none is near
  }

  // Cards that stay are not touched, so that focus stays where it is.
  draw() {
    const wanted = [];
    for (let at = this.first; at < this.last; at += 1) wanted.push(this.card(this.ids[at], at, this.ids.length));
    this.list.style.setProperty("padding-top", `${(this.first / this.columns) * this.pitch}px`);
    const keep = new Set(wanted);
    for (const node of [...this.list.children]) if (!keep.has(node)) node.remove();
    wanted.forEach((node, at) => {
      if (this.list.children[at] !== node) this.list.insertBefore(node, this.list.children[at] ?? null);
    });
  }
}

const made = new Map(); // cards near the window, and a few more: id -> {unknown, doubt, find, node}

function cardOf(id, at, of) {
  const item = items[id];
  let card = made.get(id);
  const find = areTexts ? now.find : ""; // it is marked in texts
  if (card?.unknown !== item.unknown || card.doubt !== item.doubt || card.find !== find) {
    card = { unknown: item.unknown, doubt: item.doubt, find, node: makeCard(item) };
    made.set(id, card);
  }
  card.node.setAttribute("aria-posinset", at + 1);
  card.node.setAttribute("aria-setsize", of);
  return card.node;
}

function makeCard(item) {
  const open = thumbButton(item, {});
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--at", `${100 * range.share(item.score)}%`);
  const label = make("p", { class: "label" });
  label.append(make("bdi", {}, labelOf(item)));
  if (item.unknown) {
    label.append(make("span", { class: "hid" }, "closest "), make("bdi", { class: "guess" }, `${data.classes[item.closest]}?`));
  }
  label.append(make("i", {}, make("span", { class: "hid" }, "confidence "), percent(sureOf(item))));
  const score = make("p", { class: "score" }, bar, make("span", { class: "hid" }, `${scoreName} `));
  score.append(range.text(item.score));
  if (item.unknown !== item.unknownAtFirst) {
    open.append(make("span", { class: "was" }, "was ", make("bdi", {}, item.unknownAtFirst ? data.unknown : "known")));
  }
  if (item.doubt) {
    open.append(make("span", { class: "mark", title: "worth a look" }, make("span", { class: "hid" }, "worth a look: "), item.doubt));
  }
  const names = ["card", ...(item.unknown ? ["unknown"] : []), ...(item.doubt ? ["look"] : [])];
  const frame = make("div", { class: "frame" }, open, ...(canCorrect ? [correctButton(item)] : []));
  const node = make("li", { class: names.join(" "), "data-id": item.id }, frame);
  node.append(nameOf(item), label, score);
  if (anyNear) node.append(nearestOf(item));
  return node;
}

// The folder on a line of its own: the end of a path tells more than its beginning.
function nameOf(item) {
  const at = item.name.lastIndexOf("/") + 1;
  const line = make("p", { class: "name", dir: "auto", title: item.name });
  if (at) line.append(make("bdi", { class: "folder" }, item.name.slice(0, at)));
  line.append(make("bdi", { class: "base" }, ...wrapping(item.name.slice(at))));
  return line;
}

function thumbButton(item, attributes = { title: item.name }) {
  const button = make("button", { type: "button", class: "open", "data-id": item.id, ...attributes });
  if (areTexts) button.append(excerptOf(item));
  else {
    button.setAttribute("aria-label", item.name);
    button.append(thing === "item" ? make("bdi", {}, item.name) : pictureOf(pictures[item.id]));
  }
  button.addEventListener("click", () => showDetail(item));
  return button;
}

const anyNear = pile.some((item) => item.near.length);
const exampleName = (near) => (typeof near === "number" ? items[near].name : near); // by number if it is on the page

function nearestOf(item) {
  const line = make("p", { class: "near" }, make("span", { class: "hid" }, "nearest examples: "));
  for (const near of item.near.slice(0, 4)) {
    const picture = pictures[near];
    if (picture) line.append(pictureOf(picture), make("bdi", { class: "hid" }, exampleName(near), ", "));
    else line.append(make("bdi", {}, exampleInShort(near)), " ");
  }
  line.title = item.near.map(exampleInShort).join("\n");
  return line;
}
