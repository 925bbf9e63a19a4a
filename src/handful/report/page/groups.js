// The unknowns as groups that look alike: a strip for each, its most central first.

const STRIP = 30; // pictures of a group in its strip

data.groups.forEach(([, , members], k) => members.forEach((id) => (items[id].group = k + 1)));
const groupName = (item) => (item.group ? data.groups[item.group - 1][0] : "");
const kinds = make("div", { class: "kinds" });
const strips = data.groups.map(([name, size, members], k) => {
  const title = make("h3", { id: `k${k}` }, make("bdi", {}, name), " ", make("small", {}, things(size)));
  const list = make("ul", { role: "list", class: "strip", "aria-labelledby": `k${k}` });
  kinds.append(title, list);
  return { list, ids: members.slice(0, STRIP), more: size - Math.min(size, STRIP, members.length) };
});
if (strips.length) {
  const many = strips.length === 1 ? "One group of them looks" : `About ${count(strips.length)} groups of them look`;
  const how = ["To make a class of the first: ", make("code", {}, "handful promote RESULTS 1=name"), "."];
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
  list.append(...ids.map((id) => make("li", {}, thumbButton(items[id], { title: items[id].name }))));
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
