// The grid of S, accuracy by length, and curves over training.

// Settings that differ in anything but the cell, or that have other data, have a grid of their own.
function makeGrids() {
  const grids = [];
  for (const setting of cells) {
    const conditions = [["data", setting.data], ["hyper-parameters", setting.first.hyper], ...[...keyed(setting.first)].map(([key, value]) => [key.split(" ")[1], value])];
    const fits = (grid) => grid.model === setting.first.model && String(grid.conditions) === String(conditions) && !grid.cells.has(String(setting.cell));
    const grid = grids.find(fits) ?? { model: setting.first.model, conditions, cells: new Map() };
    if (!grid.cells.size) grids.push(grid);
    grid.cells.set(String(setting.cell), setting);
  }
  return grids;
}

// What tells a grid from the others of its model.
function tellApart(grid, grids) {
  const others = grids.filter((other) => other.model === grid.model).map((other) => new Map(other.conditions));
  return grid.conditions.filter(([name, value], at) => at < 1 || others.some((other) => other.get(name) !== value)).map(([name, value]) => (name === "data" ? value : `${name} ${value}`)).join(", ");
}

function stagedCell(setting) {
  if (!setting) return heatCell(null, "", { empty: "absent" });
  const { mean, std, seeds, diverged } = setting.summary.ood;
  const cell = heatCell(mean, [fixed(mean), el("small", {}, known(std) ? `± ${fixed(std)}` : ""), el("small", {}, plural(seeds, "seed")), diverged > 0 && el("small", {}, `+ ${diverged} diverged`)]);
  if (known(mean)) cell.replaceChildren(el("button", { type: "button", title: "Look inside", on: { click: () => look(setting, showcase(setting)) } }, ...cell.childNodes));
  return cell;
}

function showStaged() {
  const grids = makeGrids();
  byId("staged").hidden = byId("staged-link").hidden = !grids.length;
  const counts = (grid, axis) => unique([...grid.cells.values()].map((setting) => setting.cell[axis])).sort((a, b) => a - b);
  const row = (grid, functions) => el("tr", {}, el("th", { scope: "row" }, functions), counts(grid, 1).map((symbols) => stagedCell(grid.cells.get(`${functions},${symbols}`))));
  show("staged-body", el("div", { class: "tables" }, grids.map((grid, at) => {
    const made = el("table", { class: "heat" }, el("caption", { class: "unseen" }, `OOD accuracy of ${titleOf(grid.model)} by shared functions and shared symbols`),
      el("thead", {}, el("tr", {}, el("td", { class: "corner" }, "functions ↓ symbols →"), counts(grid, 1).map((count) => el("th", { scope: "col" }, count)))),
      el("tbody", {}, counts(grid, 0).map((functions) => row(grid, functions))));
    return el("div", {}, el("h3", {}, titleOf(grid.model), " ", svgButton(`grid-${at + 1}`, () => made)), el("p", { class: "small quiet" }, tellApart(grid, grids)), scrolling(`Grid of S, ${titleOf(grid.model)}`, made),
      Object.hasOwn(data.staged, grid.model) && el("p", { class: "small staged-text" }, data.staged[grid.model]));
  })));
}

const SHORT_DATA = { authors: "generator", repeats: "repeats", clean: "no repeats", text: "text" };

// Accuracy against the number of functions: a small chart per model and variant, a line per data setting.
function showLengths() {
  const { split } = chosen;
  const lengthsOf = (setting) => Object.keys(setting.lengths[split]).map(Number).sort((a, b) => a - b);
  const shown = main.filter((setting) => !setting.table && lengthsOf(setting).length);
  const every = unique(shown.flatMap(lengthsOf)).sort((a, b) => a - b);
  const order = (name) => [["R", "A"].indexOf(name.split(" on ")[1]) + 3, ...Object.values(data.titles).map((title) => !name.startsWith(title))].join();
  const dashes = { authors: "", repeats: "7 3", clean: "3 3", text: "1 3" };
  const chart = (name) => {
    const lines = shown.filter((setting) => onVariant(setting) === name).sort((a, b) => rank(a) - rank(b)).map((setting) => ({ points: lengthsOf(setting).map((length) => [length, setting.lengths[split][length]]).filter(([, mean]) => known(mean)),
      kind: "meanline", colour: colourOf(setting), dash: dashes[setting.first.data], title: setting.label, name: SHORT_DATA[setting.first.data] ?? setting.label.slice(0, 14) }));
    return el("figure", {}, el("figcaption", {}, el("b", {}, name)), frame({ x: { low: every[0], high: every.at(-1), ticks: every.map((length) => [length, String(length)]) }, y: ACCURACY, lines, right: 76, width: 400, height: 165, label: `${split.toUpperCase()} accuracy of ${name} by number of functions` }));
  };
  const made = el("div", { class: "grid three" }, unique(shown.map(onVariant)).sort((a, b) => order(a).localeCompare(order(b)) || a.localeCompare(b)).slice(0, 12).map(chart));
  show("lengths", el("div", { class: "bar" }, el("h3", {}, "Accuracy by number of functions"), segments("Split", [["iid", "IID"], ["ood", "OOD"]], split, set("split", false)), svgButton("lengths", () => made)),
    shown.length ? made : el("p", {}, "The runs do not say."));
}

// Lines of all seeds of a setting, over its runs.
async function curvesOf(setting) {
  const found = { iid: [], ood: [], loss: [], share: new Map(), last: 0, missing: null };
  for (const run of setting.runs) {
    const { facts, arrays } = await packageOf(run);
    if (!facts.curves) { found.missing = `${data.runs[run].name}: ${facts.curves_missing}.`; continue; }
    const { steps, seeds, loss } = facts.curves;
    found.last = Math.max(found.last, steps.at(-1));
    const own = seeds.map((seed, column) => [seed, column]).filter(([seed]) => setting.home.get(seed) === run);
    for (const [name, value] of [["iid", (share) => share], ["ood", (share) => share], ["loss", (share) => loss[0] + share * (loss[1] - loss[0])]]) {
      const array = arrays[`curve_${name}`];
      if (!array) continue;
      for (const [seed, column] of own) {
        const points = steps.map((step, at) => [step, array[at * seeds.length + column]]).filter(([, level]) => level !== 255).map(([step, level]) => [step, value(level / 254)]);
        if (points.length) found[name].push({ seed, points, title: `seed ${seed}` });
        if (name === "ood") for (const [step, ood] of points) found.share.set(step, [...(found.share.get(step) ?? []), ood > data.solved ? 1 : 0]);
      }
    }
  }
  return found;
}

async function showCurves(setting) {
  const { iid, ood, loss, share, last, missing: reason } = await curvesOf(setting);
  const same = chosen.otherSetting === setting;
  const kind = (seed) => (seed === chosen.seed ? "seedline left" : same && seed === chosen.otherSeed ? "seedline right" : "seedline");
  const drawn = (lines) => lines.map((line) => ({ ...line, kind: kind(line.seed) })).sort((a, b) => a.kind.length - b.kind.length);
  const places = ticks(0, last, 3);
  const x = { low: 0, high: last, ticks: places.map((place) => [place, thousands(place)]), name: "training steps" };
  const charts = [];
  const add = (heading, y, lines, label) => lines.length > 0 && charts.push(el("figure", {}, el("figcaption", {}, el("b", {}, heading)), frame({ x, y, lines, label, right: 24 })));
  add("IID accuracy", ACCURACY, drawn(iid), "IID accuracy of every seed over training");
  add("OOD accuracy", ACCURACY, drawn(ood), "OOD accuracy of every seed over training");
  add(`Share of seeds above ${data.solved} OOD`, ACCURACY, share.size ? [{ points: [...share].sort((a, b) => a[0] - b[0]).map(([step, own]) => [step, average(own)]), kind: "meanline", title: "share of seeds" }] : [], "Share of solved seeds over training");
  const levels = loss.flatMap(({ points }) => points.map(([, level]) => level));
  if (levels.length) {
    const [low, high] = [levels.reduce((a, b) => Math.min(a, b)), levels.reduce((a, b) => Math.max(a, b))];
    const at = low < high ? [low, (low + high) / 2, high] : [low];
    add("Training loss (logarithmic)", { low, high, ticks: at.map((place, one) => [place, written(at, (value) => 10 ** value)[one]]) }, drawn(loss), "Training loss of every seed");
  }
  const made = el("div", { class: "grid four" }, charts);
  const mark = (cls) => svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, svg("line", { class: cls, x1: 0, x2: 26, y1: 4, y2: 4 }));
  show("curves-body", el("div", { class: "bar" }, el("h3", {}, "Training"), el("span", { class: "small quiet break" }, `${onVariant(setting)}, ${setting.label}`), svgButton("training", () => made)), reason && el("p", { class: "note break" }, reason), made,
    el("div", { class: "legend" }, el("span", {}, mark("seedline left"), `seed ${chosen.seed}`), same && chosen.otherSeed !== chosen.seed && el("span", {}, mark("seedline right"), `seed ${chosen.otherSeed}`), el("span", {}, mark("seedline"), "the other seeds")));
}
