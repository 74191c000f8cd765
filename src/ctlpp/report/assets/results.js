// Results by setting beside the published numbers, accuracy by length, and the grid of S.

const byLength = { split: "ood" };

function showResults() {
  const fitting = data.results.filter((entry) => entry.published);
  const others = data.results.filter((entry) => !entry.published);
  const body = [];
  if (!data.results.length) body.push(el("p", { class: "note" }, "No finished run: there are no results to show yet."));
  if (fitting.length) {
    body.push(el("h3", {}, "At the paper’s size and settings"), resultTable(fitting, true),
      el("p", { class: "small quiet" }, "Difference: our mean less the published one, with Welch’s 95 % interval, widened by the rounding of the published number; fewer than ten seeds are taken to scatter at least as widely as the published ones. ",
        "The protocol decides whether training has single applications (text: yes; authors and clean: no); the published numbers come from the released code, which has none."));
  }
  if (others.length) {
    body.push(el("h3", {}, fitting.length ? "Other settings" : "By setting"), resultTable(others, false),
      el("p", { class: "small quiet break", id: "not-comparable" }, "Not comparable with the published numbers: ",
        differences.map((reasons, at) => [at > 0 && "; ", el("sup", {}, letter(at)), ` ${reasons}`]), "."));
  }
  if (data.results.length) body.push(legend(fitting.length > 0), el("div", { id: "lengths" }));
  show("results-body", body);
  if (data.results.length) showLengths();
}

// What sets runs apart from the published ones, each once; rows refer to it by its letter.
const reasonsOf = (entry) => entry.reasons.join(", ");
const differences = [...new Set(data.results.filter((entry) => !entry.published).map(reasonsOf))];
const letter = (at) => (at < 26 ? "" : letter(Math.floor(at / 26) - 1)) + String.fromCharCode(97 + (at % 26));

const RESULT_HEADS = ["Model and variant", "Setting", "Seeds", "OOD", "0 – OOD – 1", "95 % of mean", "Solved", "Published OOD", "Difference, OOD"];

function legend(published) {
  const dots = svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, svg("circle", { class: "dot", cx: 6, cy: 6, r: 2.6 }), svg("circle", { class: "dot", cx: 15, cy: 6, r: 2.6 }), svg("circle", { class: "dot", cx: 24, cy: 6, r: 2.6 }));
  const mean = svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, svg("line", { class: "ours", x1: 2, x2: 32, y1: 6, y2: 6 }), svg("line", { class: "ours", x1: 17, x2: 17, y1: 1, y2: 11 }));
  const theirs = svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, svg("line", { class: "theirs", x1: 2, x2: 32, y1: 6, y2: 6 }), svg("circle", { class: "theirs", cx: 17, cy: 6, r: 3.2 }));
  return el("div", { class: "legend" }, el("span", {}, dots, "a seed"), el("span", {}, mean, "mean and its 95 % bootstrap interval"),
    published && el("span", {}, theirs, "published mean and the 95 % interval that its deviation over 25 seeds allows"), el("span", {}, `solved: OOD above ${data.solved}, with its 95 % Wilson interval`));
}

function resultTable(entries, published) {
  const heads = RESULT_HEADS.slice(0, published ? undefined : 7);
  const numeric = (head) => !["Model and variant", "Setting", "0 – OOD – 1"].includes(head);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": published ? "Results beside the published numbers" : "Results of other settings" },
    el("table", { class: "list cards", role: "table" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads.map((head) => el("th", { scope: "col", role: "columnheader", class: numeric(head) ? "number" : "" }, head)))),
      el("tbody", { role: "rowgroup" }, entries.map((entry) => resultRow(entry, published)))));
}

function resultRow(entry, published) {
  const run = data.runs[entry.runs[0]];
  const { iid, ood } = entry.summary;
  const cell = (...content) => el("td", { class: "number" }, ...content);
  const sub = (text) => text && el("span", { class: "sub" }, text);
  const row = [
    el("th", { scope: "row", role: "rowheader", class: run.own ? "break" : "nowrap" }, `${titleOf(run.model)} on ${run.variant || "own data"}`,
      !published && el("sup", { title: `not comparable: ${reasonsOf(entry)}` }, ` ${letter(differences.indexOf(reasonsOf(entry)))}`), run.own && sub("not in the zoo")),
    el("td", { class: published ? "setting beside" : "setting" }, [`protocol ${run.protocol || "unknown"}`, `preset ${run.preset || "unknown"}`, ...run.task.slice(2)].join(", "), sub(entry.note), el("span", { class: "sub break" }, runsBehind(entry))),
    cell(thousands(ood.seeds), sub(ood.diverged ? `+ ${ood.diverged} diverged` : "")),
    cell(el("b", {}, spread(ood.mean, ood.std)), sub(`IID ${spread(iid.mean, iid.std)}`)),
    el("td", {}, forest(entry.values, ood, published ? { mean: entry.published.ood[0], interval: entry.published.interval } : null)),
    cell(range(ood.interval), sub(`median ${fixed(ood.median)}`), sub(`IID ${range(iid.interval)}`), sub(`IID median ${fixed(iid.median)}`)),
    cell(`${ood.solved} of ${ood.seeds + ood.diverged}`, sub(range(ood.solved_share, percent))),
  ];
  if (published) {
    const theirs = entry.published;
    const [gap, interval] = theirs.difference.ood ?? [];
    const [gapIid, intervalIid] = theirs.difference.iid ?? [];
    row.push(cell(spread(...theirs.ood), sub(theirs.solved === null ? "" : `${theirs.solved} of ${theirs.seeds} solved`), sub(`IID ${spread(...theirs.iid)}`)),
      cell(signed(gap), sub(interval ? range(interval, signed) : "one seed: no interval"), intervalIid && [sub(`IID ${signed(gapIid)}`), sub(range(intervalIid, signed))]));
  }
  row.forEach((one, at) => { if (at) { one.dataset.label = RESULT_HEADS[at]; one.setAttribute("role", "cell"); } });
  return el("tr", { role: "row" }, row);
}

function runsBehind(entry) {
  const names = entry.runs.map((at) => data.runs[at].name);
  return names.length > 3 ? `${names.length} runs together: ${names.slice(0, 2).join(", ")}, …` : names.join(", ");
}

function showLengths() {
  const split = byLength.split;
  const lengths = [...new Set(data.results.flatMap((entry) => Object.keys(entry.lengths[split]).map(Number)))].sort((a, b) => a - b);
  const pick = segments("Split", [["iid", "IID"], ["ood", "OOD"]], split, (value) => {
    byLength.split = value;
    showLengths();
    byId("lengths").querySelector(`[data-value="${value}"]`).focus();
  });
  const rows = data.results.map((entry) => {
    const run = data.runs[entry.runs[0]];
    return el("tr", {}, el("th", { scope: "row" }, `${titleOf(run.model)} on ${run.variant || "own data"}`, el("span", { class: "sub break" }, runsBehind(entry))),
      lengths.map((length) => {
        const [mean, std, low, high] = entry.lengths[split][length] ?? [];
        return heatCell(mean, [spread(mean, std), known(low) && el("small", {}, range([low, high]))]);
      }));
  });
  show("lengths", el("h3", {}, "By number of functions"),
    el("div", { class: "bar" }, pick, el("span", { class: "small quiet" }, "Mean ± standard deviation over seeds; below it the 95 % interval of the mean.")),
    lengths.length ? el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Accuracy by length" }, el("table", { class: "heat" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Functions"), lengths.map((length) => el("th", { scope: "col" }, length)))), el("tbody", {}, rows)))
      : el("p", {}, "The runs do not say."));
}

// The settings of a run that decide its result, besides the cell: [[name, value]…]
const WATCHING = ["shared_functions", "shared_symbols", "eval_every", "checkpoint_every", "checkpoint_minutes"];
const conditionsOf = (run) => [["protocol", run.protocol], ["preset", run.preset], ["task", run.task.slice(0, 2).join(", ")],
  ...run.settings.filter(([section, name]) => ["options", "recipe", "task"].includes(section) && !WATCHING.includes(name)).map(([, name, value]) => [name, value])];

// Results on S by cell; settings that differ in anything else, or that have other data, have a grid of their own.
function makeGrids() {
  const grids = [];
  for (const entry of data.results.filter((one) => one.cell)) {
    const run = data.runs[entry.runs[0]];
    const conditions = conditionsOf(run);
    const fits = (grid) => grid.model === run.model && String(grid.conditions) === String(conditions) && !grid.cells.has(String(entry.cell));
    const grid = grids.find(fits) ?? { model: run.model, conditions, cells: new Map() };
    if (!grid.cells.size) grids.push(grid);
    grid.cells.set(String(entry.cell), entry);
  }
  return grids;
}

// What tells a grid from the others of its model.
function tellApart(grid, grids) {
  const others = grids.filter((other) => other.model === grid.model).map((other) => new Map(other.conditions));
  return grid.conditions.filter(([name, value], at) => at < 3 || others.some((other) => other.get(name) !== value)).map((pair) => pair.join(" ")).join(", ");
}

function stagedCell(entry) {
  if (!entry) return heatCell(null);
  const { mean, std, seeds, diverged } = entry.summary.ood;
  return heatCell(mean, [fixed(mean), el("small", {}, known(std) ? `± ${fixed(std)}` : ""), el("small", {}, plural(seeds, "seed")), diverged > 0 && el("small", {}, `+ ${diverged} diverged`)]);
}

function showStaged() {
  const grids = makeGrids();
  if (!grids.length) return;
  byId("staged").hidden = byId("staged-link").hidden = false;
  const counts = (grid, axis) => [...new Set([...grid.cells.values()].map((entry) => entry.cell[axis]))].sort((a, b) => a - b);
  const row = (grid, functions) => el("tr", {}, el("th", { scope: "row" }, functions), counts(grid, 1).map((symbols) => stagedCell(grid.cells.get(`${functions},${symbols}`))));
  show("staged-body", el("p", { class: "lead" }, "OOD accuracy on variant S by the number of shared functions and of symbols that they may receive from both paths."),
    el("div", { class: "tables" }, grids.map((grid) => el("div", {},
      el("h3", {}, titleOf(grid.model)), el("p", { class: "small quiet" }, tellApart(grid, grids)),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Grid of S, ${titleOf(grid.model)}` }, el("table", { class: "heat" },
        el("caption", { class: "unseen" }, `OOD accuracy of ${titleOf(grid.model)} by shared functions and shared symbols`),
        el("thead", {}, el("tr", {}, el("td", { class: "corner" }, "functions ↓ symbols →"), counts(grid, 1).map((count) => el("th", { scope: "col" }, count)))),
        el("tbody", {}, counts(grid, 0).map((functions) => row(grid, functions))))),
      Object.hasOwn(data.staged, grid.model) && el("p", { class: "small" }, data.staged[grid.model], " The numbers of its cells were never published.")))));
}
