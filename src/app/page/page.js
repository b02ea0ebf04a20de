// Asks the server every few seconds, and shows what it answers.
import { advise, inTrouble, KINDS, STATES } from "./advice.js";
import { ask, at, attempt } from "./ask.js";
import { curveChart, factsOf, historyCharts, layersOf } from "./detail.js";
import { copied, copyButton, make, stateMark } from "./draw.js";
import { bytes, duration, exact } from "./figures.js";
import { idOf, quoted, shownKey } from "./key.js";
import { plan } from "./planner.js";
import { Rows } from "./rows.js";
import { showServer } from "./server.js";
import { troubles } from "./trouble.js";

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

let total = 0;  // filters of the server

function showShown() {
  const listed = rows.listedCount, all = `${exact(total)} ${total === 1 ? "filter" : "filters"}`;
  at("shown").textContent = rows.search || rows.only ? `${exact(rows.shownCount)} of the ${exact(listed)} listed` : listed === total ? all : `${exact(listed)} of ${all}`;
}

// { full: 38, filling: 3 } as "38 full, 3 filling".
const statesIn = (states, wanted) => Object.keys(STATES).filter((state) => wanted(state) && states[state] > 0).map((state) => `${exact(states[state])} ${STATES[state].word}`).join(", ");

function showVerdict({ total, troubled, states, kinds }, { filters: { judged_age_seconds: judged } }) {
  const bad = Object.keys(STATES).some((state) => STATES[state].tone === "bad" && states[state] > 0);
  const text = judged === null ? "the filters are being looked at for the first time" : total === 0 ? "there are no filters"
    : troubled > 0 ? `${exact(troubled)} of ${exact(total)} ${total === 1 ? "filter" : "filters"} ${troubled === 1 ? "is" : "are"} in trouble: ${statesIn(states, inTrouble)}`
      : `${total === 1 ? "the only filter is" : total === 2 ? "both filters are" : `all ${exact(total)} filters are`} fine${states.grown ? `; ${exact(states.grown)} grown to many layers` : ""}`;
  if (at("verdict").textContent !== text) at("verdict").replaceChildren(stateMark(text, bad ? "bad" : troubled > 0 ? "warn" : "good"));
  at("kinds").textContent = Object.entries(kinds).filter(([, number]) => number > 0).map(([kind, number]) => `${exact(number)} ${number === 1 ? KINDS[kind] : KINDS[kind].replace("filter", "filters").replace("forgets", "forget")}`).join(", ");
}

// Which of the filters are in the list, and how fresh that is.
function showWatched({ shown, total, troubled, troubled_shown: listed }, { http_metrics_filters: max, http_metrics_pattern: pattern, filters: { judged_age_seconds: judged } }) {
  const which = troubled === 0 ? "the largest" : `${listed === troubled ? (troubled === 1 ? "the one" : `all ${exact(troubled)}`) : `${exact(listed)} of the ${exact(troubled)}`} in trouble, and the largest`;
  const matching = pattern === "*" ? "" : `, of those whose keys match ${pattern}`;
  at("watched").textContent = max === 0 ? "No filter is listed: http_metrics_filters is 0. All are judged."
    : `${shown === total ? `All ${exact(total)} filters are listed` : `${exact(shown)} of ${exact(total)} filters are listed: ${which}${matching} (http_metrics_filters is ${exact(max)})`}. ${judged === null ? "" : `All were judged ${judged < 2 ? "just now" : `${duration(judged)} ago`}, and are judged again when something changes.`}`;
}

function troubleOf({ tone, what, steps, state, number, sizes, filters = [] }) {
  const links = filters.map((filter) => make("span", {}, make("a", { href: `#filter=${filter.id}` }, shownKey(filter)), sizes ? ` ${bytes(filter.memory_bytes)}` : ""));
  const all = make("button", { type: "button", class: "copy" }, `Show all ${exact(number ?? 0)}`);
  all.addEventListener("click", () => { at("only").value = state; at("only").dispatchEvent(new Event("change")); at("filters").scrollIntoView(); });
  return make("li", { class: tone }, stateMark(what, tone), ...steps.map(({ text, code }) => make("p", {}, text, ...(code ? [" ", ...copied(code)] : []))),
    links.length ? make("p", { class: "links" }, sizes ? "The largest: " : null, ...links.flatMap((link) => [link, " "]), number > links.length ? all : null) : null);
}

let told = "";

// One line for one cause. It is drawn again only if something has changed, so that a button can be pressed.
function showTroubles(server, listed) {
  const causes = troubles(server, listed);
  const text = JSON.stringify(causes.map((cause) => ({ ...cause, filters: cause.filters?.map((filter) => [filter.id, cause.sizes && bytes(filter.memory_bytes)]) })));
  if (text === told) return;
  told = text;
  at("troubles").replaceChildren(...causes.map(troubleOf));
  at("troubles").hidden = causes.length === 0;
  at("no-trouble").replaceChildren(...(causes.length === 0 ? [stateMark(server.loading ? "The data is being loaded." : "Nothing is wrong: changes are accepted, and no filter is in trouble.", "good")] : []));
  document.title = causes.length === 0 ? "Sepal" : `(${causes.length}) Sepal`;
}

function showFilters(answer, server) {
  const filters = objectsOf(answer);
  rows.set(filters);
  total = answer.total;
  showVerdict(answer, server);
  showWatched(answer, server);
  showTroubles(server, filters);
  showShown();
}

at("search").addEventListener("input", () => { rows.search = at("search").value; rows.arrange(); showShown(); });
at("only").addEventListener("change", () => { rows.only = at("only").value; rows.arrange(); showShown(); });

// --- one filter

let server = null;  // what /api/server answered last

function adviceOf(filter) {
  const { why, what, steps } = advise(filter, server);
  const { tone, word } = STATES[filter.state];
  return make("div", { class: `advice ${tone}` }, stateMark(word, tone), make("p", {}, why), make("p", {}, what),
    steps.length ? make("ol", {}, ...steps.map((step) => make("li", {}, step.text, ...(step.code ? [" ", ...copied(step.code)] : [])))) : null);
}

let chosen = "";

function showFilter(filter) {
  filter.id = chosen;
  at("filter-title").replaceChildren("Filter ", shownKey(filter), filter.database ? ` in database ${filter.database}` : "");
  // A button that was just pressed, or has the focus, stays.
  if (at("filter-tools").dataset.of !== chosen) at("filter-tools").replaceChildren(copyButton(quoted(filter), "the key"));
  at("filter-tools").dataset.of = chosen;
  // Drawn again only if it has changed, so that a button can be pressed.
  const advice = adviceOf(filter);
  if (at("filter-advice").firstChild?.textContent.replaceAll("Copied", "Copy") !== advice.textContent) at("filter-advice").replaceChildren(advice);
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
    server ??= await ask("/api/server");
    const filter = await ask(`/api/filter?database=${asked.slice(0, Math.max(0, cut))}&key=${asked.slice(cut + 1)}`);
    if (asked === chosen) showFilter(filter);
  } catch (error) {
    if (![400, 404].includes(error.status) || asked !== chosen) throw error;
    at("filter-title").textContent = at("filter-tools").dataset.of === asked ? "This filter is not there any more" : `No such filter: ${asked}`;
    at("filter-tools").dataset.of = "";
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
  server = await ask("/api/server");
  showServer(server);
  showFilters(await ask("/api/filters"), server);
  await askFilter();
}));
choose();
attempt(plan);
