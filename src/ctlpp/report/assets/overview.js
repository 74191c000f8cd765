// The overview: what the verdicts come to, four facts, and a strip of seeds per setting beside what was published.

const cells = settings.filter((setting) => setting.cell); // of the grid of S
const main = settings.filter((setting) => !setting.cell && !setting.unfinished);
const judged = (setting) => setting.rule ?? setting; // Transformers are counted as the paper did
const anyPublished = main.some((setting) => setting.published);
const chanceOf = (setting) => 1 / setting.first.symbols;

const fact = (heading, text, link, place) => el("div", { class: "fact" }, el("b", {}, heading), el("p", {}, text, link && [" ", el("a", { href: `#${place}` }, link)]));

function showFacts() {
  byId("cards").hidden = !data.results.length;
  show("cards", verdictFact(), effectFact(), solvedFact(), el("div", { class: "fact", id: "predictor" }));
  show("claim", data.title && headlineOfVerdicts());
}

const total = Object.values(data.verdicts).flat().length;
const headlineOfVerdicts = () => `${data.verdicts.reproduced.length} of ${total} published accuracies reproduced`;

function verdictFact() {
  if ((data.verdicts["not run"] ?? []).length === total) return rangeFact();
  const places = Object.entries(data.verdicts).filter(([word, own]) => word !== "reproduced" || own.length).flatMap(([word, own]) => [el("span", { class: `chip ${word.split(" ").join("-")}` }, word), ` ${own.join(", ")}. `]);
  return fact(`${data.verdicts.reproduced.length} of ${total} reproduced`, places);
}

// Where nothing can be compared with the paper: how far the seeds of one setting are apart.
function rangeFact() {
  const ranges = main.map((setting) => {
    const found = setting.seeds.map(([, seed]) => reached(setting, seed)).filter(({ ood, diverged }) => known(ood) && !diverged).map(({ ood }) => ood);
    return { setting, seeds: found.length, low: Math.min(...found), high: Math.max(...found) };
  });
  const widest = ranges.filter(({ seeds }) => seeds > 1).sort((a, b) => b.high - b.low - (a.high - a.low))[0];
  return widest && fact(`${fixed(widest.low)} – ${fixed(widest.high)}`, `OOD accuracy of ${plural(widest.seeds, "seed")} of ${onVariant(widest.setting)}: the same data, another random start.`);
}

// The largest difference that the data make to one model on one variant; or else the largest gap between IID and OOD.
function effectFact() {
  let best = null;
  for (const low of main) {
    for (const high of main) {
      const [a, b] = [judged(low).summary, judged(high).summary];
      if (low.table || high.table || low.data === high.data || onVariant(low) !== onVariant(high) || a.ood.seeds < 4 || b.ood.seeds < 4) continue;
      if (!best || b.ood.mean - a.ood.mean > best[2]) best = [low, high, b.ood.mean - a.ood.mean];
    }
  }
  if (best && best[2] > 0) {
    const [low, high] = best;
    const theirs = judged(high).published;
    return fact(`${fixed(judged(low).summary.ood.mean)} → ${fixed(judged(high).summary.ood.mean)}`, `mean OOD accuracy of ${onVariant(low)} when its training data change from “${low.data}” to “${high.data}”${theirs ? `; published ${fixed(theirs.ood[0])}` : ""}.`);
  }
  const gap = (setting) => setting.summary.iid.mean - setting.summary.ood.mean;
  const widest = main.filter((setting) => known(setting.summary.ood.mean)).sort((a, b) => gap(b) - gap(a))[0];
  return widest && fact(`${fixed(widest.summary.iid.mean)} → ${fixed(widest.summary.ood.mean)}`, `mean accuracy of ${onVariant(widest)}: IID → OOD.`);
}

function solvedFact() {
  const share = ({ ood }) => ood.solved / (ood.seeds + ood.diverged);
  const off = (setting) => Math.abs(share(judged(setting).summary) - setting.published.solved / setting.published.seeds);
  const asked = main.filter((setting) => known(setting.published?.solved) && !setting.table && judged(setting).summary.ood.seeds >= data.few).sort((a, b) => off(b) - off(a))[0];
  if (asked) {
    const own = main.filter((setting) => onVariant(setting) === onVariant(asked) && !setting.table && setting.published).map((setting) => judged(setting).summary.ood);
    const counts = own.filter((ood) => ood.seeds + ood.diverged === data.published_seeds).map((ood) => ood.solved);
    const text = counts.length > 1 ? `${Math.min(...counts)} – ${Math.max(...counts)} of ${data.published_seeds}` : `${judged(asked).summary.ood.solved} of ${judged(asked).summary.ood.seeds}`;
    return fact(text, `seeds of ${onVariant(asked)} solve it (OOD accuracy above ${data.solved})${counts.length > 1 ? ", depending on their data" : ""}. Published: ${asked.published.solved} of ${asked.published.seeds}.`);
  }
  const [solved, seeds] = [(ood) => ood.solved, (ood) => ood.seeds + ood.diverged].map((count) => settings.reduce((sum, one) => sum + (one.summary ? count(one.summary.ood) : 0), 0));
  return fact(`${solved} of ${thousands(seeds)}`, `seeds solve their task: OOD accuracy above ${data.solved}.`);
}

// Rows of a panel: settings of one variant by model; function tables other than the first are one row.
function showPanels() {
  const variants = unique(main.map((setting) => setting.first.variant));
  const order = (variant) => ("RA".includes(variant) && variant ? "RA".indexOf(variant) : 2);
  variants.sort((a, b) => order(a) - order(b));
  show("panels", variants.map(panel), !main.length && el("p", { class: "note" }, cells.length ? "All results are on variant S: see the grid." : "No finished run: there are no results to show yet."));
  const shared = [...common, ...commonSettings()];
  show("shared", shared.length > 0 && `All runs: ${shared.join(", ")}.`);
}

function commonSettings() {
  const hypers = unique(data.runs.filter((run) => run.settings.length).map((run) => run.hyper));
  const steps = unique(data.runs.filter((run) => run.state === "finished").map((run) => run.step));
  return [hypers.length === 1 && hypers[0] && `hyper-parameters: ${hypers[0]}`, steps.length === 1 && known(steps[0]) && `${thousands(steps[0])} steps`].filter(Boolean);
}

const ABOUT = { R: "R: training repeats one group, the test alternates", A: "A: training alternates, the test stays in one group", CTL: "CTL: one group, longer sequences" };
const NEAREST = Object.keys(data.names);
const rank = (setting) => [NEAREST.indexOf(setting.first.data), 99].find((place) => place >= 0);

function panel(variant) {
  const own = main.filter((setting) => setting.first.variant === variant);
  const chances = unique(own.map(chanceOf));
  const chance = chances.length === 1 ? chances[0] : null;
  const titles = Object.values(data.titles);
  const models = unique(own.map(modelOf)).sort((a, b) => ((titles.indexOf(a) + 99) % 99) - ((titles.indexOf(b) + 99) % 99));
  const heads = ["", "data", "", "mean ± sd", "solved", anyPublished ? "vs published" : ""];
  const name = `panel-${variant || "own"}`;
  const made = el("table", { class: "strips", role: "table" }, el("thead", {}, el("tr", {}, heads.map((head, at) => el("th", { scope: "col", class: ["", "", "plot", "number", "number", ""][at] }, head)))),
    models.map((model) => modelRows(own.filter((setting) => modelOf(setting) === model), chance)),
    el("tfoot", {}, el("tr", {}, el("td"), el("td"), el("td", { class: "plot" }, stripAxis(chance, "OOD accuracy, one dot per seed")), el("td", { colspan: 3 }))));
  const figure = el("figure", { class: "panel", id: name }, el("figcaption", {}, el("h2", {}, ABOUT[variant] ?? (variant ? `Variant ${variant}` : "Own data")), svgButton(name, () => figure)), made);
  return figure;
}

const MOST_ROWS = 12; // of a model

function modelRows(own, chance) {
  const plain = own.filter((setting) => !setting.table || !own.some((other) => !other.table && other.data === setting.data)).sort((a, b) => rank(a) - rank(b));
  const tables = own.filter((setting) => !plain.includes(setting));
  const families = unique(tables.map((setting) => setting.data)).map((name) => tables.filter((setting) => setting.data === name));
  const theirs = own.find((setting) => setting.published)?.published;
  const lines = [[chance, "chance"], ...(theirs ? [[theirs.ood[0], "reported"]] : [])];
  const made = [...plain.map((setting) => [setting]), ...families].sort((a, b) => rank(a[0]) - rank(b[0])).map((family) => settingRow(family, lines));
  const rest = made.length > MOST_ROWS ? made.splice(MOST_ROWS - 2) : [];
  const rows = [...(theirs ? [publishedRow(theirs, lines)] : []), ...made.flat(), ...folded(rest)];
  rows[0].prepend(el("th", { class: "model break", scope: "rowgroup", rowspan: rows.length }, modelOf(own[0]), own[0].first.own && el("span", { class: "sub" }, "not in the zoo")));
  return el("tbody", {}, rows);
}

// Rows behind a button.
function folded(rest) {
  for (const [row] of rest) row.hidden = true;
  const more = el("tr", {}, el("td", { colspan: 5 }, button(`${rest.length} more settings`, () => { for (const [row] of rest) row.hidden = false; more.hidden = true; })));
  return rest.length ? [...rest.flat(), more] : [];
}

function publishedRow({ ood, solved, seeds }, lines) {
  const [mean, std] = ood;
  const [low, high] = [Math.max(mean - std, 0), Math.min(mean + std, 1)];
  const chart = strip({ points: [], height: 22, label: `published ${spread(mean, std)}`, lines: lines.slice(0, -1),
    above: [svg("line", { class: "band", x1: percentOf(low), x2: percentOf(high), y1: 11, y2: 11 }), spot(mean, 11, diamond("published"))] });
  return el("tr", { class: "published" }, el("th", { scope: "row", class: "data" }, "published"), el("td", { class: "plot" }, chart), el("td", { class: "number" }, spread(mean, std)),
    el("td", { class: "number" }, known(solved) ? `${solved}/${seeds}` : ""), el("td", {}));
}

const colourOf = (setting) => (NEAREST.includes(setting.first.data) ? `var(--data-${setting.first.data})` : "var(--quiet)");

function pointsOf(setting) {
  const rule = setting.rule;
  return setting.seeds.map(([run, seed]) => {
    const { iid, ood, diverged } = reached(setting, seed);
    const left = rule && !(iid > data.converged);
    return { value: diverged ? null : ood, seed, run, setting, kind: left ? "hollow" : "", title: `seed ${seed}${setting.table ? ` of function table ${setting.table}` : ""}: OOD ${fixed(ood)}, IID ${fixed(iid)}${left ? " (left out of the mean)" : ""}` };
  });
}

// One setting, or one family of function tables: its row, and its details below, hidden at first.
function settingRow(family, lines) {
  const [setting] = family;
  const alone = family.length === 1;
  const found = alone ? judged(setting).summary : pooled(family);
  const { iid, ood } = found;
  const points = family.flatMap(pointsOf);
  const tried = ood.seeds + ood.diverged;
  const name = alone ? setting.label : `… ${family.length} other function tables`;
  const verdict = alone && judged(setting).published?.verdict.ood;
  const few = verdict === "undecided" && ood.seeds < data.few;
  const interval = ood.interval && [svg("line", { class: "bar-line", x1: percentOf(ood.interval[0]), x2: percentOf(ood.interval[1]), y1: 15, y2: 15 })];
  const chart = strip({ points, lines, colour: colourOf(setting), label: `${onVariant(setting)}, ${alone ? name : setting.data + name}: mean ${spread(ood.mean, ood.std)}, ${ood.solved} of ${tried} solved. Arrow keys walk through the seeds, Enter looks inside.`,
    above: [interval, known(ood.mean) && spot(ood.mean, 15, fill(square("mean"), []))], open: (point, beside) => look(point.setting, point.seed, beside) });
  chart.style.setProperty("--own", colourOf(setting));
  const details = el("tr", { class: "details", hidden: true }, el("td", { colspan: 5 }));
  const toggle = el("button", { type: "button", class: "row", "aria-expanded": "false", title: "Details", on: { click: () => {
    details.hidden = !details.hidden;
    toggle.setAttribute("aria-expanded", String(!details.hidden));
    if (!details.firstChild.childNodes.length) fill(details.firstChild, [detailsOf(family, found)]);
  } } }, svg("svg", { class: "key", width: 12, height: 12, "aria-hidden": "true" }, svg("circle", { cx: 6, cy: 6, r: 4.5, fill: colourOf(setting) })), name);
  const differs = known(iid.mean) && fixed(iid.mean) !== "1.00";
  return [el("tr", {}, el("th", { scope: "row", class: "data break" }, toggle, differs && el("span", { class: "iid" }, `IID ${fixed(iid.mean)}`), ood.diverged > 0 && el("span", { class: "iid" }, `${ood.diverged} diverged`)), el("td", { class: "plot" }, chart),
    el("td", { class: "number" }, el("b", {}, fixed(ood.mean)), known(ood.std) && ` ± ${fixed(ood.std)}`), el("td", { class: "number" }, tried ? `${ood.solved}/${tried}` : none),
    el("td", { class: "verdict" }, verdict ? el("span", { class: `chip ${few ? "few" : verdict}` }, few ? `${ood.seeds} of ${data.published_seeds} seeds` : verdict)
      : el("span", { class: "quiet small", title: setting.reasons?.join(", ") }, alone ? anyPublished && "not comparable" : plural(tried, "seed")))), details];
}

function pooled(family) {
  const of = (split) => {
    const values = family.flatMap((setting) => setting.seeds.map(([, seed]) => reached(setting, seed))).filter((one) => !one.diverged).map((one) => one[split]).filter(known);
    return { mean: average(values), std: deviation(values), seeds: values.length, diverged: family.reduce((sum, one) => sum + one.summary[split].diverged, 0), solved: values.filter((value) => value > data.solved).length };
  };
  return { iid: of("iid"), ood: of("ood") };
}

function detailsOf(family, { iid, ood }) {
  const [setting] = family;
  const theirs = family.length === 1 && judged(setting).published;
  const gap = (split) => theirs && [known(theirs.difference[split]) && `${signed(theirs.difference[split])} ${theirs.interval[split] ? range(theirs.interval[split], signed) : ""}`, theirs.verdict[split]].filter(Boolean).join(", ");
  const rows = [["OOD", spread(ood.mean, ood.std)], ["95 % CI of the mean", ood.interval && range(ood.interval)], ["median", known(ood.median) && fixed(ood.median)], ["OOD, ours − published", gap("ood")], ["solved", ood.solved_share && `${ood.solved} of ${ood.seeds + ood.diverged}, 95 % CI ${range(ood.solved_share)}`],
    ["IID", spread(iid.mean, iid.std)], ["IID, ours − published", gap("iid")], ["diverged", ood.diverged && String(ood.diverged)], ["counted", setting.rule && setting.rule.note], ["not comparable with the published number", setting.reasons.length > 0 && setting.reasons.join(", ")],
    ["function tables", family.length > 1 && family.map((one) => `table ${one.table}: ${spread(one.summary.ood.mean, one.summary.ood.std)}`).join("; ")],
    ["runs", family.flatMap((one) => one.runs).map((run) => data.runs[run].name).join(", ")]].filter(([, text]) => text);
  return [el("dl", {}, rows.map(([term, text]) => el("div", {}, el("dt", {}, term), el("dd", { class: "break" }, text)))), button("Look inside", () => look(setting, showcase(setting)))];
}

// Every setting as a row of plain values, for other programs and for papers.
const EXPORTED = ["model", "variant", "data", "seeds", "IID", "IID sd", "OOD", "OOD sd", "OOD median", "CI low", "CI high", "solved", "published OOD", "published sd", "ours - published", "verdict"];
function exported() {
  return [...main, ...cells].map((setting) => {
    const { summary: { iid, ood }, published } = judged(setting);
    return [modelOf(setting), setting.first.variant, setting.label, ood.seeds, iid.mean, iid.std, ood.mean, ood.std, ood.median, ood.interval?.[0], ood.interval?.[1], ood.solved, published?.ood[0], published?.ood[1], published?.difference.ood, published?.verdict.ood];
  });
}

const plain = (value) => (known(value) ? String(Number(value.toFixed(6))) : value ?? "");
const inCsv = (value) => (typeof value === "number" ? plain(value) : `"${plain(value).replace(/^(?=[=+\-@\t\r])/, "'").replaceAll('"', '""')}"`); // no formula
const csv = () => [EXPORTED, ...exported()].map((row) => row.map((value) => (plain(value) === "" ? "" : inCsv(value))).join(",")).join("\n") + "\n";

const SHORT = ["model", "variant", "data", "seeds", "IID", "OOD", "solved", "published OOD", "verdict"];
const shortRows = (plusMinus) => exported().map(([model, variant, name, seeds, iid, iidSd, ood, oodSd, , , , solved, theirs, theirSd, , verdict]) => {
  const both = (mean, std) => (known(mean) ? [fixed(mean), known(std) && fixed(std)].filter(Boolean).join(plusMinus) : "");
  return [model, variant, name, String(seeds), both(iid, iidSd), both(ood, oodSd), String(solved), both(theirs, theirSd), verdict ?? ""];
});
const inMarkdown = (text) => text.replace(/[\\|<>*_`[\]]/g, "\\$&");
const markdown = () => [SHORT, SHORT.map(() => "---"), ...shortRows(" ± ").map((row) => row.map(inMarkdown))].map((row) => `| ${row.join(" | ")} |`).join("\n") + "\n";
const LATEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "−": "$-$", "’": "'" };
const inLatex = (text) => text.replace(/[\\~^±−’&%$#_{}]/g, (letter) => LATEX[letter] ?? `\\${letter}`);
const latex = () => ["\\begin{tabular}{lllrllrll}", "\\hline", ...[SHORT, ...shortRows(" ± ")].map((row, at) => `${row.map(inLatex).join(" & ")} \\\\${at ? "" : " \\hline"}`), "\\hline", "\\end{tabular}"].join("\n") + "\n";
const EXPORTS = { CSV: ["csv", "text/csv", csv], Markdown: ["md", "text/markdown", markdown], LaTeX: ["tex", "application/x-tex", latex] };
const exportButton = (name) => button(name, () => save(`ctlpp.${EXPORTS[name][0]}`, EXPORTS[name][1], EXPORTS[name][2]()), { class: "plain export", "data-export": name });
