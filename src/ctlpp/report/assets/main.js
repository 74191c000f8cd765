// Drawing the page, again whenever something else is chosen; navigation and theme.

let turns = 0;

// Draw what depends on the choice. Something else may be chosen meanwhile: then this drawing ends.
async function draw() {
  const own = ++turns;
  const { setting } = chosen;
  if (!setting) {
    for (const id of ["inside-body", "measures-body", "curves-body"]) show(id, el("p", { class: "note" }, data.runs[0]?.reason || "There is no run to look into."));
    return;
  }
  const { facts } = await packageOf(setting.home.get(chosen.seed) ?? setting.runs[0]);
  const [view, other] = [await viewOf(setting, chosen.seed), await viewOf(chosen.otherSetting, chosen.otherSeed)];
  if (own !== turns) return;
  const focused = document.activeElement?.id || document.activeElement?.dataset?.value;
  chosen.symbol = Math.min(chosen.symbol, (view ?? { n: 1 }).n - 1);
  if (view) view.symbol = chosen.symbol;
  if (view && other) other.turnTo(view.symbolName);
  showInside(view, other, facts);
  await showMeasures(setting);
  await showCurves(setting);
  showLengths();
  listRuns();
  if (own !== turns) return;
  const again = focused && (byId(focused) ?? document.querySelector(`main [data-value="${CSS.escape(focused)}"]`));
  again?.focus({ preventScroll: true });
  document.documentElement.dataset.drawn = own;
}

// After the reader's choice: draw it, and keep it in the address.
async function turn() {
  await draw();
  remember();
}

const sections = [...document.querySelectorAll("main > section")];
const sectionNow = () => document.querySelector("#sections a[aria-current]")?.hash.slice(1) ?? "overview";

function spy() {
  const shown = sections.filter((section) => !section.hidden);
  const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 4 && scrollY > 0;
  const now = atEnd ? shown.at(-1) : shown.filter((section) => section.getBoundingClientRect().top < 120).at(-1) ?? shown[0];
  for (const link of byId("sections").children) {
    const mine = link.hash === `#${now.id}`;
    if (mine && !link.hasAttribute("aria-current")) link.parentElement.scrollTo({ left: link.offsetLeft - 60 });
    if (mine) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
  }
}

function goTo(section) {
  const place = byId(section);
  if (!place) return;
  place.scrollIntoView();
  remember(section);
  spy();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "☀" : "☾";
  byId("theme").setAttribute("aria-label", `Switch to the ${theme === "dark" ? "light" : "dark"} theme`);
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const dayOf = (text) => { const found = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text); return found && MONTHS[found[2] - 1] ? `${Number(found[3])} ${MONTHS[found[2] - 1]} ${found[1]}` : ""; };

function showFrame() {
  const seeds = settings.reduce((sum, setting) => sum + (setting.unfinished ? 0 : setting.seeds.length), 0);
  const count = known(data.planned) ? `${thousands(seeds)} of ${thousands(data.planned)} planned seeds` : `${plural(seeds, "seed")} in ${plural(data.runs.length, "run")}`;
  byId("about").textContent = [count, dayOf(data.date), `ctlpp ${data.version}`].filter(Boolean).join(" · ");
  byId("runs-link").textContent = `All runs (${thousands(data.runs.length)})`;
  byId("footer").textContent = data.levels < 255 ? `To keep the page small, similarities are shown in ${data.levels} steps.` : "";
  const chances = unique(main.map((setting) => setting.first.symbols)).filter(known);
  byId("chance").textContent = chances.length === 1 ? ` (chance: 1/${chances[0]})` : "";
  byId("grey").hidden = !anyPublished;
  fill(byId("exports"), Object.keys(EXPORTS).map(exportButton));
  byId("csv").addEventListener("click", () => save("ctlpp.csv", "text/csv", csv()));
}

async function start() {
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  setTheme(prefers.matches ? "dark" : "light");
  prefers.addEventListener("change", () => setTheme(prefers.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  nameSettings();
  showFrame();
  showFacts();
  showPanels();
  const first = firstSetting();
  if (first) await choose(first);
  const section = await recall();
  showRuns();
  showStaged();
  showGraphs();
  compared = [chosen.setting?.runs[0] ?? 0, settings.find((setting) => setting !== chosen.setting)?.runs[0] ?? 0];
  showSettings();
  await draw();
  if (first) await showPredictor(first); else byId("predictor").remove();
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]:not(.skip)');
    if (!link) return;
    event.preventDefault();
    goTo(link.hash.slice(1));
  });
  addEventListener("scroll", spy, { passive: true });
  addEventListener("hashchange", async () => { const place = await recall(); await draw(); byId(place)?.scrollIntoView(); });
  if (section && sections.some(({ id }) => id === section)) byId(section).scrollIntoView({ behavior: "instant" });
  spy();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
