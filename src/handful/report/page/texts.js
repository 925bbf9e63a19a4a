// Texts instead of pictures: their beginnings on cards, the whole of one where it is large, and marks for the words that
// speak for its class and for what somebody looks for.

const EXCERPT = 600; // characters of a text on a card, more than its lines can hold
const SHORT = 200; // characters where there is little room
const BEFORE_HIT = 60; // characters before what was found, if that is far from the beginning
const LISTED_WORDS = 12; // under the heading of a class

// The lines of a text on a card: as many as most texts need, from 2 to 4.
function linesOfCards() {
  const sizes = texts.map((text) => text.length).sort((a, b) => a - b);
  const most = sizes[Math.floor(0.9 * (sizes.length - 1))];
  return most > 180 ? 4 : most > 100 ? 3 : 2;
}

// Words as `handful.solving.telling_words` splits them: each Chinese or Japanese character is one.
const UNSPACED = "\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const LETTER = `(?:(?![${UNSPACED}])[\\p{L}\\p{N}])`;
const INSIDE = `(?:${LETTER}|(?![\\ufe00-\\ufe0f])\\p{M}|[\\u200c\\u200d])`;
const WORD = new RegExp(`[${UNSPACED}]|${LETTER}${INSIDE}*(?:['’]${LETTER}${INSIDE}*)*`, "gu");
const fold = (word) => word.normalize("NFKC").toLowerCase().replaceAll("ß", "ss").replaceAll("ς", "σ").replaceAll("’", "'");
const wordsOf = (text) => [...text.matchAll(WORD)].map((match) => ({ at: match.index, end: match.index + match[0].length, word: fold(match[0]) }));

// Telling words for a search: those of one word, and pairs of neighbours by their first word.
function tellingOf(list) {
  const telling = { alone: new Set(), pairs: new Map() };
  for (const words of (list ?? []).map((entry) => wordsOf(entry).map(({ word }) => word))) {
    if (words.length === 1) telling.alone.add(words[0]);
    else if (words.length === 2) telling.pairs.set(words[0], (telling.pairs.get(words[0]) ?? new Set()).add(words[1]));
  }
  return telling;
}
const tellingClasses = data.words.map(tellingOf);
const tellingGroups = data.groups.map(([, , , , words]) => tellingOf(words));
const tellingFor = (item) => item.unknown && !item.example ? tellingGroups[item.group - 1] : tellingClasses[item.closest];

// Where the telling words are in a text: [from, to] in its order.
function tellingRanges(text, telling) {
  if (!telling || !(telling.alone.size + telling.pairs.size)) return [];
  const ranges = [];
  const words = wordsOf(text);
  for (let n = 0; n < words.length; n += 1) {
    const isPair = n + 1 < words.length && telling.pairs.get(words[n].word)?.has(words[n + 1].word);
    if (isPair || telling.alone.has(words[n].word)) ranges.push([words[n].at, words[isPair ? n + 1 : n].end]);
    if (isPair) n += 1;
  }
  return ranges;
}

function hitRanges(text) {
  if (!now.find) return [];
  const pattern = new RegExp(now.find.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "giu");
  return [...text.matchAll(pattern)].map((match) => [match.index, match.index + match[0].length, "hit"]);
}

// A text as nodes, with marks. Only text nodes and <mark>: nothing in a text is ever read as html.
function marked(text, telling) {
  const hits = hitRanges(text);
  const free = tellingRanges(text, telling).filter(([from, to]) => !hits.some(([a, b]) => a < to && from < b));
  const nodes = [];
  let done = 0;
  for (const [from, to, kind] of [...hits, ...free].sort((a, b) => a[0] - b[0])) {
    nodes.push(text.slice(done, from), make("mark", kind ? { class: kind } : {}, text.slice(from, to)));
    done = to;
  }
  return [...nodes, text.slice(done)].filter((node) => node !== "");
}

// The beginning of a text; if somebody looks for a word that is further on, the part with it.
function excerptOf(item) {
  const text = texts[item.id];
  const box = make("span", { class: "text", dir: "auto" });
  const hit = now.find ? text.toLowerCase().indexOf(now.find) : -1;
  const from = hit > EXCERPT / 3 ? wholeCharacter(text, hit - BEFORE_HIT) : 0;
  const part = text.slice(from, wholeCharacter(text, from + EXCERPT));
  if (!part.trim()) box.append(make("span", { class: "empty" }, "(an empty text)"));
  else box.append(...(from ? ["… "] : []), ...marked(part, tellingFor(item)));
  return box;
}

// Not between the two halves of an emoji.
const wholeCharacter = (text, at) => (/[\udc00-\udfff]/.test(text.charAt(at)) ? at + 1 : at);

const shortOf = (text) => (text.length > SHORT ? `${text.slice(0, wholeCharacter(text, SHORT))}…` : text);
const inShort = (item) => shortOf(texts[item.id].trim() || "(an empty text)");
const exampleInShort = (near) => (areTexts && typeof near === "number" ? inShort(items[near]) : exampleName(near));

// All of a text that the page has, in a box that scrolls.
function wholeText(item) {
  const text = texts[item.id];
  const isKnown = item.closest < data.classes.length && (item.example || !item.unknown);
  const box = make("div", { class: isKnown ? "whole known" : "whole unknown", tabindex: "0", role: "region", "aria-label": "The text" });
  if (isKnown) setTone(box, classTone(item.closest, data.classes.length));
  const body = make("p", { class: "body", dir: "auto" });
  if (text.trim()) body.append(...marked(text, tellingFor(item)));
  else body.append(make("span", { class: "empty" }, "(an empty text)"));
  box.append(body);
  const length = lengths[item.id];
  if (length) box.append(make("p", { class: "note cut" }, `The page holds the first ${count([...text].length)} of its ${count(length)} characters.`));
  return box;
}

// The words that are marked in the texts of a class, as a line below its heading.
function wordsLine(words) {
  if (!areTexts || !words?.length) return [];
  const list = words.slice(0, LISTED_WORDS).flatMap((word, n) => [...(n ? [" "] : []), make("mark", { dir: "auto" }, word)]);
  return [make("p", { class: "note words" }, "Words that speak for it: ", ...list)];
}
