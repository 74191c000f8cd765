// The table of runs: sorting by any column, filtering by text, model, variant and state; the settings of every run.

const STATES = { finished: "finished", unfinished: "unfinished", damaged: "damaged", version: "other version", foreign: "not a run" };
const DIVERGED = "diverged"; // what some seeds of a run may have, whatever its state
const COLUMNS = [
  { name: "Run", key: (run) => run.name, cell: (run, at) => el("button", { type: "button", class: "link", on: { click: () => chooseRun(at, true) } }, run.name) },
  { name: "State", key: (run) => run.state, cell: stateCell },
  { name: "Model", key: (run) => (run.model ? titleOf(run.model) : ""), cell: (run) => [el("span", { class: run.own ? "reason line" : "nowrap" }, run.model ? titleOf(run.model) : none), run.own && run.model && el("span", { class: "sub" }, "not in the zoo")] },
  { name: "Variant", key: (run) => run.variant, cell: (run) => run.variant || none },
  { name: "Protocol, preset", key: (run) => `${run.protocol} ${run.preset}`.trim(), cell: (run) => [run.protocol, run.preset].filter(Boolean).join(", ") || none },
  { name: "Task", key: (run) => run.task.join(", "), cell: (run) => (run.task.length ? run.task.map((part) => el("span", { class: "nowrap line" }, part)) : none) },
  { name: "Steps", numeric: true, key: (run) => run.step, cell: (run) => thousands(run.step) },
  { name: "Seeds", numeric: true, key: (run) => run.seeds.length, cell: (run) => run.seeds.length || none },
  { name: "IID", numeric: true, key: (run) => run.summary.iid.mean, cell: (run) => spread(run.summary.iid.mean, run.summary.iid.std) },
  { name: "OOD", numeric: true, key: (run) => run.summary.ood.mean, cell: (run) => spread(run.summary.ood.mean, run.summary.ood.std) },
  { name: "Solved", numeric: true, key: (run) => (run.seeds.length ? run.summary.ood.solved / run.seeds.length : null), cell: (run) => (run.seeds.length ? `${run.summary.ood.solved} of ${run.seeds.length}` : none) },
  { name: "Parameters", numeric: true, key: (run) => run.parameters, cell: (run) => thousands(run.parameters) },
  { name: "Inside", key: (run) => (run.inside ? 0 : 1), cell: (run) => (run.inside ? ["analysed", known(run.stale_step) && el("span", { class: "sub" }, `at step ${thousands(run.stale_step)} of ${thousands(run.step)}`)] : none) },
];
const table = { sort: null, down: false, text: "", model: "", variant: "", state: "" };

const stateOf = (run) => (run.state === "finished" && run.diverged ? `${run.diverged} of ${run.seeds.length} diverged` : STATES[run.state]);
const statesOf = (run) => (run.diverged ? [run.state, DIVERGED] : [run.state]); // that a filter may ask for

function stateCell(run) {
  const good = run.state === "finished" && !run.diverged;
  return [el("span", { class: good ? "tag good" : "tag bad" }, stateOf(run)), run.reason && el("span", { class: "sub reason" }, run.reason)];
}

function showRuns() {
  const options = (key, text) => [["", "all"], ...[...new Set(data.runs.map((run) => run[key]))].sort().map((value) => [value, text(value)])];
  const filter = (name) => (value) => { table[name] = value; listRuns(); };
  const search = el("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: "false", on: { input: () => filter("text")(search.value) } });
  const heads = COLUMNS.map((column, at) => el("th", { scope: "col", class: column.numeric ? "number" : "", "data-column": at },
    el("button", { type: "button", class: "sort", on: { click: () => sortBy(at) } }, column.name)));
  show("runs-body",
    el("div", { class: "bar", role: "search" },
      el("label", {}, "Find", search),
      choose("filter-model", "Model", options("model", (value) => titleOf(value)), "", filter("model")),
      choose("filter-variant", "Variant", options("variant", (value) => value || "none"), "", filter("variant")),
      choose("filter-state", "State", [["", "all"], ...[...new Set(data.runs.flatMap(statesOf))].sort().map((value) => [value, STATES[value] ?? "with diverged seeds"])], "", filter("state")),
      el("span", { id: "count", class: "quiet", role: "status" })),
    el("p", { class: "small quiet", id: "runs-about" }, "Choose a run to look inside. Means are over seeds that have not diverged; those of unfinished runs are of their last evaluation."),
    el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Table of runs" },
      el("table", { class: "list", id: "run-table", "aria-describedby": "runs-about" },
        el("thead", {}, el("tr", {}, heads)), el("tbody"))));
  listRuns();
}

function sortBy(at) {
  table.down = table.sort === at ? !table.down : Boolean(COLUMNS[at].numeric);
  table.sort = at;
  listRuns();
}

const collator = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  const missing = (value) => value === null || value === undefined || value === "";
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const order = typeof a === "number" ? a - b : collator.compare(a, b);
  return table.down ? -order : order;
}

function listRuns() {
  const words = table.text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = data.runs.map((run, at) => [run, at]).filter(([run]) => {
    const text = [run.name, run.model, titleOf(run.model), run.variant, run.protocol, run.preset, ...run.task, run.state, stateOf(run), run.reason].join(" ").toLowerCase();
    return ["model", "variant"].every((key) => table[key] === "" || run[key] === table[key]) && (table.state === "" || statesOf(run).includes(table.state)) && words.every((word) => text.includes(word));
  });
  if (table.sort !== null) shown = shown.sort((a, b) => compare(COLUMNS[table.sort].key(a[0]), COLUMNS[table.sort].key(b[0])));
  for (const head of byId("run-table").querySelectorAll("th[data-column]")) {
    if (Number(head.dataset.column) === table.sort) head.setAttribute("aria-sort", table.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  byId("run-table").tBodies[0].replaceChildren(...shown.map(([run, at]) =>
    el("tr", { "data-run": at, "aria-current": at === chosen.run ? "true" : null }, COLUMNS.map((column) => el("td", { class: column.numeric ? "number" : "" }, column.cell(run, at))))));
  if (!shown.length) byId("run-table").tBodies[0].append(el("tr", {}, el("td", { colspan: COLUMNS.length }, "No run matches.")));
  byId("count").textContent = shown.length === data.runs.length ? plural(shown.length, "run") : `${shown.length} of ${plural(data.runs.length, "run")}`;
}

function showSettings() {
  const made = data.runs.map((run, at) => el("details", { "data-run": at, on: { toggle: ({ target }) => target.open && fillSettings(target) } },
    el("summary", {}, run.name, " ", el("span", { class: "quiet" }, [titleOf(run.model), run.variant].filter(Boolean).join(" on ")))));
  show("settings-body", el("p", { class: "quiet paper" }, "The settings of a run are printed here if they are open on the page."), made);
}

function fillSettings(details) {
  if (details.children.length === 1) details.append(settingsOf(data.runs[details.dataset.run]));
}

function settingsOf(run) {
  const sections = new Map();
  for (const [section, name, value] of run.settings) {
    if (!sections.has(section)) sections.set(section, []);
    sections.get(section).push(el("dt", {}, name), el("dd", {}, value));
  }
  if (!sections.size) return el("p", { class: "note" }, run.reason || "This run says nothing of its settings.");
  return el("div", { class: "settings" }, [...sections].map(([section, rows]) => el("div", {}, el("h4", {}, section), el("dl", {}, rows))));
}

function showGraphs() {
  const drawn = new Map();
  data.runs.forEach((run) => { if (run.graph !== null) drawn.set(run.graph, [...(drawn.get(run.graph) ?? []), run.name]); });
  show("graphs-body", drawn.size ? el("div", { class: "grid large" }, [...drawn].map(([graph, names]) => el("figure", {},
    el("div", { class: "drawing" }, byId(`graph-${graph}`).content.cloneNode(true)),
    el("figcaption", { class: "break" }, `${plural(names.length, "run")}: `, names.slice(0, 6).join(", "), names.length > 6 ? ", …" : ""))))
    : el("p", {}, "No run names its task."));
}
