// The data of the page: the items, the scale of their scores, and which items are known at the current threshold.

const STEPS = 1000; // of the slider

const byId = (id) => document.getElementById(id);
const number = (value) => (value === null ? NaN : Number(value)); // "Infinity" is stored as text
const { format: count } = new Intl.NumberFormat("en-US"); // made once: it is used at every step of a drag
const percent = (value) => (Number.isNaN(value) ? "" : `${Math.round(100 * value)}%`);

const nanLast = (a, b) => Number.isNaN(a) - Number.isNaN(b);

function takeData(id) {
  const block = byId(id);
  const value = JSON.parse(block.textContent);
  block.remove(); // it may be a hundred megabytes: do not keep it twice
  return value;
}

const data = takeData("data");
const pictures = takeData("pictures");
const [texts, lengths] = takeData("texts"); // lengths: of whole texts, where the page holds only the beginning
const items = data.items.map(([name, kind, closest, confidence, otherwise, score, x, y, near, chance, file], id) => ({
  id, name, closest, near, file, small: (texts[id] ? `${name}\n${texts[id]}` : name).toLowerCase(),
  matched: true, // what somebody looks for is in its name or text
  example: kind === 2,
  unknownAtFirst: kind === 1, // at the threshold that the labels were made with
  unknown: kind === 1,
  doubt: "", // why it is worth a look
  confidence: number(confidence), otherwise: number(otherwise), score: number(score), x: number(x), y: number(y),
  chance: number(chance), // that it is unknown, calibrated
}));
const pile = items.filter((item) => !item.example);
const scoreName = data.probability ? "doubt" : "outlier score"; // what the threshold cuts
const calibrated = pile.some((item) => !Number.isNaN(item.chance));
const areTexts = texts.length > 0;
const thing = areTexts ? "text" : pictures.some(Boolean) ? "picture" : "item";
const aThing = thing === "item" ? "an item" : `a ${thing}`;
const things = (n) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

// From the lowest outlier score to the highest; items without a score last.
const byScore = [...pile].sort((a, b) => nanLast(a.score, b.score) || a.score - b.score || a.id - b.id);

// ---- The scale of scores -------------------------------------------------------------------------------------------

const range = (() => {
  const finite = byScore.map((item) => item.score).filter(Number.isFinite);
  let [low, high] = [finite[0] ?? 0, finite[finite.length - 1] ?? 1];
  if (data.probability) [low, high] = [Math.min(0, low), Math.max(1, high)];
  else if (high > low) low -= (high - low) / STEPS; // at the left end of the slider, all items are unknown
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

// ---- The current state ---------------------------------------------------------------------------------------------

const firstThreshold = number(data.threshold);
const now = { threshold: firstThreshold, find: "", only: false, order: "sure", bright: null };

// At the threshold that the labels were made with, items keep their labels; at others the score decides.
function decide(item) {
  if (now.threshold === firstThreshold || Number.isNaN(item.score)) return item.unknownAtFirst;
  return item.score > now.threshold;
}
const className = (k) => data.classes[k] ?? data.unknown; // an example of none of the classes has the number after them
const labelOf = (item) => (item.unknown ? data.unknown : data.classes[item.closest]);
const sureAs = (item, unknown) => (unknown === item.unknownAtFirst ? item.confidence : item.otherwise);
const sureOf = (item) => sureAs(item, item.unknown);
const matches = (item) => item.matched && (!now.only || item.example || Boolean(item.doubt));

// Long texts are searched once for each change of what is looked for, not at each drawing.
function find(text) {
  now.find = text.trim().toLowerCase();
  for (const item of items) item.matched = !now.find || item.small.includes(now.find);
}

// ---- Orders --------------------------------------------------------------------------------------------------------

// By the confidence that the page shows. An item has one confidence as known and one as unknown, whatever the
// threshold: so the pile is sorted once for each, and a drag of the slider sorts nothing. Items of equal confidence
// go by their score; items without a score, then items without a confidence, come last in both orders.
function sortedPile(unknown, sign) {
  const toward = unknown ? -1 : 1; // a known item with a lower score is more certain
  return [...pile].sort((a, b) => {
    const [p, q] = [sureAs(a, unknown), sureAs(b, unknown)];
    return nanLast(a.score, b.score) || nanLast(p, q) || sign * (q - p || toward * (a.score - b.score)) || a.id - b.id;
  });
}
const orders = {
  sure: { known: sortedPile(false, 1), unknown: sortedPile(true, 1) },
  doubt: { known: sortedPile(false, -1), unknown: sortedPile(true, -1) },
};
