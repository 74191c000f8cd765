// What predicts failure: every measure's correlation with OOD accuracy, and one measure against it, seed by seed.

const ofBehaviour = (name) => name.startsWith("pairs_") || name === "codes"; // these look at the answers themselves

// The measures of a setting: their values by seed, over all of its analysed runs, and their correlation.
async function measuresOf(setting) {
  const found = new Map();
  const stale = [];
  for (const run of setting?.runs ?? []) {
    const { inside } = (await packageOf(run)).facts;
    if (inside?.stale) stale.push(inside.stale);
    for (const measure of inside?.measures ?? []) {
      const { name, label, meaning, correlation } = measure;
      const one = found.get(name) ?? { name, label: label || name, meaning, correlation, values: new Map() };
      inside.seeds.forEach((seed, at) => { if (setting.home.get(seed) === run) one.values.set(seed, measure.values[at]); });
      found.set(name, one);
    }
  }
  const strength = (measure) => Math.abs(measure.correlation[0] ?? 0);
  return { measures: [...found.values()].sort((a, b) => ofBehaviour(a.name) - ofBehaviour(b.name) || strength(b) - strength(a)), stale };
}

// The seeds over which a measure is correlated with OOD accuracy.
function correlated(setting, { values }) {
  return [...values].filter(([seed, value]) => known(value) && known(reached(setting, seed).ood) && !reached(setting, seed).diverged);
}

// The first measure whose correlation says something: over enough seeds, with an interval that excludes 0.
async function showPredictor(setting) {
  const { measures } = await measuresOf(setting);
  const best = measures.find((measure) => measure.correlation[1] * measure.correlation[2] > 0 && correlated(setting, measure).length >= data.enough);
  if (!best) { byId("predictor").remove(); return; }
  fill(byId("predictor"), [el("b", {}, `r = ${signed(best.correlation[0]).replace("+", "")}`), el("p", {}, `between OOD accuracy and “${best.label}”: ${best.meaning}. ${onVariant(setting)}, ${setting.label}; 95 % CI ${range(best.correlation.slice(1))}. `, el("a", { href: "#measures" }, "What predicts failure"))]);
}

async function showMeasures(setting) {
  const { measures, stale } = await measuresOf(setting);
  if (!measures.length) {
    show("measures-body", el("p", { class: "note" }, "The chosen runs have no measures: they were not analysed."));
    return;
  }
  const [a, b] = [chosen.seed, chosen.otherSetting === setting ? chosen.otherSeed : null];
  const picked = measures.find((measure) => measure.name === chosen.measure) ?? measures[0];
  const seeds = [...picked.values.keys()];
  const trained = seeds.filter((seed) => !reached(setting, seed).diverged);
  const row = (measure) => el("tr", { "aria-current": measure === picked ? "true" : null }, el("th", { scope: "row" }, el("button", { type: "button", class: "link", title: measure.meaning, "data-value": `measure-${measure.name}`, on: { click: () => set("measure", false)(measure.name) } }, measure.label)),
    el("td", { class: "plot" }, coefficient(...measure.correlation)), el("td", { class: "number" }, el("b", {}, signed(measure.correlation[0])), " ", el("span", { class: "quiet" }, known(measure.correlation[1]) ? range(measure.correlation.slice(1), signed) : "")),
    el("td", { class: "number" }, fixed(measure.values.get(a))), b !== null && el("td", { class: "number" }, fixed(measure.values.get(b))), el("td", { class: "number" }, fixed(average(trained.map((seed) => measure.values.get(seed))))));
  const heads = ["Measure", "", "r with OOD", `Seed ${a}`, ...(b === null ? [] : [`Seed ${b}`]), "Mean"];
  const group = (heading, behaviour) => { const own = measures.filter((measure) => ofBehaviour(measure.name) === behaviour); return own.length > 0 && el("tbody", {}, el("tr", {}, el("th", { colspan: heads.length, scope: "rowgroup", class: "group" }, heading)), own.map(row)); };
  const forest = el("table", { class: "list forest", id: "forest" }, el("thead", {}, el("tr", {}, heads.map((head, at) => el("th", { scope: "col", class: at > 1 ? "number" : "" }, head)))), group("Inner states", false), group("Behaviour", true),
    el("tfoot", {}, el("tr", {}, el("td"), el("td", { class: "plot" }, svg("svg", { class: "strip axisrow", width: "100%", height: 18, "aria-hidden": "true" }, [-1, -0.5, 0, 0.5, 1].map((value) => svg("text", { x: percentOf((value + 1) / 2), y: 12, "text-anchor": "middle" }, signed(value, value % 1 ? 1 : 0))))), el("td", { colspan: heads.length - 2 }))));
  const figure = el("figure", { class: "scatter" }, el("figcaption", {}, el("b", {}, picked.label), ": ", picked.meaning, " ", svgButton("predictor", () => figure)), scatterOf(setting, picked, seeds));
  show("measures-body", el("p", { class: "small quiet break" }, `${onVariant(setting)}, ${setting.label}: ${plural(trained.length, "seed")}${trained.length < seeds.length ? `; ${seeds.length - trained.length} diverged (crosses), which are no part of r and mean` : ""}. `, svgButton("measures", () => byId("forest"))),
    stale.slice(0, 1).map((one) => el("p", { class: "note small stale" }, advice(one))), unlearned(setting, trained), trained.length < data.enough && el("p", { class: "note small", id: "few" }, `With fewer than ${data.enough} seeds the intervals are narrower than they should be.`),
    el("div", { class: "two" }, scrolling("Measures", forest), figure));
}

function scatterOf(setting, measure, seeds) {
  const points = seeds.map((seed) => ({ x: measure.values.get(seed), seed, ...reached(setting, seed) })).filter((point) => known(point.x) && known(point.ood))
    .map((point) => ({ ...point, y: point.ood, kind: point.seed === chosen.seed ? "left" : chosen.otherSetting === setting && point.seed === chosen.otherSeed ? "right" : "", title: `seed ${point.seed}: ${measure.label} ${fixed(point.x)}, OOD ${fixed(point.ood)}${point.diverged ? ", diverged" : ""}` }));
  const places = ticks(Math.min(0, ...points.map((point) => point.x)), Math.max(1, ...points.map((point) => point.x)));
  const [low, high] = [Math.min(places[0], ...points.map((point) => point.x)), Math.max(places.at(-1), ...points.map((point) => point.x))];
  return frame({ x: { low, high, name: measure.label, ticks: places.map((place, at) => [place, written(places)[at]]) }, y: { ...ACCURACY, name: "OOD accuracy" }, points, width: 460, height: 340, levels: [[chanceOf(setting), "chance"]],
    label: `OOD accuracy against ${measure.label}, one dot per seed. Arrow keys walk through the seeds.`, open: (point, beside) => openSeed(setting, point.seed, beside) });
}

// A warning where some seeds are no failures of composition.
function unlearned(setting, trained) {
  const count = trained.filter((seed) => !(reached(setting, seed).iid > data.learned)).length;
  return count > 0 && el("p", { class: "note small", id: "unlearned" }, `${count} of ${plural(trained.length, "seed")} ${count === 1 ? "has not learned its" : "have not learned their"} data (IID at most ${data.learned}): here a measure may only tell whether a seed has learned at all.`);
}
