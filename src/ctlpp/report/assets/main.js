// What is chosen, and drawing the page again when that changes.

const oodOf = (run, seed) => data.runs[run].seeds.find((entry) => entry[0] === seed)?.[2];

// The seeds of an analysed run, the least accurate first; diverged ones last.
function ranked(run) {
  return data.runs[run].seeds.filter((seed) => !seed[3] && known(seed[2])).sort((a, b) => a[2] - b[2]).map((seed) => seed[0]);
}

const hasDiverged = (run, seed) => Boolean(data.runs[run].seeds.find((entry) => entry[0] === seed)?.[3]);
const hasLearned = (run, seed) => data.runs[run].seeds.find((entry) => entry[0] === seed)?.[1] > data.learned;

// The seeds to look at first: the least accurate of those that have learned their data, then the others.
const suspects = (run) => ranked(run).sort((a, b) => hasLearned(run, b) - hasLearned(run, a));

// The run of the least accurate seed among those that have learned their data (among all, if none has); runs in which
// another seed succeeds come first, for that is what it should stand beside.
function firstChoice() {
  const analysed = [...data.runs.keys()].filter((at) => data.runs[at].inside);
  const firsts = analysed.filter((at) => ranked(at).length).map((at) => [at, suspects(at)[0]]);
  const contrast = ([run, seed]) => oodOf(run, seed) <= data.solved && oodOf(run, ranked(run).at(-1)) > data.solved;
  firsts.sort((a, b) => hasLearned(...b) - hasLearned(...a) || contrast(b) - contrast(a) || oodOf(...a) - oodOf(...b));
  return firsts[0]?.[0] ?? analysed[0] ?? (data.runs.length ? 0 : null);
}

// A successful seed of the same run, else of another run on the same variant and task, else the best there is.
function reference(run) {
  const own = ranked(run);
  if (own.length && oodOf(run, own.at(-1)) > data.solved) return [run, own.at(-1)];
  const alike = ({ variant, task }) => [variant, ...task].join();
  const others = [...data.runs.keys()].filter((at) => data.runs[at].inside && ranked(at).length && alike(data.runs[at]) === alike(data.runs[run]));
  const best = others.reduce((a, b) => (a === null || oodOf(b, ranked(b).at(-1)) > oodOf(a, ranked(a).at(-1)) ? b : a), null);
  if (best !== null && oodOf(best, ranked(best).at(-1)) > data.solved) return [best, ranked(best).at(-1)];
  return [run, own.at(-1) ?? null];
}

async function chooseRun(run, jump = false) {
  chosen.run = run;
  const seeds = await seedsOf(run);
  chosen.seed = suspects(run).find((seed) => seeds.includes(seed)) ?? seeds[0] ?? null;
  chosen.symbol = (await viewOf(run, chosen.seed))?.hardest() ?? 0;
  [chosen.otherRun, chosen.otherSeed] = reference(run);
  if (!(await seedsOf(chosen.otherRun)).includes(chosen.otherSeed)) chosen.otherSeed = await bestOf(chosen.otherRun);
  listRuns();
  await draw();
  if (jump) byId("inside").scrollIntoView();
  if (jump) byId("choose-run").focus({ preventScroll: true });
}

async function seedsOf(run) {
  const { facts } = await packageOf(run);
  return facts.inside?.seeds ?? facts.curves?.seeds ?? data.runs[run].seeds.map((seed) => seed[0]);
}

// The most accurate seed among those that can be shown.
async function bestOf(run) {
  const seeds = await seedsOf(run);
  return ranked(run).filter((seed) => seeds.includes(seed)).at(-1) ?? seeds[0] ?? null;
}

async function viewOf(run, seed) {
  if (run === null || run === undefined) return null;
  const found = await packageOf(run);
  return found.facts.inside?.seeds.includes(seed) ? new View(run, seed, found) : null;
}

let drawing = 0;

async function draw() {
  const turn = ++drawing;
  if (chosen.run === null) return;
  const [own, view, other] = [await packageOf(chosen.run), await viewOf(chosen.run, chosen.seed), await viewOf(chosen.otherRun, chosen.otherSeed)];
  if (turn !== drawing) return; // something else was chosen meanwhile
  const focused = document.activeElement?.id || document.activeElement?.dataset?.value;
  chosen.symbol = Math.min(chosen.symbol, (view ?? { n: 1 }).n - 1);
  if (view) view.symbol = chosen.symbol;
  if (view && other) other.turnTo(view.symbolName);
  await showChoice(view, own);
  showInside(view, other, own.facts);
  showMeasures(view, other);
  showCurves(own);
  const again = focused && (byId(focused) ?? document.querySelector(`#inside [data-value="${CSS.escape(focused)}"]`));
  again?.focus({ preventScroll: true });
  document.documentElement.dataset.drawn = turn;
}

const set = (name, number = true) => (value) => { chosen[name] = number ? Number(value) : value; return draw(); };
const seedLabel = (run) => (seed) => [seed, `${seed}${known(oodOf(run, seed)) ? ` (OOD ${fixed(oodOf(run, seed))})` : ""}`];

async function showChoice(view) {
  const runs = data.runs.map((run, at) => [at, run.name]);
  const analysed = runs.filter(([at]) => data.runs[at].inside);
  const controls = [
    choose("choose-run", "Run", runs, chosen.run, (value) => chooseRun(Number(value))),
    choose("choose-seed", "Seed", (await seedsOf(chosen.run)).map(seedLabel(chosen.run)), chosen.seed, set("seed")),
  ];
  if (view) {
    controls.push(choose("choose-symbol", "Symbol", view.facts.symbols.map((name, at) => [at, name]), chosen.symbol, set("symbol")),
      choose("choose-other-run", "Beside it: run", analysed, chosen.otherRun, async (value) => {
        chosen.otherRun = Number(value);
        chosen.otherSeed = await bestOf(chosen.otherRun);
        return draw();
      }),
      choose("choose-other-seed", "Beside it: seed", (await seedsOf(chosen.otherRun)).map(seedLabel(chosen.otherRun)), chosen.otherSeed, set("otherSeed")));
  }
  show("choice", controls);
}

// A sentence, and the command that would help.
const advice = ({ text, command }) => [text, command && [" ", el("code", { class: "break" }, command)]];

function showInside(view, other, facts) {
  if (!view) {
    show("inside-body", el("p", { class: "note" }, advice(facts.inside_missing ?? { text: "This seed was not analysed." })));
    return;
  }
  const sides = other ? [view, other] : [view];
  const row = (heading, text, make, ...controls) => [
    el("div", { class: "across" }, el("h3", {}, heading), el("p", { class: "small quiet" }, text), controls.length > 0 && el("div", { class: "bar" }, controls)),
    sides.map((side, at) => el("div", { class: at ? "second" : "first", "data-who": `Seed ${side.seed}${side.run === view.run ? "" : ` of ${data.runs[side.run].name}`}` }, make(side)))];
  const symbol = view.symbolName;
  const lacking = other && other.symbolName !== symbol; // the symbol, on the other side
  const symbols = lacking ? `symbol ${symbol} (beside it: ${other.symbolName})` : `symbol ${symbol}`;
  const thumbs = el("ul", { class: "thumbs", "aria-label": "Symbols of this seed" }, view.arrays.similarity && view.facts.symbols.map((name, at) => {
    const order = view.list("order", at) ?? view.byGroup;
    return el("li", {}, el("button", { type: "button", "data-value": `symbol-${at}`, "aria-pressed": String(at === chosen.symbol), on: { click: () => set("symbol")(at) } },
      thumbnail(view.F, (a, b) => { const value = view.similarity(at, order[a], order[b]); return value === null ? null : Math.max(value, 0); }), `symbol ${name}`));
  }));
  const swatches = (side) => side.groups.map((name, at) => el("span", {}, el("i", { class: "swatch", css: { background: groupColour(at) } }), `group ${name}`));
  const differ = other && JSON.stringify(other.groups) !== JSON.stringify(view.groups);
  const groups = el("div", { class: "legend", id: "groups" }, swatches(view), differ && [el("span", {}, "beside it:"), swatches(other)],
    el("span", {}, "0", el("i", { class: "scale", css: { background: heatScale() } }), "1"));
  const scope = segments("Symbols", [["symbol", symbols], ["all", "all symbols"]], chosen.scope, set("scope", false));
  show("inside-body", thumbs, groups, el("div", { class: "pair" },
    sides.map((side, at) => el("div", { class: at ? "who second" : "who" }, title(side), (at === 0 || side.run !== view.run) && side.facts.stale && el("span", { class: "note small stale" }, advice(side.facts.stale)), at > 0 && lacking && el("span", { class: "note small" }, `There is no symbol ${symbol} here: symbol ${other.symbolName} is shown.`))),
    row("Similarity", `Cosine similarity of the vectors under the classifier for ${symbols}, made by every function. Bright everywhere: one way to represent it. Blocks: several.`, similarityOf,
      segments("Order", [["clusters", "by cluster"], ["groups", "by group"]], chosen.order, set("order", false))),
    row("Clusters", "The ways in which this symbol is represented, by functions; the colour is the function’s group.", clustersOf),
    row("Compatibility", `Is the second function right after the first, with ${symbols} in between? Bright: right; dark: wrong; framed: only the test has these pairs.`, compatibilityOf),
    row("Accuracy after two applications", "Rows: group or cluster of the first function; columns: group of the second. Framed: only the test has these combinations.", accuracyOf, scope),
    row("Interchange", "The state that one function leaves is put in the place of another’s. Does the next function understand it? Rows: group that leaves the state; columns: group that gets it.", interchangeOf,
      segments("States", MAPS.map((text, at) => [`map-${at}`, text]), `map-${chosen.map}`, (value) => set("map")(value.slice(4))))),
    view.facts.notes.length > 0 && el("p", { class: "note small" }, view.facts.notes.join("; ")));
}

function showMeasures(view, other) {
  if (!view || !view.facts.measures.length) {
    show("measures-body", el("p", { class: "note" }, "The chosen run has no measures: it was not analysed."));
    return;
  }
  const answers = (measure) => measure.name.startsWith("pairs_"); // these look at the answers themselves
  const several = view.facts.measures.some((measure) => measure.together); // the setting's seeds, over several runs
  const strength = (measure) => Math.abs((measure.together ? measure.together[1] : measure.correlation[0]) ?? 0);
  const ranking = [...view.facts.measures].sort((a, b) => answers(a) - answers(b) || strength(b) - strength(a));
  const theirs = (name) => other?.facts.measures.find((measure) => measure.name === name)?.values[other.row];
  const correlation = ([r, low, high]) => el("td", { class: "number" }, signed(r), el("span", { class: "sub" }, known(low) ? `${signed(low)} … ${signed(high)}` : ""));
  const trained = view.facts.seeds.map((seed) => !hasDiverged(view.run, seed));
  const [total, left] = [trained.length, trained.filter(Boolean).length];
  const rows = ranking.map((measure) => el("tr", {}, el("th", { scope: "row" }, measure.label || measure.name, el("span", { class: "sub" }, measure.meaning)),
    el("td", { class: "number" }, fixed(measure.values[view.row])), el("td", { class: "number" }, fixed(theirs(measure.name))), el("td", { class: "number" }, fixed(average(measure.values.filter((_, at) => trained[at])))),
    correlation(measure.correlation), measure.together && correlation(measure.together.slice(1))));
  const plots = ranking.map((measure) => {
    const points = view.facts.seeds.map((seed, at) => ({ x: measure.values[at], y: oodOf(view.run, seed), title: `seed ${seed}: ${fixed(measure.values[at])}, OOD ${fixed(oodOf(view.run, seed))}${trained[at] ? "" : ", diverged"}`, chosen: seed === view.seed, diverged: !trained[at] }))
      .filter((point) => known(point.x) && known(point.y));
    return points.length > 1 && el("figure", {}, el("figcaption", {}, el("b", {}, measure.label || measure.name), known(measure.correlation[0]) ? `, r = ${signed(measure.correlation[0])}` : ""),
      scatter(points, `OOD accuracy against ${measure.label}, one dot a seed`));
  });
  show("measures-body", el("p", { class: "lead break" }, `Measures of ${data.runs[view.run].name}, their mean and their correlation with OOD accuracy over ${left < total ? `the ${left} of its ${plural(total, "seed")} that have not diverged` : "its seeds"} (Pearson, 95 % bootstrap interval). `, several && "Other runs have more seeds of this setting: the last column is over all of them."),
    view.facts.stale && el("p", { class: "note small stale" }, advice(view.facts.stale)), unlearned(view),
    left < data.enough && el("p", { class: "note small", id: "few" }, `Of fewer than ${data.enough} seeds the intervals look surer than they are.`),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Measures" }, el("table", { class: "list" }, el("thead", {}, el("tr", {}, ["Measure", `Seed ${view.seed}`, other ? `Seed ${other.seed} beside it` : "Beside it", "Mean over seeds", "Correlation with OOD", ...(several ? [`… over all ${Math.max(...view.facts.measures.map((measure) => measure.together?.[0] ?? 0))} seeds`] : [])]
      .map((head, at) => el("th", { scope: "col", class: at ? "number" : "" }, head)))), el("tbody", {}, rows))),
    el("h3", {}, "OOD accuracy (up) against each measure, a dot a seed"), el("div", { class: "grid" }, plots),
    left < total && el("div", { class: "legend" }, el("span", {}, svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, cross(7, 7, 4)), "a seed that diverged: no part of the mean and of r")));
}

// A warning where some seeds are no failures of composition.
function unlearned({ run, facts: { seeds } }) {
  const diverged = seeds.filter((seed) => hasDiverged(run, seed)).length;
  const count = ranked(run).filter((seed) => seeds.includes(seed) && !hasLearned(run, seed)).length;
  return count > 0 && el("p", { class: "note small", id: "unlearned" }, `${count} of ${plural(seeds.length, "seed")} ${count === 1 ? "has not learned its" : "have not learned their"} data (IID at most ${data.learned})`,
    diverged > 0 && `, ${diverged} diverged`, ": here a measure may only tell whether a seed has learned at all.");
}

function showCurves({ facts, arrays }) {
  const name = data.runs[chosen.run].name;
  if (!facts.curves) {
    show("curves-body", el("p", { class: "note break" }, `${name}: ${facts.curves_missing}.`));
    return;
  }
  const { steps, seeds, loss } = facts.curves;
  const S = seeds.length;
  const pointsOf = (array, column, value) => steps.map((step, at) => [step, array[at * S + column]]).filter((point) => point[1] !== 255).map(([step, level]) => [step, value(level / 254)]);
  const same = chosen.otherRun === chosen.run;
  const kind = (seed) => (seed === chosen.seed ? "seedline chosen" : same && seed === chosen.otherSeed ? "seedline other" : "seedline");
  const linesOf = (array, value = (share) => share) => seeds.map((seed, at) => ({ points: pointsOf(array, at, value), kind: kind(seed), title: `seed ${seed}` })).filter((line) => line.points.length).sort((a, b) => a.kind.length - b.kind.length);
  const made = [];
  const add = (heading, chart) => made.push(el("figure", {}, el("figcaption", {}, el("b", {}, heading)), chart));
  const last = steps.at(-1);
  for (const [split, heading] of [["iid", "IID accuracy"], ["ood", "OOD accuracy"]]) {
    const array = arrays[`curve_${split}`];
    if (array) add(heading, curves({ lines: linesOf(array), last, ticks: SHARES, label: `${heading} of every seed over training` }));
  }
  if (arrays.curve_ood) {
    const share = steps.map((step, at) => {
      const own = [...arrays.curve_ood.subarray(at * S, at * S + S)].filter((level) => level !== 255);
      return [step, own.length ? own.filter((level) => level / 254 > data.solved).length / own.length : null];
    }).filter((point) => point[1] !== null);
    add(`Share of seeds above ${data.solved} OOD`, curves({ lines: [{ points: share, kind: "meanline", title: "share of seeds" }], last, ticks: SHARES, label: "Share of successful seeds over training" }));
  }
  if (loss) {
    const [low, high] = loss;
    const ticks = distinct([low, (low + high) / 2, high], (value) => 10 ** value);
    add("Training loss (logarithmic)", curves({ lines: linesOf(arrays.curve_loss, (share) => low + share * (high - low)), last, low, high, ticks, label: "Training loss of every seed" }));
  }
  const single = steps.length === 1;
  const mark = (cls) => svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, single ? svg("circle", { class: cls, cx: 13, cy: 4, r: 3 }) : svg("line", { class: cls, x1: 0, x2: 26, y1: 4, y2: 4 }));
  show("curves-body", el("p", { class: "lead break" }, `Every seed of ${name}. Point at a ${single ? "dot" : "line"} for its seed.`), el("div", { class: "grid" }, made),
    el("div", { class: "legend" }, el("span", {}, mark("seedline chosen"), `seed ${chosen.seed}`), same && chosen.otherSeed !== chosen.seed && el("span", {}, mark("seedline other"), `seed ${chosen.otherSeed}, beside it`), el("span", {}, mark("seedline"), "the other seeds")));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Switch to the ${theme === "dark" ? "light" : "dark"} theme`);
  redrawAll();
}

async function start() {
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  setTheme(prefers.matches ? "dark" : "light");
  prefers.addEventListener("change", () => setTheme(prefers.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  const seeds = data.runs.reduce((sum, run) => sum + run.seeds.length, 0);
  byId("about").textContent = `${plural(data.runs.length, "run")}, ${plural(seeds, "seed")}, ${plural(data.runs.filter((run) => run.inside).length, "analysis").replace("analysiss", "analyses")}`;
  byId("footer").textContent = `Written by ctlpp ${data.version}.` + (data.levels < 255 ? ` To keep the page small, similarities are shown in ${data.levels} steps.` : "");
  chosen.run = firstChoice();
  showResults();
  showRuns();
  showStaged();
  showGraphs();
  showSettings();
  if (chosen.run !== null) await chooseRun(chosen.run);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
