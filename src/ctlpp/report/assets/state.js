// Settings: runs that differ in nothing but their seeds. What is chosen of them, and how that stands in the address.

// Of finished runs they are the results; a run that is not finished is a setting by itself.
const settings = data.results.filter((entry) => !entry.note).map((entry) => ({ ...entry, rule: data.results.find((other) => other.note && other.runs[0] === entry.runs[0]) }));
for (const [at, run] of data.runs.entries()) {
  if (run.state !== "finished" && run.seeds.length) settings.push({ runs: [at], unfinished: true, cell: null, table: 0, seeds: run.seeds.map(([seed]) => [at, seed]) });
}
settings.forEach((setting, at) => {
  setting.at = at;
  setting.first = data.runs[setting.runs[0]];
  setting.home = new Map(setting.seeds.map(([run, seed]) => [seed, run]));
});
const settingOf = (run) => settings.find((setting) => setting.runs.includes(run));
const modelOf = (setting) => titleOf(setting.first.model);
const onVariant = (setting) => `${modelOf(setting)} on ${setting.first.variant || "own data"}`;
const dataOf = (run) => (Object.hasOwn(data.names, run.data) ? data.names[run.data] : run.data || "unknown data");

// What one seed of a setting reached: { iid, ood, diverged }
function reached(setting, seed) {
  const [, iid, ood, diverged] = data.runs[setting.home.get(seed)]?.seeds.find((entry) => entry[0] === seed) ?? [];
  return { iid, ood, diverged: Boolean(diverged) };
}

// Settings of a run that only watch it, tell when and where it ran, or are said otherwise.
const WATCHING = new Set(["eval_every", "checkpoint_every", "checkpoint_minutes", "batch_seed", "seeds", "started", "seconds", "protocol", "preset", "model", "variant", "shared_functions",
  "shared_symbols", "seed", "precision", "parameters", "train", "iid", "ood", "ood_independent", "repeats", "nesting", "twins", "doubled_pairs", "table", "workers"]);
const decides = ([section, name]) => ["options", "recipe", "task"].includes(section) && (!WATCHING.has(name) || (section === "task" && name === "train"));
const keyed = (run) => new Map(run.settings.filter(decides).map(([section, name, value]) => [`${section} ${name}`, value]));

// What tells a setting from others of its model and variant, besides the data: the parts of its task, then settings.
const common = data.runs.length ? data.runs[0].task.filter((part) => data.runs.every((run) => !run.settings.length || run.task.includes(part))) : [];
function nameSettings() {
  for (const name of unique(settings.map(onVariant))) {
    const group = settings.filter((setting) => onVariant(setting) === name);
    const own = group.map((setting) => keyed(setting.first));
    const differing = unique(own.flatMap((one) => [...one.keys()])).filter((key) => new Set(own.map((one) => one.get(key))).size > 1);
    const hypers = unique(group.map((setting) => setting.first.hyper));
    group.forEach((setting, at) => {
      const extra = [...setting.first.task.filter((part) => !common.includes(part)), ...(hypers.length > 1 ? [`hyper-parameters: ${setting.first.hyper || "unknown"}`] : []),
        ...differing.filter((key) => own[at].has(key) && !(key === "task distinct_sequences" && setting.first.data === "repeats")).slice(0, 4).map((key) => `${key.split(" ")[1]} ${own[at].get(key)}`), ...(setting.unfinished ? [STATES[setting.first.state]] : [])];
      setting.data = dataOf(setting.first);
      setting.label = [setting.data, ...extra].join(", ");
    });
    const twice = group.filter((setting) => group.some((other) => other !== setting && other.label === setting.label));
    for (const setting of twice) setting.label += ` (${setting.first.name})`;
  }
}

const chosen = { setting: null, seed: null, otherSetting: null, otherSeed: null, symbol: 0, order: "clusters", scope: "symbol", map: 0, measure: null, split: "ood" };

// Seeds of a setting that can be looked into, the least accurate first; diverged ones are left out.
function ranked(setting) {
  return setting.seeds.filter(([run]) => data.runs[run].inside).map(([, seed]) => [seed, reached(setting, seed)])
    .filter(([, { ood, diverged }]) => !diverged && known(ood)).sort((a, b) => a[1].ood - b[1].ood).map(([seed]) => seed);
}

const LEARNED = [0.99, data.learned, -1]; // IID accuracy of seeds to look at: the first that any seed reaches
const learnedIn = (setting, least) => ranked(setting).filter((seed) => reached(setting, seed).iid >= least);

const gap = (setting, seed) => reached(setting, seed).iid - reached(setting, seed).ood;

// The seed that shows best what this is about: it has learned its data, and OOD accuracy falls shortest of IID accuracy.
function showcase(setting) {
  const seeds = LEARNED.map((least) => learnedIn(setting, least)).find((own) => own.length) ?? [];
  return seeds.reduce((best, seed) => (best !== null && gap(setting, best) >= gap(setting, seed) ? best : seed), null);
}

// The setting with the widest gap of a seed that has learned its data; it counts twice if another seed has solved the task
// and can stand beside.
function firstSetting() {
  const worth = (setting) => gap(setting, showcase(setting)) * (ranked(setting).some((seed) => reached(setting, seed).ood > data.solved) ? 2 : 1);
  for (const least of LEARNED) {
    const found = settings.filter((setting) => learnedIn(setting, least).length).sort((a, b) => worth(b) - worth(a));
    if (found.length) return found[0];
  }
  return settings.find((setting) => setting.runs.some((run) => data.runs[run].inside)) ?? settings[0] ?? null;
}

// A seed that succeeds, to stand beside: of the same setting, else of another on the same variant and task, else the best there is.
function reference(setting) {
  const best = (one) => ranked(one).at(-1);
  const alike = ({ first }) => [first.variant, ...first.task].join();
  const places = [setting, ...settings.filter((other) => other !== setting && alike(other) === alike(setting) && ranked(other).length).sort((a, b) => (b.first.model === setting.first.model) - (a.first.model === setting.first.model) || reached(b, best(b)).ood - reached(a, best(a)).ood)];
  const found = places.find((one) => ranked(one).length && reached(one, best(one)).ood > data.solved) ?? setting;
  return [found, best(found) ?? found.seeds[0]?.[1] ?? null];
}

async function choose(setting, seed = null) {
  chosen.setting = setting;
  chosen.seed = seed ?? showcase(setting) ?? setting.seeds[0]?.[1] ?? null;
  [chosen.otherSetting, chosen.otherSeed] = reference(setting);
  chosen.symbol = (await viewOf(setting, chosen.seed))?.hardest() ?? 0;
}

// A click on a seed anywhere: it is looked into; with the shift key it stands beside.
async function openSeed(setting, seed, beside = false) {
  if (beside) [chosen.otherSetting, chosen.otherSeed] = [setting, seed];
  else if (setting === chosen.setting) chosen.seed = seed;
  else await choose(setting, seed);
  await turn();
}

async function look(setting, seed, beside = false) {
  await openSeed(setting, seed, beside);
  goTo("inside");
}

const ADDRESS = { seed: Number, symbol: Number, map: Number, order: String, scope: String, measure: String, split: String };

function address(section = "") {
  const words = new URLSearchParams();
  if (chosen.setting) words.set("setting", chosen.setting.first.name);
  for (const name of Object.keys(ADDRESS)) if (chosen[name] !== null) words.set(name, chosen[name]);
  if (chosen.otherSetting) words.set("besideSetting", chosen.otherSetting.first.name);
  if (chosen.otherSeed !== null) words.set("beside", chosen.otherSeed);
  for (const [name, value] of Object.entries(table)) if (value !== null && value !== "" && value !== false) words.set(`runs-${name}`, value);
  return `#${section || sectionNow()}?${words}`;
}

const remember = (section) => history.replaceState(null, "", address(section));

// What the address asks for, as far as there is such a thing on this page; gives the section.
async function recall() {
  const [section, query] = location.hash.slice(1).split("?");
  const words = new URLSearchParams(query ?? "");
  const named = (key) => settings.find((setting) => setting.first.name === words.get(key));
  const setting = named("setting");
  if (setting) {
    const seed = Number(words.get("seed"));
    await choose(setting, setting.home.has(seed) ? seed : null);
    const other = named("besideSetting");
    if (other?.home.has(Number(words.get("beside")))) [chosen.otherSetting, chosen.otherSeed] = [other, Number(words.get("beside"))];
  }
  for (const [name, kind] of Object.entries(ADDRESS)) if (words.has(name) && name !== "seed" && valid(name, words.get(name))) chosen[name] = kind(words.get(name));
  for (const name of Object.keys(table)) if (words.has(`runs-${name}`)) table[name] = { sort: Number, down: Boolean }[name]?.(words.get(`runs-${name}`)) ?? words.get(`runs-${name}`);
  if (!COLUMNS[table.sort]) table.sort = null;
  return section;
}

function valid(name, value) {
  const choices = { order: ["clusters", "groups"], scope: ["symbol", "all"], split: ["iid", "ood"], map: ["0", "1", "2"] };
  return choices[name] ? choices[name].includes(value) : name !== "symbol" || /^\d{1,4}$/.test(value);
}
