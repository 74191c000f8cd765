// One seed beside another: similarity, clusters, compatibility, accuracy after two applications, interchange.

const chosen = { run: null, seed: null, symbol: 0, otherRun: null, otherSeed: null, order: "clusters", scope: "symbol", map: 0 };
const MAPS = ["as they are", "after a rotation", "after an affine map"];

// What the package of a run says of one seed and symbol.
class View {
  constructor(run, seed, { facts, arrays }) {
    Object.assign(this, { run, seed, arrays, facts: facts.inside, levels: facts.levels });
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
  symbolsIn(scope) { return scope === "all" ? [...Array(this.n).keys()] : [this.symbol]; }
}

function title(view) {
  const run = data.runs[view.run];
  const found = run.seeds.find((seed) => seed[0] === view.seed);
  const [, iid, ood, diverged] = found ?? [];
  const state = diverged ? "diverged" : !known(ood) ? "no accuracy" : ood > data.solved ? "solved" : "not solved";
  return [el("strong", {}, `Seed ${view.seed}`), el("span", {}, `IID ${fixed(iid)}, OOD ${fixed(ood)}`), el("span", { class: state === "solved" ? "tag good" : "tag bad" }, state),
    el("span", { class: "quiet small break" }, run.name)];
}

function similarityOf(view) {
  const { symbol } = view;
  if (!view.arrays.similarity) return missing(view, "similarity");
  const order = (chosen.order === "clusters" && view.list("order", symbol)) || view.byGroup;
  const names = order.map((at) => view.facts.functions[at]);
  const cells = (row, column) => { const value = view.similarity(symbol, order[row], order[column]); return value === null ? null : Math.max(value, 0); };
  return matrix({
    label: `Cosine similarity of the representations of symbol ${view.facts.symbols[symbol]} by function, seed ${view.seed}`,
    names, groups: order.map((at) => view.groupOf[at]), cells,
    tell: (row, column) => `${names[row]} and ${names[column]}: cosine ${fixed(view.similarity(symbol, order[row], order[column]))}`,
  });
}

function clustersOf(view) {
  const { symbol } = view;
  const labels = view.list("clusters", symbol);
  if (!labels) return missing(view, "similarity");
  const count = Math.max(...labels) + 1;
  return el("div", { class: "clusters" }, [...Array(count).keys()].map((number) => el("div", { class: "cluster" }, el("b", {}, count === 1 ? "One cluster" : `Cluster ${number + 1}`),
    el("div", { class: "chips" }, view.byGroup.filter((at) => labels[at] === number).map((at) => {
      const colour = groupColour(view.groupOf[at]);
      return el("span", { class: BRIGHT.has(colour) ? "chip dark" : "chip", title: `group ${view.groups[view.groupOf[at]]}`, css: { background: colour } }, view.facts.functions[at]);
    })))));
}

function compatibilityOf(view) {
  if (!view.arrays.right) return missing(view, "pairs");
  const { symbol } = view;
  const order = view.byGroup;
  const names = order.map((at) => view.facts.functions[at]);
  const words = ["in neither graph", "known from training", "new in the test"];
  const starts = view.groups.map((_, group) => [order.findIndex((at) => view.groupOf[at] === group), view.members(group).length]);
  const frames = pairsOfGroups(view).filter(([a, b]) => isNew(view, [symbol], a, b)).map(([a, b]) => [starts[a][0], starts[b][0], starts[a][1], starts[b][1]]);
  return matrix({
    label: `Which pairs with symbol ${view.facts.symbols[symbol]} in between are answered right, seed ${view.seed}`,
    names, groups: order.map((at) => view.groupOf[at]), frames, rows: "first function", columns: "second",
    cells: (row, column) => (view.right(symbol, order[row], order[column]) ? 0.82 : 0.05),
    tell: (row, column) => `${names[row]}, then ${names[column]}: ${view.right(symbol, order[row], order[column]) ? "right" : "wrong"} (${words[view.kind(symbol, order[row], order[column])]})`,
  });
}

const pairsOfGroups = (view) => view.groups.flatMap((_, a) => view.groups.map((__, b) => [a, b]));
const isNew = (view, symbols, a, b) => symbols.some((symbol) => view.members(a).some((first) => view.members(b).some((second) => view.kind(symbol, first, second) === 2)));
const shareRight = (view, symbols, firsts, seconds) => average(symbols.flatMap((symbol) => firsts.flatMap((first) => seconds.map((second) => view.right(symbol, first, second)))));

function heatTable(caption, rows, columns, value, framed = () => false) {
  return el("table", { class: "heat" }, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, el("td", { class: "corner" }), columns.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows.map((name, a) => el("tr", {}, el("th", { scope: "row" }, name),
      columns.map((_, b) => { const found = value(a, b); return heatCell(found, fixed(found), { class: framed(a, b) ? "framed" : "" }); })))));
}

function accuracyOf(view) {
  if (!view.arrays.right) return missing(view, "pairs");
  const symbols = view.symbolsIn(chosen.scope);
  const groups = view.groups.map((name) => `group ${name}`);
  const made = [heatTable("By groups", groups, groups,
    (a, b) => shareRight(view, symbols, view.members(a), view.members(b)), (a, b) => isNew(view, symbols, a, b))];
  const labels = view.list("clusters", view.symbol);
  if (labels && chosen.scope === "symbol") {
    const clusters = [...Array(Math.max(...labels) + 1).keys()];
    made.push(heatTable("By the cluster of the first", clusters.map((number) => `cluster ${number + 1}`), groups,
      (number, b) => shareRight(view, symbols, view.byGroup.filter((at) => labels[at] === number), view.members(b))));
  }
  return el("div", { class: "tables" }, made.map((one) => el("div", { class: "scroll" }, one)));
}

function interchangeOf(view) {
  if (!view.arrays.interchange) return missing(view, "interchange");
  const symbols = view.symbolsIn(chosen.scope);
  const groups = view.groups.map((name) => `group ${name}`);
  const [level, part, effect] = view.facts.places[view.row] ?? [];
  const where = known(level) ? `The state was found after ${view.facts.state === "columns" ? "layer" : "step"} ${level + 1}, ${part}; its effect there is ${fixed(effect)}.` : "";
  return el("div", {}, el("div", { class: "scroll" }, heatTable(`States ${MAPS[chosen.map]}`, groups, groups,
    (a, b) => average(symbols.map((symbol) => view.exchanged(chosen.map, symbol, a, b))), (a, b) => Boolean(view.arrays.kind) && isNew(view, symbols, a, b))),
    el("p", { class: "small quiet" }, where));
}

function missing(view, what) {
  const reason = view.facts.missing.find((line) => line.includes(what)) ?? view.facts.notes[0] ?? "this analysis has none";
  return el("p", { class: "note small" }, reason);
}
