// What the page knows: the items, the scale of their scores, and who is known at this threshold.

const STEPS = 1000; // of the slider

const byId = (id) => document.getElementById(id);
const number = (value) => (value === null ? NaN : Number(value)); // "Infinity" travels as text
const { format: count } = new Intl.NumberFormat("en-US"); // one formatter: it is asked at every step of a drag
const percent = (value) => (Number.isNaN(value) ? "" : `${Math.round(100 * value)}%`);

function takeData(id) {
  const block = byId(id);
  const value = JSON.parse(block.textContent);
  block.remove(); // a hundred megabytes need not be there twice
  return value;
}

const data = takeData("data");
const pictures = takeData("pictures");
const items = data.items.map(([name, kind, closest, confidence, otherwise, score, x, y, near, chance], id) => ({
  id, name, closest, near, small: name.toLowerCase(),
  example: kind === 2,
  given: kind === 1, // unknown at the threshold the labels were made with
  unknown: kind === 1,
  confidence: number(confidence), otherwise: number(otherwise), score: number(score), x: number(x), y: number(y),
  chance: number(chance), // that it is unknown, calibrated
}));
const pile = items.filter((item) => !item.example);
const calibrated = pile.some((item) => !Number.isNaN(item.chance));
const thing = pictures.some(Boolean) ? "picture" : "item";
const aThing = thing === "item" ? "an item" : "a picture";
const things = (n) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

// Items without a score come last.
const byScore = [...pile].sort((a, b) => {
  const [p, q] = [Number.isNaN(a.score), Number.isNaN(b.score)];
  return p || q ? p - q : a.score === b.score ? a.id - b.id : a.score - b.score;
});

// ---- The scale of scores -------------------------------------------------------------------------------------------

const range = (() => {
  const finite = byScore.map((item) => item.score).filter(Number.isFinite);
  let [low, high] = [finite[0] ?? 0, finite[finite.length - 1] ?? 1];
  if (data.probability) [low, high] = [Math.min(0, low), Math.max(1, high)];
  else if (high > low) low -= (high - low) / STEPS; // at the slider's left end even the surest are set aside
  else [low, high] = [low - 0.5, high + 0.5];
  const decimals = (share) => Math.min(12, Math.max(0, Math.ceil(Math.log10(1 / (share * (high - low))))));
  const text = (value, share) =>
    Number.isNaN(value) ? "n/a" : Number.isFinite(value) ? value.toFixed(decimals(share)) : value > 0 ? "∞" : "-∞";
  return {
    low, high,
    at: (step) => (step >= STEPS ? high : low + ((high - low) * step) / STEPS),
    share: (value) => (Number.isNaN(value) ? 0 : Math.min(1, Math.max(0, (value - low) / (high - low)))),
    text: (value) => text(value, 0.02),
    fine: (value) => text(value, 0.002),
  };
})();

// ---- What is known now ---------------------------------------------------------------------------------------------

const chosen = number(data.threshold);
const now = { threshold: chosen, find: "", order: "sure", bright: null };

// At the threshold they were made with, the labels are the ones that were given; elsewhere the score decides.
function decide(item) {
  if (now.threshold === chosen || Number.isNaN(item.score)) return item.given;
  return item.score > now.threshold;
}
const labelOf = (item) => (item.unknown ? data.unknown : data.classes[item.closest]);
const sureAs = (item, unknown) => (unknown === item.given ? item.confidence : item.otherwise);
const sureOf = (item) => sureAs(item, item.unknown);
// Surest first by the number that cards show, as known items and as unknown ones: no threshold changes these orders.
const bySureness = [false, true].map((unknown) => {
  const value = (item) => (Number.isNaN(item.score) ? -2 : Number.isNaN(sureAs(item, unknown)) ? -1 : sureAs(item, unknown));
  const scored = unknown ? [...byScore].reverse() : [...byScore]; // equally sure items stay in this order
  return scored.sort((a, b) => value(b) - value(a));
});
const matches = (item) => !now.find || item.small.includes(now.find);
