// Charts by hand: axes, seeds as a swarm on a line, intervals, lines and dots in a frame, and any of them as an SVG file.

// Round numbers from low to high, in steps of 1, 2 or 5 times a power of ten.
function ticks(low, high, most = 5) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

const percentOf = (share) => `${(100 * Math.min(Math.max(share, 0), 1)).toFixed(3)}%`;

// Something drawn around a place of a line that is as wide as there is room.
const spot = (share, y, ...children) => svg("svg", { x: percentOf(share), y, overflow: "visible" }, ...children);
const diamond = (kind, size = 6) => svg("path", { class: kind, d: `M0,${-size}L${size},0L0,${size}L${-size},0Z` });
const square = (kind, size = 4) => svg("rect", { class: kind, x: -size, y: -size, width: 2 * size, height: 2 * size });
const cross = (x, y, size, kind = "") => svg("path", { class: `cross ${kind}`, d: `M${x - size},${y - size}l${2 * size},${2 * size}m0,${-2 * size}l${-2 * size},${2 * size}` });

const [NOMINAL, RADIUS, LAYERS] = [560, 3.6, [0, -4.2, 4.2, -8.4, 8.4, -12, 12]];

// Points without those they hide: each gets `dy`; where a pile has no room left its place gets the count of its points.
function swarm(points) {
  const placed = [];
  const piles = new Map();
  for (const point of [...points].sort((a, b) => a.value - b.value)) {
    const near = placed.filter((other) => Math.abs(other.value - point.value) * NOMINAL < 2 * RADIUS);
    const layer = LAYERS.find((dy) => near.every((other) => Math.hypot((other.value - point.value) * NOMINAL, other.dy - dy) >= 4.1));
    point.dy = layer ?? 0;
    if (layer === undefined) {
      const key = [...piles.keys()].find((value) => Math.abs(value - point.value) * NOMINAL < 40) ?? point.value;
      piles.set(key, points.filter((other) => Math.abs(other.value - key) * NOMINAL < 12).length);
    }
    placed.push(point);
  }
  return piles;
}

// A line from 0 to 1 with a dot per seed. points: [{ value, kind, title, run, seed }]; marks: drawn below and above the dots.
function strip({ points, label, height = 30, lines = [], below = [], above = [], colour = "var(--ink)", open }) {
  const middle = height / 2;
  const dots = points.filter((point) => known(point.value));
  const piles = swarm(dots);
  const chart = svg("svg", { class: "strip", width: "100%", height, role: open ? "application" : "img", "aria-label": label, ...(open ? { tabindex: "0" } : {}) });
  for (const [value, kind] of lines) if (known(value)) chart.append(svg("line", { class: kind, x1: percentOf(value), x2: percentOf(value), y1: 0, y2: height }));
  fill(chart, below);
  for (const point of dots) chart.append(svg("circle", { class: `dot ${point.kind ?? ""}`, cx: percentOf(point.value), cy: middle + point.dy, r: point.size ?? RADIUS, fill: colour, stroke: colour, "data-seed": point.seed }));
  fill(chart, above);
  for (const [value, count] of piles) {
    const side = value < 0.5 ? { x: -12, "text-anchor": "end" } : { x: 10 }; // where there is room
    chart.append(spot(value > 0.9 ? 1 : value, middle, svg("text", { class: "pile", y: 4, ...side }, `×${count}`)));
  }
  if (open) choosable(chart, dots, (point, box) => [box.left + box.width * Math.min(Math.max(point.value, 0), 1), box.top + middle + point.dy], open);
  return chart;
}

// The nearest point is told and can be chosen: with the pointer, or with the arrow keys and Enter.
function choosable(chart, points, placeOf, open) {
  const order = [...points].sort((a, b) => a.value - b.value);
  let at = -1;
  const ring = svg("circle", { class: "ring", r: RADIUS + 3, visibility: "hidden" });
  chart.append(ring);
  const mark = (point) => {
    ring.setAttribute("visibility", point ? "visible" : "hidden");
    if (!point) { tell(null, ""); return; }
    const box = chart.getBoundingClientRect();
    const [clientX, clientY] = placeOf(point, box);
    ring.setAttribute("cx", clientX - box.left);
    ring.setAttribute("cy", clientY - box.top);
    tell({ clientX, clientY }, point.title);
  };
  const nearest = (event) => {
    const box = chart.getBoundingClientRect();
    const far = (point) => { const [x, y] = placeOf(point, box); return Math.hypot(x - event.clientX, y - event.clientY); };
    const found = points.reduce((best, point) => (best && far(best) <= far(point) ? best : point), null);
    return found && far(found) < 16 ? found : null;
  };
  chart.addEventListener("pointermove", (event) => { const found = nearest(event); chart.style.cursor = found ? "pointer" : ""; mark(found); });
  chart.addEventListener("pointerleave", () => mark(null));
  chart.addEventListener("blur", () => { at = -1; mark(null); });
  chart.addEventListener("click", (event) => { const found = nearest(event); if (found) open(found, event.shiftKey); });
  chart.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && at >= 0) open(order[at], event.shiftKey);
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || !order.length) return;
    event.preventDefault();
    at = Math.min(Math.max(at + move, 0), order.length - 1);
    mark(order[at]);
  });
}

// The axis below strips, with chance named; its other ticks keep clear of that word.
function stripAxis(chance, name) {
  const chart = svg("svg", { class: "strip axisrow", width: "100%", height: 32, "aria-hidden": "true" });
  for (const tick of ticks(0, 1, 4)) chart.append(svg("text", { x: percentOf(tick), y: 12, "text-anchor": "middle" }, String(tick)));
  if (known(chance)) chart.append(svg("text", { x: percentOf(chance), y: 12, "text-anchor": "middle" }, "chance"));
  chart.append(svg("text", { x: "50%", y: 28, "text-anchor": "middle" }, name));
  return chart;
}

// A line from −1 to 1 with a coefficient and its interval.
function coefficient(r, low, high) {
  const share = (value) => (value + 1) / 2;
  const chart = svg("svg", { class: "strip", width: "100%", height: 26, role: "img", "aria-label": `${signed(r)} ${range([low, high], signed)}` });
  for (const value of [-1, -0.5, 0, 0.5, 1]) chart.append(svg("line", { class: value ? "axis" : "zero", x1: percentOf(share(value)), x2: percentOf(share(value)), y1: 0, y2: 26 }));
  if (known(low)) chart.append(svg("line", { class: "bar-line", x1: percentOf(share(low)), x2: percentOf(share(high)), y1: 13, y2: 13 }));
  if (known(r)) chart.append(spot(share(r), 13, square("mean")));
  return chart;
}

// Numbers of one axis, each in as many digits as tell them apart.
function written(places, value = (place) => place) {
  const write = (number, digits) => (number !== 0 && (Math.abs(number) < 0.001 || Math.abs(number) >= 1e5) ? number.toExponential(digits - 1) : String(Number(number.toPrecision(digits))));
  const texts = (digits) => places.map((place) => write(value(place), digits));
  return texts([2, 3, 4].find((count) => new Set(texts(count)).size === places.length) ?? 5);
}

// Dots and lines in a frame. x, y: { low, high, name, ticks: [[place, text]…]}; lines: [{ points: [[x, y]…], kind, colour, dash, title, name }];
// points: [{ x, y, kind, title, diverged }]; a line's name stands at its end.
function frame({ x, y, lines = [], points = [], label, width = 300, height = 190, right = 14, levels = [], open }) {
  const [left, top, bottom] = [y.name ? 50 : 38, 8, x.name ? 38 : 22];
  const scale = (axis, from, to) => (value) => from + (to - from) * ((value - axis.low) / (axis.high - axis.low || 1));
  const [px, py] = [scale(x, left, width - right), scale(y, height - bottom, top)];
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: open ? "application" : "img", "aria-label": label, ...(open ? { tabindex: "0" } : {}) });
  for (const [value, text] of y.ticks) chart.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: py(value), y2: py(value) }), svg("text", { x: left - 5, y: py(value) + 4, "text-anchor": "end" }, text));
  for (const [value, text] of x.ticks) chart.append(svg("text", { x: px(value), y: height - bottom + 14, "text-anchor": "middle" }, text));
  if (x.name) chart.append(svg("text", { class: "name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, x.name));
  if (y.name) chart.append(svg("text", { class: "name", x: 12, y: (top + height - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(top + height - bottom) / 2})` }, y.name));
  for (const [value, kind] of levels) if (known(value)) chart.append(svg("line", { class: kind, x1: left, x2: width - right, y1: py(value), y2: py(value) }));
  for (const { points: path, kind, colour, dash, title } of lines) {
    const css = { ...(colour ? { stroke: colour } : {}), ...(dash ? { "stroke-dasharray": dash } : {}) };
    const made = path.length === 1 ? svg("circle", { class: kind, cx: px(path[0][0]), cy: py(path[0][1]), r: 3 })
      : svg("polyline", { class: kind, points: path.map(([a, b]) => `${px(a).toFixed(1)},${py(b).toFixed(1)}`).join(" ") });
    for (const [key, value] of Object.entries(css)) made.style.setProperty(key, value);
    chart.append(fill(made, [svg("title", {}, title)]));
  }
  nameEnds(chart, lines.filter((line) => line.name && line.points.length), px, py, [top + 4, height - bottom]);
  for (const point of points) chart.append(point.diverged ? cross(px(point.x), py(point.y), 4, point.kind) : svg("circle", { class: `dot ${point.kind ?? ""}`, cx: px(point.x), cy: py(point.y), r: 4.5, "data-seed": point.seed }));
  if (open) choosable(chart, points.map((point) => ({ ...point, value: point.x })), (point, box) => [box.left + (px(point.x) * box.width) / width, box.top + (py(point.y) * box.height) / height], open);
  return chart;
}

// The name of each line at its end, moved apart where they would overlap.
function nameEnds(chart, lines, px, py, [top, bottom]) {
  const ends = lines.map((line) => ({ ...line, at: py(line.points.at(-1)[1]), end: px(line.points.at(-1)[0]) })).sort((a, b) => a.at - b.at);
  ends.forEach((end, place) => { end.at = Math.max(end.at, place ? ends[place - 1].at + 13 : top); });
  for (let place = ends.length - 1, floor = bottom; place >= 0; place--, floor = ends[place + 1].at - 13) ends[place].at = Math.min(ends[place].at, floor);
  for (const { at, end, colour, name } of ends) {
    const text = svg("text", { class: "line-name", x: end + 6, y: at + 4 }, name);
    if (colour) text.style.setProperty("fill", colour);
    chart.append(text);
  }
}

const SHARES = [[0, "0"], [0.25, ".25"], [0.5, ".5"], [0.75, ".75"], [1, "1"]];
const ACCURACY = { low: 0, high: 1, ticks: SHARES };

// What a style sheet says of a drawing, written into it.
const STYLED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "text-anchor", "paint-order", "visibility", "vector-effect"];
function styledCopy(drawing) {
  const copy = drawing.cloneNode(true);
  const [from, to] = [drawing, copy].map((one) => [one, ...one.querySelectorAll("*")]);
  from.forEach((one, at) => { const style = getComputedStyle(one); for (const name of STYLED) to[at].setAttribute(name, style.getPropertyValue(name)); });
  copy.setAttribute("overflow", "visible");
  return copy;
}

// The lines of a text as the page has broken it: [[words, box]…]
function linesOf(node) {
  const lines = [];
  for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    const letters = document.createRange();
    letters.setStart(node, index);
    letters.setEnd(node, index + word.length);
    const box = letters.getBoundingClientRect();
    if (lines.length && Math.abs(lines.at(-1)[1].top - box.top) < 2) lines.at(-1)[0] += ` ${word}`;
    else lines.push([word, box]);
  }
  return lines;
}

// An element of the page as one SVG: its drawings and matrices where they stand, and its words.
function pictureOf(element) {
  const frame = element.getBoundingClientRect();
  const picture = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width: Math.ceil(frame.width), height: Math.ceil(frame.height), viewBox: `0 0 ${Math.ceil(frame.width)} ${Math.ceil(frame.height)}` },
    svg("rect", { width: "100%", height: "100%", fill: "#ffffff" }));
  const place = (box) => ({ x: (box.left - frame.left).toFixed(1), y: (box.top - frame.top).toFixed(1), width: box.width.toFixed(1), height: box.height.toFixed(1) });
  for (const one of [element, ...element.querySelectorAll("*")]) {
    const box = one.getBoundingClientRect();
    if (!box.width || !box.height || one.closest("button.plain, .segments, .unseen, select, input") || one.parentElement.closest("svg")) continue;
    const style = getComputedStyle(one);
    if (one.tagName === "CANVAS") picture.append(svg("image", { ...place(box), href: one.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated" }));
    else if (one.tagName === "svg") picture.append(Object.entries(place(box)).reduce((copy, [name, value]) => (copy.setAttribute(name, value), copy), styledCopy(one)));
    else if (style.backgroundColor !== "rgba(0, 0, 0, 0)" && (one.tagName === "TD" || one.tagName === "I" || one.className.includes("chip"))) picture.append(svg("rect", { ...place(box), rx: Number.parseFloat(style.borderRadius) > 10 ? 9 : 2, fill: style.backgroundColor }));
    for (const node of one.tagName === "svg" ? [] : one.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE || !node.data.trim()) continue;
      for (const [words, line] of linesOf(node)) picture.append(svg("text", { x: (line.left - frame.left).toFixed(1), y: (line.top - frame.top + line.height * 0.77).toFixed(1), fill: style.color, "font-size": style.fontSize, "font-weight": style.fontWeight, "font-family": "system-ui, sans-serif" }, words));
    }
  }
  return new XMLSerializer().serializeToString(picture);
}

function saveSvg(name, element) {
  const { theme } = document.documentElement.dataset;
  document.documentElement.dataset.theme = "light"; // for paper
  save(`${name}.svg`, "image/svg+xml", pictureOf(element));
  document.documentElement.dataset.theme = theme;
}

const svgButton = (name, find) => button("SVG", () => saveSvg(name, find()), { class: "plain export", title: "Save this chart as an SVG file", "aria-label": `Save ${name} as SVG` });
