// The table of runs: sorting by any column, filtering by text, model, variant and state; the settings of every run.

const STATES = { finished: "finished", unfinished: "unfinished", damaged: "damaged", version: "other version", foreign: "not a run" };
const DIVERGED = "diverged"; // what some seeds of a run may have, whatever its state
const stateOf = (run) => (run.state === "finished" && run.diverged ? `${run.diverged} of ${run.seeds.length} diverged` : STATES[run.state]);
const statesOf = (run) => (run.diverged ? [run.state, DIVERGED] : [run.state]); // that a filter may ask for
const COLUMNS = [ // `whole`: shown even if it has one value only
  { name: "Run", whole: true, key: (run) => run.name, cell: (run, at) => (settingOf(at) ? el("button", { type: "button", class: "link", on: { click: () => look(settingOf(at), showcase(settingOf(at))) } }, run.name) : run.name) },
  { name: "OOD", whole: true, numeric: true, key: (run) => run.summary.ood.mean, cell: (run) => spread(run.summary.ood.mean, run.summary.ood.std) },
  { name: "IID", whole: true, numeric: true, key: (run) => run.summary.iid.mean, cell: (run) => spread(run.summary.iid.mean, run.summary.iid.std) },
  { name: "Solved", whole: true, numeric: true, key: (run) => (run.seeds.length ? run.summary.ood.solved / run.seeds.length : null), cell: (run) => (run.seeds.length ? `${run.summary.ood.solved} of ${run.seeds.length}` : none) },
  { name: "State", key: (run) => stateOf(run), cell: stateCell },
  { name: "Model", key: (run) => (run.model ? titleOf(run.model) : ""), cell: (run) => [el("span", { class: run.own ? "reason line" : "nowrap" }, run.model ? titleOf(run.model) : none), run.own && run.model && el("span", { class: "sub" }, "not in the zoo")] },
  { name: "Variant", key: (run) => run.variant, cell: (run) => run.variant || none },
  { name: "Data", key: (run) => run.data && dataOf(run), cell: (run) => (run.data ? dataOf(run) : none) },
  { name: "Hyper-parameters", key: (run) => run.hyper, cell: (run) => run.hyper || none },
  { name: "Task", key: (run) => run.task.filter((part) => !common.includes(part)).join(", "), cell: (run) => run.task.filter((part) => !common.includes(part)).map((part) => el("span", { class: "nowrap line" }, part)) },
  { name: "Steps", numeric: true, key: (run) => run.step, cell: (run) => thousands(run.step) },
  { name: "Parameters", numeric: true, key: (run) => run.parameters, cell: (run) => thousands(run.parameters) },
  { name: "Inside", key: (run) => (run.inside ? (known(run.stale_step) ? 1 : 0) : 2), cell: (run) => (run.inside ? ["analysed", known(run.stale_step) && el("span", { class: "sub" }, `at step ${thousands(run.stale_step)} of ${thousands(run.step)}`)] : none) },
];
const oneValue = (column) => !column.whole && data.runs.length > 1 && new Set(data.runs.map(column.key)).size === 1;
const hiddenColumns = COLUMNS.filter(oneValue);
const shownColumns = COLUMNS.filter((column) => !oneValue(column));
const table = { sort: null, down: false, text: "", model: "", variant: "", state: "" };

function stateCell(run) {
  const good = run.state === "finished" && !run.diverged;
  return [el("span", { class: good ? "chip reproduced" : "chip lower" }, stateOf(run)), run.reason && el("span", { class: "sub reason" }, run.reason)];
}

function showRuns() {
  const options = (key, text) => [["", "all"], ...[...new Set(data.runs.map((run) => run[key]))].sort().map((value) => [value, text(value)])];
  const filter = (name) => (value) => { table[name] = value; listRuns(); remember(); };
  const search = el("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: "false", value: table.text, on: { input: () => filter("text")(search.value) } });
  const heads = shownColumns.map((column) => el("th", { scope: "col", class: column.numeric ? "number" : "", "data-column": COLUMNS.indexOf(column) },
    el("button", { type: "button", class: "sort", on: { click: () => sortBy(COLUMNS.indexOf(column)) } }, column.name)));
  const said = hiddenColumns.filter((column) => column.key(data.runs[0]));
  const value = (column) => `${column.name.toLowerCase()} ${thousandsOr(column.key(data.runs[0]))}`;
  show("runs-body",
    el("div", { class: "bar", role: "search" },
      el("label", {}, "Find", search),
      picker("filter-model", "Model", options("model", (value) => titleOf(value)), table.model, filter("model")),
      picker("filter-variant", "Variant", options("variant", (value) => value || "none"), table.variant, filter("variant")),
      picker("filter-state", "State", [["", "all"], ...[...new Set(data.runs.flatMap(statesOf))].sort().map((value) => [value, STATES[value] ?? "with diverged seeds"])], table.state, filter("state")),
      el("span", { id: "count", class: "quiet", role: "status" })),
    el("p", { class: "small quiet", id: "runs-about" }, said.length > 0 && `All runs: ${said.map(value).join(", ")}. `, "Choose a run to look inside. Means are over seeds that have not diverged."),
    el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Table of runs" },
      el("table", { class: "list", id: "run-table", "aria-describedby": "runs-about" },
        el("thead", {}, el("tr", {}, heads)), el("tbody"))));
  listRuns();
}

function sortBy(at) {
  table.down = table.sort === at ? !table.down : Boolean(COLUMNS[at].numeric);
  table.sort = at;
  listRuns();
  remember();
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
    const text = [run.name, run.model, titleOf(run.model), run.variant, dataOf(run), run.hyper, ...run.task, run.state, stateOf(run), run.reason].join(" ").toLowerCase();
    return ["model", "variant"].every((key) => table[key] === "" || run[key] === table[key]) && (table.state === "" || statesOf(run).includes(table.state)) && words.every((word) => text.includes(word));
  });
  if (table.sort !== null) shown = shown.sort((a, b) => compare(COLUMNS[table.sort].key(a[0]), COLUMNS[table.sort].key(b[0])));
  for (const head of byId("run-table").querySelectorAll("th[data-column]")) {
    if (Number(head.dataset.column) === table.sort) head.setAttribute("aria-sort", table.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  byId("run-table").tBodies[0].replaceChildren(...shown.map(([run, at]) =>
    el("tr", { "data-run": at, "aria-current": chosen.setting?.runs.includes(at) ? "true" : null }, shownColumns.map((column) => el("td", { class: column.numeric ? "number" : "" }, column.cell(run, at))))));
  if (!shown.length) byId("run-table").tBodies[0].append(el("tr", {}, el("td", { colspan: shownColumns.length }, "No run matches.")));
  byId("count").textContent = shown.length === data.runs.length ? plural(shown.length, "run") : `${shown.length} of ${plural(data.runs.length, "run")}`;
}

const thousandsOr = (value) => (known(value) ? thousands(value) : value);

// Settings as differences: what all runs share is folded away; of the rest every value, and those of two runs.
const TELLING = new Set(["seeds", "started", "seconds", "name"]);
let compared = [0, 0];

function showSettings() {
  const asked = data.runs.map((run, at) => [at, run]).filter(([, run]) => run.settings.length);
  if (!asked.length) { show("settings-body", el("p", { class: "note" }, "No run says anything of its settings.")); return; }
  const values = new Map(); // by section and name: of which runs
  for (const [at, run] of asked) {
    for (const [section, name, value] of run.settings) {
      const key = JSON.stringify([section, name]);
      if (!values.has(key)) values.set(key, new Map());
      values.get(key).set(value, [...(values.get(key).get(value) ?? []), at]);
    }
  }
  const isShared = (own) => own.size === 1 && [...own.values()][0].length === asked.length;
  const shared = [...values].filter(([, own]) => isShared(own)).map(([key, own]) => [...JSON.parse(key), [...own.keys()][0]]);
  const differing = [...values].filter(([, own]) => !isShared(own)).map(([key, own]) => [JSON.parse(key), own]);
  const valueOf = (at, section, name) => data.runs[at].settings.find((row) => row[0] === section && row[1] === name)?.[2] ?? "";
  const pick = (place) => picker(`compare-${place}`, place ? "and" : "Compare", asked.map(([at, run]) => [at, run.name]), compared[place], (value) => { compared[place] = Number(value); showSettings(); });
  const list = (own) => [...own].sort((a, b) => b[1].length - a[1].length);
  const said = (own) => [list(own).slice(0, 4).map(([value, runs], at) => [at > 0 && " · ", value.length > 40 ? `${value.slice(0, 36)}…` : value || "none", el("span", { class: "quiet" }, ` (${plural(runs.length, "run")})`)]), own.size > 4 && ` · ${own.size - 4} more`];
  const rows = differing.filter(([[, name]]) => !TELLING.has(name)).map(([[section, name], own]) => {
    const two = compared.map((at) => valueOf(at, section, name));
    return el("tr", { "data-differs": String(two[0] !== two[1]) }, el("th", { scope: "row" }, name, " ", el("span", { class: "sub" }, section)), el("td", { class: "break" }, said(own)), two.map((value) => el("td", { class: "break" }, value)));
  });
  show("settings-body", el("details", { id: "shared-settings" }, el("summary", {}, `${plural(shared.length, "setting")} that all runs share`), el("dl", { class: "settings" }, shared.map(([, name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))))),
    el("div", { class: "bar" }, pick(0), pick(1)),
    rows.length > 0 && el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Settings that differ" }, el("table", { class: "list diff" },
      el("thead", {}, el("tr", {}, ["Setting", "Values", ...compared.map((at) => data.runs[at].name)].map((head) => el("th", { scope: "col", class: "break" }, head)))), el("tbody", {}, rows))));
}

function showGraphs() {
  const drawn = new Map();
  data.runs.forEach((run) => { if (run.graph !== null) drawn.set(run.graph, [...(drawn.get(run.graph) ?? []), run]); });
  const named = ([graph, runs]) => el("figure", {}, el("div", { class: "drawing" }, byId(`graph-${graph}`).content.cloneNode(true)), el("figcaption", { class: "break" }, unique(runs.map((run) => run.variant || "own data")).join(", "), ` (${plural(runs.length, "run")})`));
  const [first, rest] = [[...drawn].slice(0, 3), [...drawn].slice(3)];
  show("graphs-body", drawn.size > 0 && el("div", { class: "drawings" }, first.map(named)), rest.length > 0 && el("details", {}, el("summary", {}, `${rest.length} more sampling graphs`), el("div", { class: "grid" }, rest.map(named))));
}
