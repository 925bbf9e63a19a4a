// Corrections: what a person says that a label should be. They stay in this browser, and a download gives them to
// `handful label --corrections`.

const canCorrect = data.promote && pile.length > 0;
const corrections = new Map(); // id of an item -> name of a class, or that of the unknowns
let forgotten = []; // what "Forget all" took away, until the next correction
let isStored = true;
const storageKey = `handful corrections ${data.run}`;
const MAX_NAME_LENGTH = 200;

// A name as the tables write it; "" if it is none.
function cleanName(text) {
  const name = String(text).trim().normalize("NFC").slice(0, MAX_NAME_LENGTH);
  return name.toLowerCase() === data.unknown ? data.unknown : name;
}
const newClasses = () => [...new Set(corrections.values())].filter((name) => name !== data.unknown && !data.classes.includes(name));

function recall() {
  try {
    for (const [id, name] of JSON.parse(localStorage.getItem(storageKey)) ?? []) {
      const item = items[id];
      if (item && !item.example && cleanName(name)) corrections.set(item.id, cleanName(name));
    }
  } catch {
    corrections.clear(); // what is stored is not ours, or the browser lets this page store nothing
  }
}

function store() {
  try {
    if (corrections.size) localStorage.setItem(storageKey, JSON.stringify([...corrections]));
    else localStorage.removeItem(storageKey);
    isStored = true;
  } catch {
    isStored = false;
  }
}

// name: null takes the correction back.
function correct(item, name) {
  if (!canCorrect || item.example) return;
  if (name === null) corrections.delete(item.id);
  else if (cleanName(name)) corrections.set(item.id, cleanName(name));
  forgotten = [];
  store();
  showCorrections();
}

function forgetAll() {
  const bringBack = !corrections.size;
  const before = [...corrections];
  corrections.clear();
  if (bringBack) for (const [id, name] of forgotten) corrections.set(id, name);
  forgotten = bringBack ? [] : before;
  store();
  showCorrections();
}

// ---- On the page ---------------------------------------------------------------------------------------------------

const isSame = (item, name) => name === labelOf(item); // a label that somebody has confirmed

// The pencil of a card; where there is a correction, it says which.
function correctButton(item) {
  const button = make("button", { type: "button", class: "correct", "data-correct": item.id });
  button.addEventListener("click", () => openChooser(item, button));
  markCorrect(button, item);
  return button;
}

function markCorrect(button, item) {
  const name = corrections.get(item.id);
  button.classList.toggle("corrected", name !== undefined);
  const sign = name === undefined ? "✎" : isSame(item, name) ? "✓ " : "→ ";
  button.replaceChildren(sign, ...(name === undefined ? [] : [make("bdi", {}, name)]));
  const what = name === undefined ? "Correct the label" : `${isSame(item, name) ? "Confirmed" : "Corrected"}: ${name}. Change`;
  button.setAttribute("aria-label", `${what}, ${item.name}`);
  button.title = name === undefined ? "Correct the label" : "Change the correction";
}

function showCorrections() {
  for (const button of document.querySelectorAll("[data-correct]")) markCorrect(button, items[button.dataset.correct]);
  const total = corrections.size;
  const same = [...corrections].filter(([id, name]) => isSame(items[id], name)).length;
  const words = [
    ...(total > same || !total ? [`${count(total - same)} correction${total - same === 1 ? "" : "s"}`] : []),
    ...(same ? [`${count(same)} label${same === 1 ? "" : "s"} confirmed`] : []),
  ].join(", ");
  byId("correction-count").textContent = !total && forgotten.length ? `Forgotten: ${count(forgotten.length)}` : words;
  byId("correction-note").textContent = total && !isStored ? "This browser does not store them: download them before you close the page." : "";
  for (const id of ["corrections-json", "corrections-csv", "corrections-how"]) byId(id).hidden = !total;
  byId("forget").textContent = total ? "Forget all" : "Bring them back";
  byId("corrections").hidden = !total && !forgotten.length;
  document.body.classList.toggle("correcting", !byId("corrections").hidden);
  refreshChoosers();
}

const inOrder = () => [...corrections].sort(([a], [b]) => a - b).map(([id, name]) => [items[id], name]);
byId("corrections-json").addEventListener("click", () => {
  const list = inOrder().map(([item, label]) => ({ item: item.name, label, was: labelOf(item) }));
  const document = { handful: data.handful, run: data.run, corrections: list };
  download("corrections.json", JSON.stringify(document, null, 1) + "\n", "application/json");
});
byId("corrections-csv").addEventListener("click", () => {
  download("corrections.csv", csv([["path", "label"], ...inOrder().map(([item, label]) => [item.name, label])]));
});
byId("forget").addEventListener("click", forgetAll);
byId("command").textContent = data.command || "handful label EXAMPLES PILE --corrections corrections.json";

function startCorrections() {
  if (!canCorrect) return;
  recall();
  byId("corrections-how").open = innerWidth > 700;
  const keys = data.classes.slice(0, 9).map((name, k) => `${k + 1} ${name}`).join(", ");
  byId("correct-note").append(
    "Is a label wrong? Correct it with the pencil on its card, or with keys: ", make("bdi", {}, keys),
    ", u none of these, n a new class, Delete to take it back.",
  );
  byId("correct-note").hidden = false;
  showCorrections();
}
