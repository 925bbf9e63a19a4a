// Answers that are worth a look: in each group the tenth that is nearest to the other side; in a class also the tenth
// with the lowest confidence.

const leastSureFirst = pile.filter((item) => !Number.isNaN(sureAs(item, false)))
  .sort((a, b) => sureAs(a, false) - sureAs(b, false) || a.id - b.id);

// Marks items of the pile, whose `unknown` is decided, and gives how many it marked.
function markDoubts(classCount) {
  const members = Array.from({ length: classCount + 1 }, () => []); // the last: unknown
  for (const item of byScore) {
    item.doubt = "";
    members[item.unknown ? classCount : item.closest].push(item);
  }
  const tenth = members.map((list) => Math.ceil(list.length / 10));
  const left = [...tenth]; // how many of a class may still be marked as least certain
  const highest = new Array(classCount).fill(-Infinity);
  for (const item of leastSureFirst) if (!item.unknown) highest[item.closest] = sureAs(item, false);
  for (const item of leastSureFirst) {
    if (item.unknown || left[item.closest] < 1) continue;
    left[item.closest] -= 1;
    if (sureAs(item, false) < highest[item.closest]) item.doubt = "least certain"; // if all are equal, none is marked
  }
  members.forEach((list, k) => {
    const scored = list.filter((item) => !Number.isNaN(item.score));
    const without = list.filter((item) => Number.isNaN(item.score));
    const nearestLast = k === classCount ? [...scored.reverse(), ...without] : [...scored, ...without];
    if (!tenth[k]) return;
    for (const item of nearestLast.slice(-tenth[k])) item.doubt = k === classCount ? "least unknown" : "least known";
  });
  return byScore.filter((item) => item.doubt).length;
}
