// Charts as SVG: a row of seeds beside a published number, curves over training, a measure against accuracy.

// Seeds as dots, mean with its interval, and the published mean with the interval that its deviation allows.
function forest(values, summary, published) {
  const x = (value) => 8 + 214 * Math.min(Math.max(value, 0), 1);
  const text = `${plural(values.length, "seed")}, mean ${fixed(summary.mean)}, interval ${range(summary.interval)}` +
    (published ? `; published ${fixed(published.mean)}, interval ${range(published.interval)}` : "");
  const chart = svg("svg", { class: "forest", viewBox: "0 0 230 34", role: "img", "aria-label": text });
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) chart.append(svg("line", { class: "axis", x1: x(tick), x2: x(tick), y1: 3, y2: 31 }));
  for (const [at, value] of values.entries()) chart.append(svg("circle", { class: "dot", cx: x(value), cy: 10 + (at % 3) * 2.2, r: 2.6 }));
  if (summary.interval) chart.append(svg("line", { class: "ours", x1: x(summary.interval[0]), x2: x(summary.interval[1]), y1: 20, y2: 20 }));
  if (known(summary.mean)) chart.append(svg("line", { class: "ours", x1: x(summary.mean), x2: x(summary.mean), y1: 16, y2: 24 }));
  if (published) {
    const { mean, interval: [low, high] } = published;
    chart.append(svg("line", { class: "theirs", x1: x(low), x2: x(high), y1: 28, y2: 28 }));
    chart.append(svg("circle", { class: "theirs", cx: x(mean), cy: 28, r: 3.2 }));
  }
  return chart;
}

// lines: [{ points: [[x, y]…], kind, title }]; x from 0 to `last`, y within [low, high]
function curves({ lines, last, low = 0, high = 1, ticks, label }) {
  const [width, height, left, bottom] = [280, 180, 42, 24];
  const x = (step) => left + (width - left - 12) * (last ? step / last : 0.5);
  const y = (value) => 8 + (height - 8 - bottom) * (1 - (value - low) / (high - low || 1));
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const [value, text] of ticks) {
    chart.append(svg("line", { class: "axis", x1: left, x2: width - 12, y1: y(value), y2: y(value) }));
    chart.append(svg("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  for (const part of [0, 0.5, 1]) {
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    chart.append(svg("text", { x: x(part * last), y: height - 6, "text-anchor": anchor }, thousands(Math.round(part * last)) + (part === 1 ? " steps" : "")));
  }
  for (const { points, kind, title } of lines) {
    const path = points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    chart.append(points.length === 1
      ? svg("circle", { class: kind, cx: x(points[0][0]), cy: y(points[0][1]), r: 3 }, svg("title", {}, title))
      : svg("polyline", { class: kind, points: path }, svg("title", {}, title)));
  }
  return chart;
}

// Places on an axis, each with its number in as many digits as tell them apart; [[place, text]…]
function distinct(places, value) {
  const write = (number, digits) => (number < 0.01 ? number.toExponential(digits - 1) : number.toPrecision(digits));
  const texts = (digits) => places.map((place) => write(value(place), digits));
  const digits = [2, 3, 4].find((count) => new Set(texts(count)).size === places.length) ?? 5;
  const found = new Map(texts(digits).map((text, at) => [text, places[at]]));
  return [...found].map(([text, place]) => [place, text]);
}

const SHARES = [[0, "0"], [0.25, ".25"], [0.5, ".5"], [0.75, ".75"], [1, "1"]];

// A seed that diverged.
const cross = (x, y, size, kind = "") => svg("path", { class: `cross ${kind}`, d: `M${x - size},${y - size}l${2 * size},${2 * size}m0,${-2 * size}l${-2 * size},${2 * size}` });

// points: [{ x, y, title, chosen, diverged }]
function scatter(points, label) {
  const [width, height, left, bottom] = [240, 150, 30, 22];
  const xs = points.map((point) => point.x);
  let [low, high] = [Math.min(...xs, 0), Math.max(...xs, 1)];
  const x = (value) => left + (width - left - 10) * ((value - low) / (high - low));
  const y = (value) => 6 + (height - 6 - bottom) * (1 - value);
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const tick of [0, 0.5, 1]) {
    chart.append(svg("line", { class: "axis", x1: left, x2: width - 10, y1: y(tick), y2: y(tick) }));
    chart.append(svg("text", { x: left - 5, y: y(tick) + 4, "text-anchor": "end" }, String(tick)));
  }
  chart.append(svg("text", { x: left, y: height - 6 }, fixed(low, low % 1 ? 1 : 0)));
  chart.append(svg("text", { x: width - 10, y: height - 6, "text-anchor": "end" }, fixed(high, high % 1 ? 1 : 0)));
  for (const point of [...points].sort((a, b) => a.chosen - b.chosen)) {
    const [kind, size] = point.chosen ? ["chosen", 5] : ["", 4];
    const mark = point.diverged ? cross(x(point.x), y(point.y), size, kind) : svg("circle", { class: `dot ${kind}`, cx: x(point.x), cy: y(point.y), r: size });
    chart.append(fill(mark, [svg("title", {}, point.title)]));
  }
  return chart;
}
