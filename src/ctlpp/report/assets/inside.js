// One seed and another: compatibility of functions, similarity, interchange.

const MAPS = ["as they are", "after a rotation", "after an affine map"];

// What the package of a run says of one seed and symbol.
class View {
  constructor(setting, seed, { facts, arrays }) {
    Object.assign(this, { setting, seed, arrays, facts: facts.inside, levels: facts.levels });
    const { seeds, symbols, functions, groups } = this.facts;
    this.row = seeds.indexOf(seed);
    this.symbol = 0; // the one that is shown
    [this.S, this.n, this.F] = [seeds.length, symbols.length, functions.length];
    this.groups = Object.keys(groups);
    this.groupOf = functions.map((name) => this.groups.findIndex((group) => groups[group].includes(name)));
    this.byGroup = [...functions.keys()].sort((a, b) => this.groupOf[a] - this.groupOf[b] || a - b);
  }
  similarity(symbol, a, b) {
    if (!this.arrays.similarity) return null;
    if (a === b) return 1;
    const [i, j] = a < b ? [a, b] : [b, a];
    const F = this.F;
    const level = this.arrays.similarity[((this.row * this.n + symbol) * F * (F - 1)) / 2 + i * F - (i * (i + 1)) / 2 + j - i - 1];
    return level === 255 ? null : this.facts.low + ((1 - this.facts.low) * level) / (this.levels - 1);
  }
  list(name, symbol) {
    const start = (this.row * this.n + symbol) * this.F;
    const found = this.arrays[name] ? [...this.arrays[name].subarray(start, start + this.F)] : null;
    return found && !found.includes(255) ? found : null;
  }
  silhouette(symbol) { return this.facts.silhouettes[this.row][symbol]; }
  right(symbol, first, second) {
    const bit = ((this.row * this.n + symbol) * this.F + first) * this.F + second;
    return (this.arrays.right[bit >> 3] >> (7 - (bit & 7))) & 1;
  }
  kind(symbol, first, second) { return this.arrays.kind[(symbol * this.F + first) * this.F + second]; }
  exchanged(map, symbol, donor, consumer) {
    const G = this.groups.length;
    const value = this.arrays.interchange[(((this.row * 3 + map) * this.n + symbol) * G + donor) * G + consumer];
    return value === 255 ? null : value / 254;
  }
  members(group) { return this.byGroup.filter((at) => this.groupOf[at] === group); }
  // The symbol with which new pairs fail most often.
  hardest() {
    if (!this.arrays.right || !this.arrays.kind) return 0;
    const every = [...Array(this.F).keys()];
    const share = (symbol) => average(every.flatMap((a) => every.filter((b) => this.kind(symbol, a, b) === 2).map((b) => this.right(symbol, a, b)))) ?? 1;
    const shares = [...Array(this.n).keys()].map(share);
    return shares.indexOf(Math.min(...shares));
  }
  get symbolName() { return this.facts.symbols[this.symbol]; }
  // Show the symbol of this name, or, where there is none, the last.
  turnTo(name) { this.symbol = this.facts.symbols.includes(name) ? this.facts.symbols.indexOf(name) : this.n - 1; }
}

async function viewOf(setting, seed) {
  if (!setting || !setting.home.has(seed)) return null;
  const found = await packageOf(setting.home.get(seed));
  return found.facts.inside?.seeds.includes(seed) ? new View(setting, seed, found) : null;
}

const bright = (right) => (right ? 0.82 : 0.05);
const pairCell = (view, symbol, first, second) => (view.kind(symbol, first, second) === 0 ? undefined : bright(view.right(symbol, first, second)));
const pairsOfGroups = (view) => view.groups.flatMap((_, a) => view.groups.map((__, b) => [a, b]));
const cellsOf = (view, symbols, firsts, seconds) => symbols.flatMap((symbol) => firsts.flatMap((first) => seconds.map((second) => [symbol, first, second])));
const isNew = (view, symbols, a, b) => cellsOf(view, symbols, view.members(a), view.members(b)).some((cell) => view.kind(...cell) === 2);
const isNeither = (view, symbols, a, b) => cellsOf(view, symbols, view.members(a), view.members(b)).every((cell) => view.kind(...cell) === 0);
const shareRight = (view, symbols, firsts, seconds) => average(cellsOf(view, symbols, firsts, seconds).filter((cell) => view.kind(...cell) !== 0).map((cell) => view.right(...cell)));

// New pairs that are answered right with the chosen symbol in between: [right, all]
function newPairs(view) {
  if (!view.arrays.right) return null;
  const every = [...Array(view.F).keys()];
  const own = cellsOf(view, [view.symbol], every, every).filter((cell) => view.kind(...cell) === 2);
  return [own.filter((cell) => view.right(...cell)).length, own.length];
}

function compatibilityOf(view) {
  if (!view.arrays.right) return missing(view, "pairs");
  const { symbol } = view;
  const order = view.byGroup;
  const words = ["in neither graph", "known from training", "new in the test"];
  const starts = view.groups.map((_, group) => [order.findIndex((at) => view.groupOf[at] === group), view.members(group).length]);
  const frames = pairsOfGroups(view).filter(([a, b]) => isNew(view, [symbol], a, b)).map(([a, b]) => [starts[a][0], starts[b][0], starts[a][1], starts[b][1]]);
  const names = order.map((at) => view.facts.functions[at]);
  return matrix({
    label: `Which pairs with symbol ${view.symbolName} in between are answered right, seed ${view.seed}`, kind: "compatibility", view, order, frames,
    cells: (row, column) => pairCell(view, symbol, order[row], order[column]),
    tell: (row, column) => `${names[row]}, then ${names[column]}: ${view.right(symbol, order[row], order[column]) ? "right" : "wrong"} (${words[view.kind(symbol, order[row], order[column])]})`,
  });
}

function similarityOf(view) {
  const { symbol } = view;
  if (!view.arrays.similarity) return missing(view, "similarity");
  const order = (chosen.order === "clusters" && view.list("order", symbol)) || view.byGroup;
  const names = order.map((at) => view.facts.functions[at]);
  return matrix({
    label: `Cosine similarity of the representations of symbol ${view.symbolName} by function, seed ${view.seed}`, kind: "similarity", view, order,
    cells: (row, column) => { const value = view.similarity(symbol, order[row], order[column]); return value === null ? null : Math.max(value, 0); },
    tell: (row, column) => `${names[row]} and ${names[column]}: cosine ${fixed(view.similarity(symbol, order[row], order[column]))}`,
  });
}

function clustersOf(view) {
  const labels = view.list("clusters", view.symbol);
  if (!labels) return null;
  const count = Math.max(...labels) + 1;
  const silhouette = view.silhouette(view.symbol);
  if (count === 1) return el("p", { class: "small clusters" }, known(silhouette) ? silhouette < data.silhouette ? `no clear split (silhouette ${fixed(Math.floor(100 * silhouette) / 100)} < ${data.silhouette})` : `no clear split: the parts are too near each other (silhouette ${fixed(silhouette)})` : "no clear split");
  return el("div", { class: "clusters" }, known(silhouette) && el("p", { class: "small quiet" }, `${count} clusters, silhouette ${fixed(silhouette)}`), [...Array(count).keys()].map((number) => el("div", { class: "cluster" }, el("b", {}, `Cluster ${number + 1}`),
    el("div", { class: "chips" }, view.byGroup.filter((at) => labels[at] === number).map((at) => {
      const colour = groupColour(view.groupOf[at]);
      return el("span", { class: "chip function", title: `group ${view.groups[view.groupOf[at]]}`, css: { background: colour, color: inkOn(partsOf(colour)) } }, view.facts.functions[at]);
    })))));
}

function heatTable(caption, rows, columns, value, about = () => ({})) {
  return el("table", { class: "heat" }, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, el("td", { class: "corner" }), columns.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows.map((name, a) => el("tr", {}, el("th", { scope: "row" }, name),
      columns.map((_, b) => { const { neither, framed } = about(a, b); return neither ? el("td", { class: "neither", title: "in neither graph" }) : heatCell(value(a, b), fixed(value(a, b)), { class: framed ? "framed" : "" }); })))));
}

const aboutGroups = (view, symbols) => (a, b) => (view.arrays.kind ? { neither: isNeither(view, symbols, a, b), framed: isNew(view, symbols, a, b) } : {});
const symbolsIn = (view) => (chosen.scope === "all" ? [...Array(view.n).keys()] : [view.symbol]);

function accuracyOf(view) {
  if (!view.arrays.right) return null;
  const symbols = symbolsIn(view);
  const made = [heatTable("Share of right pairs, by group of the first (rows) and the second function", view.groups, view.groups, (a, b) => shareRight(view, symbols, view.members(a), view.members(b)), aboutGroups(view, symbols))];
  const labels = view.list("clusters", view.symbol);
  if (labels && chosen.scope === "symbol" && Math.max(...labels)) {
    const clusters = [...Array(Math.max(...labels) + 1).keys()];
    const members = (number) => view.byGroup.filter((at) => labels[at] === number);
    made.push(heatTable("… by cluster of the first", clusters.map((number) => number + 1), view.groups, (number, b) => shareRight(view, symbols, members(number), view.members(b)),
      (number, b) => ({ neither: cellsOf(view, symbols, members(number), view.members(b)).every((cell) => view.kind(...cell) === 0) })));
  }
  return made.map((one) => el("div", { class: "scroll" }, one));
}

const PARTS = { first: "the first function’s column", second: "the second function’s column", symbol: "the symbol’s column", prefix: "all columns before the second function" };

function interchangeOf(view) {
  if (!view.arrays.interchange) return missing(view, "interchange");
  const symbols = symbolsIn(view);
  const [level, part, effect] = view.facts.places[view.row] ?? [];
  const where = known(level) ? `Exchanged: ${PARTS[part] ?? part}, after ${view.facts.state === "columns" ? "layer" : "step"} ${level + 1}. On known pairs ${fixed(effect)} of the answers follow it.` : "";
  return [el("div", { class: "scroll" }, heatTable(`States ${MAPS[chosen.map]}`, view.groups, view.groups, (a, b) => average(symbols.map((symbol) => view.exchanged(chosen.map, symbol, a, b))), aboutGroups(view, symbols))),
    el("p", { class: "small quiet" }, where)];
}

function missing(view, what) {
  const reason = view.facts.missing.find((line) => line.includes(what)) ?? view.facts.notes[0] ?? "this analysis has none";
  return el("p", { class: "note small" }, reason);
}

// A sentence, and the command that would help.
const advice = ({ text, command }) => [text, command && [" ", el("code", { class: "break" }, command)]];

function seedHead(setting, seed, view, mark) {
  const { iid, ood, diverged } = reached(setting, seed);
  const state = diverged ? "diverged" : !known(ood) ? "no accuracy" : ood > data.solved ? "solved" : "not solved";
  const lacking = mark === "right" && view && view.symbolName !== chosen.symbolName;
  return el("div", { class: `who ${mark}` }, el("strong", {}, `Seed ${seed}`), el("span", {}, `IID ${fixed(iid)}, OOD ${fixed(ood)}`), el("span", { class: `chip ${state === "solved" ? "reproduced" : "lower"}` }, state),
    setting !== chosen.setting && el("span", { class: "quiet small break" }, `${onVariant(setting)}, ${setting.label}`),
    view?.facts.stale && (mark === "left" || setting !== chosen.setting) && el("span", { class: "note small stale" }, advice(view.facts.stale)), lacking && el("span", { class: "note small" }, `There is no symbol ${chosen.symbolName} here: symbol ${view.symbolName} is shown.`));
}

function thumbsOf(view) {
  const order = view.byGroup;
  const cell = view.arrays.right ? (at) => (a, b) => pairCell(view, at, order[a], order[b]) : (at) => (a, b) => view.similarity(at, order[a], order[b]);
  return el("ul", { class: "thumbs", "aria-label": `Symbols of seed ${view.seed}` }, view.facts.symbols.map((name, at) => el("li", {}, el("button", { type: "button", "data-value": `symbol-${at}`, "aria-pressed": String(at === view.symbol), title: `symbol ${name}`,
    on: { click: () => set("symbol")(chosenIndex(name)) } }, thumbnail(view.F, cell(at)), name))));
}

let leftView = null;
const chosenIndex = (name) => Math.max(leftView.facts.symbols.indexOf(name), 0);
const set = (name, number = true) => (value) => { chosen[name] = number ? Number(value) : value; return turn(); };

// Model, variant and data as chips; where there are many, as a list.
function choices() {
  const { first } = chosen.setting;
  const pick = (label, id, options, now, change) => (options.length > 6 ? picker(id, label, options, now, change)
    : el("div", { class: "choice", id }, el("span", {}, label), segments(label, options, now, change)));
  const having = (key, own) => unique(own.map(key)).map((name) => [name, name]);
  const closest = (own) => own.find((one) => one.label === chosen.setting.label) ?? own.find((one) => showcase(one) !== null) ?? own[0];
  const to = (own) => openSetting(closest(own));
  const same = settings.filter((one) => modelOf(one) === modelOf(chosen.setting));
  const alike = same.filter((one) => one.first.variant === first.variant);
  const variant = (one) => one.first.variant || "own data";
  return [pick("Model", "choose-model", having(modelOf, settings), modelOf(chosen.setting), (value) => to([...settings.filter((one) => modelOf(one) === value && one.first.variant === first.variant), ...settings.filter((one) => modelOf(one) === value)].filter((one, _, all) => one.first.variant === all[0].first.variant))),
    pick("Variant", "choose-variant", having(variant, same), variant(chosen.setting), (value) => to(same.filter((one) => variant(one) === value))),
    pick("Data", "choose-data", alike.map((one) => [String(one.at), one.label]), String(chosen.setting.at), (value) => openSetting(settings[value]))];
}

async function openSetting(setting) {
  await choose(setting);
  await turn();
}

function seedChoice() {
  const { setting } = chosen;
  const same = chosen.otherSetting === setting;
  const points = setting.seeds.map(([, seed]) => {
    const { iid, ood, diverged } = reached(setting, seed);
    return { value: diverged ? null : ood, seed, kind: seed === chosen.seed ? "left" : same && seed === chosen.otherSeed ? "right" : "", size: seed === chosen.seed || (same && seed === chosen.otherSeed) ? 6 : RADIUS, title: `seed ${seed}: OOD ${fixed(ood)}, IID ${fixed(iid)}` };
  });
  const label = ([, seed]) => { const { ood } = reached(setting, seed); return [seed, `${seed}${known(ood) ? ` (OOD ${fixed(ood)})` : ""}`]; };
  const other = chosen.otherSetting;
  return [picker("choose-seed", "Left: seed", setting.seeds.map(label), chosen.seed, set("seed")),
    el("div", { class: "seeds" }, strip({ points, colour: colourOf(setting), lines: [[chanceOf(setting), "chance"]], label: "Seeds by OOD accuracy. Arrow keys walk through them, Enter shows one on the left, Shift and Enter on the right.", open: (point, beside) => openSeed(setting, point.seed, beside) }),
      el("p", { class: "small quiet" }, "Seeds by OOD accuracy. Click: left; shift-click: right.")),
    picker("choose-other-seed", "Right: seed", other.seeds.map(([run, seed]) => [seed, `${seed}${known(reached(other, seed).ood) ? ` (OOD ${fixed(reached(other, seed).ood)})` : ""}`]), chosen.otherSeed, set("otherSeed"))];
}

function showInside(view, other, facts) {
  show("choice", choices());
  show("seed-choice", seedChoice());
  if (!view) {
    show("inside-body", el("p", { class: "note" }, advice(facts.inside_missing ?? { text: "This seed was not analysed." })));
    return;
  }
  leftView = view;
  chosen.symbolName = view.symbolName;
  const sides = other ? [view, other] : [view];
  const columns = (kind, make) => sides.map((side, at) => el("div", { class: at ? "second" : "first", "data-who": `Seed ${side.seed}` }, el("div", { class: `set ${kind}` }, make(side))));
  const row = (id, text, make, ...controls) => [el("div", { class: "across" }, el("h3", {}, byId(`text-${id}`).dataset.title), el("p", { class: "small quiet" }, byId(`text-${id}`).content.cloneNode(true), text), controls.length > 0 && el("div", { class: "bar" }, controls)), columns(id, make)];
  const counts = sides.map(newPairs).filter(Boolean);
  const lacking = other && other.symbolName !== view.symbolName;
  const newPairsText = counts.length > 0 && el("b", { id: "new-pairs" }, `New pairs right with symbol ${view.symbolName} in between: ${counts.map(([right, all]) => `${right} of ${all}`).join(", ")}.`);
  const swatches = (side) => side.groups.map((name, at) => el("span", {}, el("i", { class: "swatch", css: { background: groupColour(at) } }), `group ${name}`));
  const differ = other && JSON.stringify(other.groups) !== JSON.stringify(view.groups);
  const legend = el("div", { class: "legend", id: "groups" }, swatches(view), differ && [el("span", {}, "right:"), swatches(other)], el("span", {}, "wrong, 0", heatScale(), "1, right"), el("span", {}, el("i", { class: "swatch neither" }), "in neither graph"), el("span", {}, el("i", { class: "swatch framed" }), "only the test has these"), svgButton("inside", () => byId("inside-body")));
  const scope = segments("Symbols", [["symbol", lacking ? `symbol ${view.symbolName} (right: ${other.symbolName})` : `symbol ${view.symbolName}`], ["all", "all symbols"]], chosen.scope, set("scope", false));
  show("inside-body", el("div", { class: "pair" }, sides.map((side, at) => el("div", {}, seedHead(side.setting, side.seed, side, at ? "right" : "left"), thumbsOf(side)))), legend, el("div", { class: "pair" },
    row("compatibility", newPairsText, (side) => [compatibilityOf(side), el("div", {}, accuracyOf(side))], scope),
    row("similarity", null, (side) => [similarityOf(side), clustersOf(side)], segments("Order", [["clusters", "by cluster"], ["groups", "by group"]], chosen.order, set("order", false))),
    row("interchange", null, interchangeOf, segments("States", MAPS.map((text, at) => [`map-${at}`, text]), `map-${chosen.map}`, (value) => set("map")(value.slice(4))))),
    view.facts.notes.length > 0 && el("p", { class: "note small" }, view.facts.notes.join("; ")));
}
