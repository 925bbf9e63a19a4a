// The unknowns as groups that look alike: a strip for each, its most central first.

const STRIP = 30; // pictures of a group in its strip

data.groups.forEach(([, , members], k) => members.forEach((id) => (items[id].group = k + 1)));
const groupName = (item) => (item.group ? data.groups[item.group - 1][0] : "");
const kinds = make("div", { class: "kinds" });
const strips = data.groups.flatMap(([name, size, members, parts], k) => {
  const mixed = parts.length > 1;
  const title = make("h3", { id: `k${k}` }, make("bdi", {}, name), " ", make("small", {}, things(size)));
  if (mixed) title.append(make("small", { class: "mixed" }, `looks like ${count(parts.length)} kinds: ${parts.map((_, n) => `${k + 1}.${n + 1}`).join(", ")}`));
  kinds.append(title);
  return mixed ? parts.map(([many, some, words], n) => stripOf(`k${k}`, `${k + 1}.${n + 1}, ${things(many)}${words ? `: ${words}` : ""}`, many, some)) : [stripOf(`k${k}`, "", size, members)];
});
function stripOf(title, text, size, members) {
  const list = make("ul", { role: "list", class: "strip", ...(text ? { "aria-label": text } : { "aria-labelledby": title }) });
  kinds.append(...(text ? [make("p", { class: "note part", dir: "auto" }, text)] : []), list);
  return { list, ids: members.slice(0, STRIP), more: size - Math.min(size, STRIP, members.length) };
}
if (strips.length) {
  const total = data.groups.length;
  const many = total === 1 ? "One group of them looks" : `About ${count(total)} groups of them look`;
  const how = ["To make a class of the first: ", make("code", {}, "handful promote RESULTS 1=name"), "."];
  const first = data.groups.findIndex(([, , , parts]) => parts.length > 1);
  if (first >= 0) {
    const names = data.groups[first][3].map((_, n) => `${first + 1}.${n + 1}=name${n + 1}`).join(" ");
    how.push(" A group that looks like several kinds can be split: ", make("code", {}, `handful promote RESULTS ${names}`), ".");
  }
  kinds.prepend(make("p", { class: "note" }, `${many} alike. `, ...(data.promote ? how : [])));
}
kinds.hidden = !strips.length;

// A strip has its height before its pictures exist: they are made when it comes near the window.
const approach = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    if (!isIntersecting) continue;
    approach.unobserve(target);
    fillStrip(strips.find(({ list }) => list === target));
  }
}, { rootMargin: "700px 0px" });
for (const { list } of strips) approach.observe(list);

function fillStrip({ list, ids, more }) {
  list.append(...ids.map((id) => make("li", {}, thumbButton(items[id]))));
  if (more) list.append(make("li", { class: "more" }, `and ${count(more)} more`));
  markStrips();
}

// Items that are labelled at this threshold become pale.
function markStrips() {
  kinds.hidden = !strips.length || Boolean(now.find) || now.only;
  for (const { list, ids } of strips) {
    ids.forEach((id, at) => list.children[at]?.classList.toggle("left", !items[id].unknown));
  }
}
