// Asks the server every few seconds, and shows what it answers.
import { advise, STATES, stateOf } from "./advice.js";
import { ask, at, attempt } from "./ask.js";
import { curveChart, factsOf, historyCharts, layersOf } from "./detail.js";
import { copied, copyButton, make, stateMark } from "./draw.js";
import { exact } from "./figures.js";
import { quoted, shownKey } from "./key.js";
import { plan } from "./planner.js";
import { Rows } from "./rows.js";
import { showServer } from "./server.js";

const PAUSE = 2000;
// Repeats `task`, and pauses longer where it takes long. A page that is not looked at asks nothing.
async function repeat(task) {
  for (;;) {
    const begun = performance.now();
    if (!document.hidden) await task();
    const took = performance.now() - begun;
    await new Promise((resolve) => setTimeout(resolve, Math.max(PAUSE, 5 * took)));
  }
}

// --- the filters

const idOf = (filter) => `${filter.database}/${filter.key_encoded ?? encodeURIComponent(filter.key)}`;
const rows = new Rows(at("rows"), at("columns"), at("body"), (filter) => {
  const hash = `#filter=${filter.id}`;
  if (location.hash === hash) choose();
  else location.hash = hash;
});

function objectsOf(answer) {
  return answer.rows.map((row) => {
    const filter = {};
    answer.columns.forEach((name, i) => { filter[name] = row[i]; });
    filter.id = idOf(filter);
    return filter;
  });
}

function showShown() {
  at("shown").textContent = `${exact(rows.shownCount)} ${rows.shownCount === 1 ? "filter" : "filters"} shown`;
}

function showVerdict(filters) {
  const bad = filters.filter((filter) => STATES[filter.state].tone === "bad").length;
  const soon = filters.filter((filter) => filter.state === "filling").length;
  const tone = bad ? "bad" : soon ? "warn" : "good";
  const some = (number, one, many) => `${exact(number)} ${number === 1 ? one : many}`;
  const text = filters.length === 0 ? "no filter has been measured yet"
    : bad ? `${some(bad, "filter needs", "filters need")} a larger replacement${soon ? `, and ${some(soon, "is", "are")} filling` : ""}. Choose one to see why and what to do.`
      : soon ? `${some(soon, "filter is", "filters are")} filling. Choose one to see what to do.` : `all of the ${exact(filters.length)} filters are fine`;
  if (at("verdict").textContent !== text) at("verdict").replaceChildren(stateMark(text, tone));
}

function showFilters(answer) {
  const filters = objectsOf(answer);
  rows.set(filters);
  showVerdict(filters);
  showShown();
}

at("search").addEventListener("input", () => { rows.search = at("search").value; rows.arrange(); showShown(); });
at("only").addEventListener("change", () => { rows.only = at("only").value; rows.arrange(); showShown(); });

// --- one filter

function adviceOf(filter) {
  const { state, why, what, steps } = advise(filter);
  const tone = STATES[state].tone;
  return make("div", { class: `advice ${tone}` }, stateMark(state, tone), make("p", {}, why), make("p", {}, what),
    steps.length ? make("ol", {}, ...steps.map((step) => make("li", {}, step.text, ...(step.code ? [" ", ...copied(step.code)] : [])))) : null);
}

let chosen = "";

function showFilter(filter) {
  filter.id = chosen;
  filter.state = stateOf(filter);
  at("filter-title").replaceChildren("Filter ", shownKey(filter), filter.database ? ` in database ${filter.database}` : "");
  // A button that was just pressed, or has the focus, stays.
  if (at("filter-tools").dataset.of !== chosen) at("filter-tools").replaceChildren(copyButton(quoted(filter), "the key"));
  at("filter-tools").dataset.of = chosen;
  at("filter-advice").replaceChildren(adviceOf(filter));
  at("filter-facts").replaceChildren(...factsOf(filter));
  // A table of figures that is being read stays.
  if (!at("filter-charts").querySelector("details[open]"))
    at("filter-charts").replaceChildren(...historyCharts(filter), ...(filter.curve ? [curveChart(filter)] : []));
  at("filter-layers").replaceChildren(layersOf(filter));
  at("filter").hidden = false;
}

async function askFilter() {
  if (chosen === "") return;
  const asked = chosen, cut = asked.indexOf("/");
  try {
    const filter = await ask(`/api/filter?database=${asked.slice(0, cut)}&key=${asked.slice(cut + 1)}`);
    if (asked === chosen) showFilter(filter);
  } catch (error) {
    if (error.status !== 404 || asked !== chosen) throw error;
    at("filter-title").textContent = "This filter is not there any more";
    for (const part of ["tools", "advice", "facts", "charts", "layers"]) at(`filter-${part}`).replaceChildren();
    at("filter").hidden = false;
    chosen = "";
  }
}

async function choose() {
  const named = /^#filter=(.*)$/.exec(location.hash);
  if (!named) {
    if (location.hash === "") { chosen = ""; at("filter").hidden = true; rows.opened(""); }
    return;
  }
  chosen = named[1];
  rows.opened(chosen);
  at("filter-charts").replaceChildren();
  await attempt(askFilter);
  at("filter").scrollIntoView({ block: "start" });
  at("filter").focus({ preventScroll: true });
}

function close() {
  history.pushState(null, "", location.pathname);
  choose();
  at("rows").focus();
}

at("close").addEventListener("click", close);
// Escape closes the figures that have the focus, else the filter. In a field it does what the browser does.
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.target.closest("input, select")) return;
  const figures = event.target.closest("details[open]");
  if (figures) {
    figures.open = false;
    figures.querySelector("summary").focus();
  } else if (!at("filter").hidden) {
    close();
  }
});
addEventListener("hashchange", choose);

// --- all of it

repeat(() => attempt(async () => {
  showServer(await ask("/api/server"));
  showFilters(await ask("/api/filters"));
  await askFilter();
}));
choose();
attempt(plan);
