// Square matrices over functions: a picture of the cells, on it groups, names and frames, and one crosshair for all of them.

const SIDE = 8; // dots of a cell in the picture
const NEITHER = [[190, 196, 203], [128, 137, 147]]; // hatched: what no graph has

// cells(row, column) -> number from 0 to 1, null for no number, undefined for what no graph has; order: functions by row;
// tell(row, column) -> text; frames: [[row, column, height, width]]
function matrix({ label, view, order, cells, tell: words, frames = [], kind }) {
  const size = order.length;
  const names = order.map((at) => view.facts.functions[at]);
  const canvas = el("canvas", { width: size * SIDE, height: size * SIDE, role: "img", tabindex: "0", "aria-label": `${label}. Arrow keys walk through the cells.` });
  paint(canvas, size, cells);
  const output = el("output", { "aria-live": "polite" });
  const lines = ["across", "down"].map((way) => el("i", { class: `crosshair ${way}`, hidden: true }));
  const point = (row, column, speak = true) => {
    const inside = row >= 0 && column >= 0 && row < size && column < size;
    crosshair(view, inside ? [order[row], order[column]] : null);
    if (speak) output.textContent = inside ? words(row, column) : "";
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientY - box.top, event.clientX - box.left].map((distance) => Math.floor((distance / box.width) * size));
  };
  let place = null;
  canvas.addEventListener("pointermove", (event) => point(...at(event)));
  canvas.addEventListener("pointerleave", () => point(-1, -1));
  canvas.addEventListener("blur", () => { place = null; point(-1, -1); });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    place = place ? place.map((one, axis) => Math.min(Math.max(one + move[axis], 0), size - 1)) : [0, 0];
    point(...place);
  });
  const box = el("div", { class: "matrix", "data-kind": kind }, el("div", { class: "field" }, canvas, margins(view, order, names, frames), lines), output);
  box.aim = (pair) => {
    const found = pair && pair.map((name) => names.indexOf(name));
    lines.forEach((line, axis) => {
      line.hidden = !found || found[axis] < 0;
      if (!line.hidden) line.style.setProperty(axis ? "left" : "top", `${(100 * found[axis]) / size}%`);
      line.style.setProperty(axis ? "width" : "height", `${100 / size}%`);
    });
  };
  return box;
}

// The same pair of functions, in every matrix.
function crosshair(view, pair) {
  const names = pair && pair.map((at) => view.facts.functions[at]);
  for (const box of document.querySelectorAll(".matrix")) box.aim(names);
}

function paint(canvas, size, cells) {
  const context = canvas.getContext("2d");
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      const value = cells(row, column);
      context.fillStyle = rgb(known(value) ? heat(value) : NEITHER[0]);
      context.fillRect(column * SIDE, row * SIDE, SIDE, SIDE);
      if (value !== undefined) continue;
      context.fillStyle = rgb(NEITHER[1]);
      for (let dot = 0; dot < SIDE; dot++) for (const shift of [0, SIDE / 2]) context.fillRect(column * SIDE + dot, row * SIDE + ((SIDE - 1 - dot + shift) % SIDE), 1, 1);
    }
  }
}

// Groups as strips, names of functions where there is room, and frames; it has the theme's colours, also on paper.
function margins(view, order, names, frames) {
  const size = order.length;
  const chart = svg("svg", { class: "margins", viewBox: `0 0 ${size} ${size}`, "aria-hidden": "true" });
  const unit = size / 32; // so that margins are as wide with any number of functions
  const small = size <= 40 && names.every((name) => name.length < 3);
  order.forEach((at, place) => {
    const colour = groupColour(view.groupOf[at]);
    chart.append(svg("rect", { x: place, y: -0.75 * unit, width: 1, height: 0.55 * unit, fill: colour }), svg("rect", { y: place, x: -0.75 * unit, width: 0.55 * unit, height: 1, fill: colour }));
    if (!small) return;
    const text = (x, y) => svg("text", { x, y, "text-anchor": "middle" }, names[place]);
    chart.append(text(place + 0.5, -1.05 * unit), text(-1.3 * unit, place + 0.5 + 0.3 * unit));
  });
  chart.style.setProperty("--unit", unit);
  for (const kind of ["under", "over"]) for (const [row, column, height, width] of frames) chart.append(svg("rect", { class: `frame ${kind}`, x: column, y: row, width, height }));
  return chart;
}

// A small matrix without names, one pixel a cell, enlarged by the style sheet.
function thumbnail(size, cells) {
  const canvas = el("canvas", { width: size, height: size, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  for (let at = 0; at < size * size; at++) {
    const value = cells(Math.floor(at / size), at % size);
    image.data.set([...(known(value) ? heat(value) : NEITHER[0]), 255], 4 * at);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
