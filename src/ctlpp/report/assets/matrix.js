// Square matrices over functions on a canvas, with the groups as strips, names, and a cell to walk with the arrow keys.

// cells(row, column) -> number from 0 to 1 or null; tell(row, column) -> text; frames: [[row, column, height, width]]
function matrix({ label, names, groups, cells, tell, frames = [], rows = "", columns = "" }) {
  const size = names.length;
  const canvas = el("canvas", { role: "img", tabindex: "0", "aria-label": `${label}. Arrow keys walk through the cells.` });
  const output = el("output", { "aria-live": "polite" });
  const hint = rows ? `Rows: ${rows}; columns: ${columns}.` : "";
  output.textContent = hint;
  const place = { row: 0, column: 0, walking: false, left: 0, cell: 1 };
  const draw = () => drawMatrix(canvas, { size, names, groups, cells, frames, place });
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const inside = (distance) => Math.floor((distance - place.left) / place.cell);
    return [inside(event.clientY - box.top), inside(event.clientX - box.left)];
  };
  const say = (row, column) => { output.textContent = row >= 0 && column >= 0 && row < size && column < size ? tell(row, column) : hint; };
  canvas.addEventListener("mousemove", (event) => say(...at(event)));
  canvas.addEventListener("mouseleave", () => { output.textContent = hint; });
  canvas.addEventListener("blur", () => { place.walking = false; output.textContent = hint; draw(); });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    if (place.walking) {
      place.row = Math.min(Math.max(place.row + move[0], 0), size - 1);
      place.column = Math.min(Math.max(place.column + move[1], 0), size - 1);
    }
    place.walking = true;
    say(place.row, place.column);
    draw();
  });
  watchSize.observe(canvas);
  canvas.redraw = draw;
  return el("div", { class: "matrix", css: { "max-width": `${Math.min(460, 120 + 30 * size)}px` } }, canvas, output);
}

const watchSize = new ResizeObserver((entries) => { for (const { target } of entries) target.redraw?.(); });
const redrawAll = () => { for (const canvas of document.querySelectorAll("canvas")) canvas.redraw?.(); };

function drawMatrix(canvas, { size, names, groups, cells, frames, place }) {
  const side = canvas.clientWidth;
  if (!side) return;
  const ratio = Math.max(window.devicePixelRatio || 1, 1);
  canvas.width = canvas.height = Math.round(side * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const cell = (side - 26) / size;
  const left = side - cell * size - 1;
  Object.assign(place, { left, cell });
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      const value = cells(row, column);
      context.fillStyle = value === null ? style.getPropertyValue("--soft") : rgb(heat(value));
      context.fillRect(left + column * cell, left + row * cell, cell + 0.5, cell + 0.5);
    }
  }
  drawStrips(context, { size, names, groups, cell, left, ink: style.getPropertyValue("--quiet") });
  for (const [row, column, height, width] of frames) drawFrame(context, left + column * cell, left + row * cell, width * cell, height * cell);
  if (place.walking) {
    context.strokeStyle = "#ffffff";
    context.strokeRect(left + place.column * cell, left + place.row * cell, cell, cell);
    context.strokeStyle = "#000000";
    context.lineWidth = 1;
    context.strokeRect(left + place.column * cell - 1.5, left + place.row * cell - 1.5, cell + 3, cell + 3);
  }
}

// Black with white dashes, so that it shows on any colour.
function drawFrame(context, x, y, width, height) {
  for (const [colour, line, dashes] of [["#000000", 3, []], ["#ffffff", 1.4, [5, 4]]]) {
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.setLineDash(dashes);
    context.strokeRect(x + 2, y + 2, width - 4, height - 4);
  }
  context.setLineDash([]);
  context.lineWidth = 2;
}

function drawStrips(context, { size, names, groups, cell, left, ink }) {
  context.font = `${Math.min(11, Math.max(7, cell))}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let at = 0; at < size; at++) {
    const start = left + at * cell;
    context.fillStyle = groupColour(groups[at]);
    context.fillRect(start, left - 8, cell + 0.3, 6);
    context.fillRect(left - 8, start, 6, cell + 0.3);
    if (cell < 6.5 || names[at].length > 2) continue;
    context.fillStyle = ink;
    context.fillText(names[at], start + cell / 2, left - 15);
    context.fillText(names[at], left - 15, start + cell / 2);
  }
}

// A small matrix without names, one pixel a cell, enlarged by the style sheet.
function thumbnail(size, cells) {
  const canvas = el("canvas", { width: size, height: size, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  for (let at = 0; at < size * size; at++) {
    const value = cells(Math.floor(at / size), at % size);
    image.data.set([...(value === null ? [136, 136, 136] : heat(value)), 255], 4 * at);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
