// The two drawings: the histogram of scores, cut in two at the threshold, and the map of all items.

const SVG = "http://www.w3.org/2000/svg";
const BINS = 48;

function svgNode(parent, tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return parent.appendChild(node);
}

// All bars are drawn once in each colour; the threshold only moves the edge between the two clips, so a drag costs
// nothing however many items there are. Gives the function that moves it, to a share 0..1 of the width.
function drawHistogram(svg, scores, low, high) {
  const counts = new Array(BINS).fill(0);
  for (const score of scores) {
    if (Number.isNaN(score)) continue;
    counts[Math.min(BINS - 1, Math.max(0, Math.floor(((score - low) / (high - low)) * BINS)))] += 1;
  }
  const most = Math.max(1, ...counts);
  const bars = counts
    .map((count, n) => (count ? `M${n + 0.08} 100V${100 - Math.max(4, (97 * count) / most)}h.84V100z` : ""))
    .join("");
  svg.setAttribute("viewBox", `0 0 ${BINS} 100`);
  const clips = ["known", "unknown"].map((side) => {
    const clip = svgNode(svg, "clipPath", { id: `clip-${side}` });
    const rect = svgNode(clip, "rect", { x: 0, y: 0, width: 0, height: 100 });
    svgNode(svg, "path", { d: bars, class: side, "clip-path": `url(#clip-${side})` });
    return rect;
  });
  const line = svgNode(svg, "line", { y1: 0, y2: 100, class: "cut", "vector-effect": "non-scaling-stroke" });
  return (share) => {
    const x = share * BINS;
    clips[0].setAttribute("width", x);
    clips[1].setAttribute("x", x);
    clips[1].setAttribute("width", BINS - x);
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
  };
}

// Hues all round the circle, in steps that keep neighbours in the list apart; base.css holds the lightness.
function classTone(k, n) {
  const divides = (a, b) => (b ? divides(b, a % b) : a);
  let step = Math.max(1, Math.round(n * 0.382));
  while (divides(n, step) > 1) step += 1;
  return { hue: (28 + (360 * ((k * step) % n)) / n) % 360, tier: n > 6 ? k % 3 : 1 };
}

// points: items with x, y in 0..1. look(item): its kind ("known", "unknown", "example") and whether it is dimmed.
// describe(item) fills the tip; open(item) answers to a click or Enter.
class PointMap {
  constructor(canvas, tip, points, classes, { look, describe, open }) {
    Object.assign(this, { canvas, tip, points, classes, look, describe, open, current: null });
    this.radius = points.length < 1500 ? 4.5 : points.length < 6000 ? 3.2 : 2.2;
    canvas.addEventListener("pointermove", (event) => this.point(this.nearest(event)));
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("blur", () => this.point(null));
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && this.point(this.points[0] ?? null));
    canvas.addEventListener("click", (event) => {
      const item = this.nearest(event);
      const seen = event.pointerType !== "touch" || this.tapped === item; // a finger's first tap only shows the name
      this.tapped = item;
      this.point(item);
      if (item && seen) this.open(item);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.seen = true;
    new IntersectionObserver(([entry]) => {
      this.seen = entry.isIntersecting;
      this.draw();
    }).observe(canvas);
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  place(item) {
    const room = 14;
    return [room + item.x * (this.width - 2 * room), room + (1 - item.y) * (this.height - 2 * room)];
  }

  nearest(event) {
    let best = null;
    let reach = 14 ** 2;
    for (const item of this.points) {
      const [x, y] = this.place(item);
      const distance = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (distance < reach) [best, reach] = [item, distance];
    }
    return best;
  }

  // Arrow keys go to the nearest point on that side; points straight ahead are preferred.
  key(event) {
    if (event.key === "Enter" && this.current) {
      event.preventDefault(); // or the card that gets the focus would take the key for a click
      return this.open(this.current);
    }
    if (event.key === "Escape") return this.point(null);
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step || !this.points.length) return;
    event.preventDefault();
    if (!this.current) return this.point(this.points[0]);
    const [x0, y0] = this.place(this.current);
    let best = this.current;
    let reach = Infinity;
    for (const item of this.points) {
      const [x, y] = this.place(item);
      const along = (x - x0) * step[0] + (y - y0) * step[1];
      const across = Math.abs((x - x0) * step[1]) + Math.abs((y - y0) * step[0]);
      if (along > 0 && along + 2 * across < reach) [best, reach] = [item, along + 2 * across];
    }
    this.point(best);
  }

  point(item) {
    if (item === this.current) return;
    this.current = item;
    this.canvas.classList.toggle("over", Boolean(item));
    this.tip.hidden = !item;
    if (item) {
      this.describe(this.tip, item);
      const [x, y] = this.place(item);
      const { offsetWidth: width, offsetHeight: height } = this.tip;
      const left = Math.min(Math.max(0, x - width / 2), this.canvas.clientWidth - width);
      const above = y - height - 12;
      this.tip.style.setProperty("left", `${Math.max(0, left)}px`);
      this.tip.style.setProperty("top", `${above > -40 ? above : y + 14}px`);
    }
    this.draw();
  }

  draw() {
    const { canvas } = this;
    const [width, height] = ([this.width, this.height] = [canvas.clientWidth, canvas.clientHeight]);
    if (!this.seen || !width || !height) return; // scrolled away: it is drawn when it comes back
    const radius = this.radius * (width < 500 ? 0.75 : 1);
    const scale = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const style = getComputedStyle(canvas);
    const value = (name) => style.getPropertyValue(name).trim();
    const [light, step, chroma] = ["--light", "--tier-step", "--chroma"].map((name) => Number(value(name)));
    const tones = this.classes.map((_, k) => {
      const { hue, tier } = classTone(k, this.classes.length);
      return `oklch(${light + tier * step} ${chroma} ${hue})`;
    });
    tones.push(value("--unknown")); // of examples of none of the classes
    const paths = new Map(); // one path for each way of drawing: a fill for each class, not for each point
    for (const item of this.points) {
      const { kind, dim } = this.look(item);
      const key = `${dim ? 0 : 1} ${["unknown", "known", "example"].indexOf(kind)} ${kind === "unknown" ? 0 : item.closest}`;
      if (!paths.has(key)) paths.set(key, new Path2D());
      const [x, y] = this.place(item);
      if (kind === "example") star(paths.get(key), x, y, radius * 1.9);
      else {
        paths.get(key).moveTo(x + radius, y);
        paths.get(key).arc(x, y, kind === "known" ? radius : radius - 0.75, 0, 7);
      }
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    for (const [key, path] of [...paths].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const [bright, kind, k] = key.split(" ").map(Number); // dimmed first, then unknown, known, examples on top
      pen.globalAlpha = bright ? (kind === 1 ? 0.85 : 1) : 0.12;
      pen.fillStyle = tones[k];
      pen.lineWidth = kind === 0 ? 1.25 : 1;
      pen.strokeStyle = value(kind === 0 ? "--unknown" : "--sheet");
      if (kind) pen.fill(path);
      if (kind !== 1 || radius > 4) pen.stroke(path);
    }
    if (this.current) {
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.arc(...this.place(this.current), radius + 5, 0, 7);
      pen.strokeStyle = value("--ink");
      pen.lineWidth = 2;
      pen.stroke();
    }
    canvas.dataset.points = this.points.length;
  }
}

function star(path, x, y, radius) {
  for (let corner = 0; corner < 10; corner += 1) {
    const angle = (corner * Math.PI) / 5 - Math.PI / 2;
    const r = corner % 2 ? radius * 0.45 : radius;
    path[corner ? "lineTo" : "moveTo"](x + r * Math.cos(angle), y + r * Math.sin(angle));
  }
  path.closePath();
}
