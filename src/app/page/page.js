// Asks the server every few seconds, and shows what it answers.
import { advise, bytes, count, duration, exact, KINDS, oneIn, percent, quoted, reserveLine, STATES, stateOf } from "./advice.js";
import { bar, chart, make, spark, stateMark, table } from "./draw.js";
import { Rows } from "./rows.js";

const PAUSE = 2000;
const RATES_MAX = 150;  // points of the load, five minutes
const at = (id) => document.getElementById(id);

async function ask(path) {
  const reply = await fetch(path, { cache: "no-store", credentials: "omit" });
  const answer = await reply.json();
  if (!reply.ok) throw Object.assign(new Error(answer.error), { status: reply.status });
  return answer;
}

// Repeats `task`, and pauses longer where it takes long. A page that is not looked at asks nothing.
async function repeat(task) {
  for (;;) {
    const begun = performance.now();
    if (!document.hidden) await task();
    const took = performance.now() - begun;
    await new Promise((resolve) => setTimeout(resolve, Math.max(PAUSE, 5 * took)));
  }
}

function tell(message) {
  at("trouble").hidden = message === "";
  if (at("trouble").textContent !== message) at("trouble").textContent = message;
}

// --- the server

let before = null;
const rates = [];

function perSecond(now, name) {
  if (before === null || now.uptime_seconds <= before.uptime_seconds) return 0;
  return Math.max(0, (now[name] - before[name]) / (now.uptime_seconds - before.uptime_seconds));
}

function card(title, value, notes, extra = null, tone = "good", word = "") {
  return make("li", { class: tone },
    make("h3", {}, title, word ? stateMark(word, tone) : ""),
    make("p", { class: "value" }, value), extra,
    ...notes.filter(Boolean).map((note) => make("p", { class: "small" }, note)));
}

function memoryCard(memory) {
  const limit = memory.limit;
  const share = limit ? memory.used / limit : 0;
  const tone = share > 0.95 ? "bad" : share > 0.8 ? "warn" : "good";
  return card("Memory of filters", bytes(memory.used),
    [limit ? `${percent(share)} of ${memory.max ? "maxmemory" : "their share of the memory"}, ${bytes(limit)}` : "no limit", `the process has ${bytes(memory.resident)}`,
      tone !== "good" && "Raise maxmemory, or remove filters: new filters are refused when it is full."],
    limit ? bar(share, "meter", tone) : null, tone, tone === "good" ? "" : tone === "bad" ? "nearly full" : "filling");
}

function journalCard(journal) {
  const tone = journal.accepting ? (journal.failed_syncs || journal.waits_for_save ? "warn" : "good") : "bad";
  return card("Journal", journal.policy,
    [journal.accepting ? "" : `Changes are refused: ${journal.refusal}`,
      `${bytes(journal.bytes)} on disk${journal.bytes_max ? ` of at most ${bytes(journal.bytes_max)}` : ""}`,
      journal.policy === "off" ? "A crash loses what was added since the last save." : `${bytes(journal.unsynced)} not on the disk yet`,
      journal.failed_syncs ? `${exact(journal.failed_syncs)} syncs failed: look into the log` : "",
      journal.waits_for_save ? "It waits for a save before it grows further." : ""],
    null, tone, tone === "good" ? "" : tone === "bad" ? "refuses" : "look here");
}

function saveCard(save) {
  const tone = save.ok ? "good" : "bad";
  return card("Save", save.running ? `running, ${percent(save.progress)}` : save.done ? `${duration(save.age_seconds)} ago` : "none yet",
    [`${count(save.changes_since)} changes since the last one`, save.ok ? "" : `The last save failed: ${save.error}`],
    null, tone, save.ok ? "" : "failed");
}

const REASONS = {
  maxclients: "too many clients (maxclients)", protected_mode: "from another machine, without a password", maxmemory_clients: "buffers of clients too large (maxmemory_clients)",
  not_logged_in: "sent too much before the login", request_too_long: "request too long",
  acl_login: "wrong password", acl_command: "command not allowed", acl_key: "key not allowed", acl_tls_certificate: "no user for the TLS certificate",
};
const HANDSHAKES = {
  client_certificate: "certificate of the client missing or not valid", refused_by_client: "refused by the client", protocol: "not TLS, or too old",
  closed: "the client went away", timeout: "too slow", displaced: "displaced by newer ones",
};

function counted(numbers, names, prefix) {
  return Object.entries(numbers).filter(([, number]) => number > 0).map(([reason, number]) => `${prefix}${names[reason]}: ${count(number)}`);
}

function rejectionCard(rejections, handshakes, errors) {
  const total = [...Object.values(rejections), ...Object.values(handshakes)].reduce((sum, number) => sum + number, 0);
  const list = Object.entries(errors).filter(([, number]) => number > 0).map(([word, number]) => `${word} ${count(number)}`);
  return card("Rejections", count(total),
    [...counted(rejections, REASONS, ""), ...counted(handshakes, HANDSHAKES, "TLS, "), list.length ? `error replies: ${list.join(", ")}` : "no error replies", "since the start"],
    null, total > 0 ? "warn" : "good", total > 0 ? "look here" : "");
}

function showServer(now) {
  const requests = perSecond(now, "requests");
  if (before !== null) rates.push(requests);
  if (rates.length > RATES_MAX) rates.shift();
  const cores = perSecond(now, "cpu_seconds");
  at("server-line").textContent = `version ${now.version}${now.commit ? ` (${now.commit})` : ""}, up for ${duration(now.uptime_seconds)}` +
    (now.loading ? `, loading: ${bytes(now.loaded_bytes)} of ${bytes(now.load_bytes)}` : "");
  at("cards").replaceChildren(
    card("Load", `${count(requests)}/s`,
      [`requests; ${count(perSecond(now, "items_asked"))} items looked up${now.items_removed > 0 ? `, ${count(perSecond(now, "items_removed"))} removed` : ""} and ${count(perSecond(now, "items_added"))} added a second`,
        `${percent(cores / now.workers)} of ${now.workers} ${now.workers === 1 ? "worker" : "workers"}' cores`], rates.length > 1 ? spark(rates) : null),
    memoryCard(now.memory), journalCard(now.journal), saveCard(now.save), rejectionCard(now.rejections, now.failed_handshakes, now.errors),
    card("Clients and keys", `${count(now.clients)} ${now.clients === 1 ? "client" : "clients"}`, [`of at most ${count(now.clients_max)}`, `${count(now.keys)} keys`]));
  at("watched").textContent = now.watched_max === 0
    ? "No filter is watched: http_metrics_filters is 0."
    : `The ${exact(now.watched_max)} largest filters ${now.watched_pattern === "*" ? "" : `whose keys match ${now.watched_pattern} `}are shown (http_metrics_filters); the server measures them every few seconds.`;
  before = now;
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
    steps.length ? make("ol", {}, ...steps.map((step) => make("li", {}, step.text, step.code ? " " : "", step.code ? make("code", {}, step.code) : ""))) : null);
}

function windowFactsOf(filter) {
  const window = filter.window;
  const last = window.milliseconds === null;
  const facts = [
    ["Items remembered", exact(filter.items)], ["Kind", KINDS[filter.kind]],
    ["Remembers", last ? `the last ${exact(window.asked_items)} items` : `${duration(window.milliseconds / 1000)}, for up to ${exact(window.asked_items)} items`],
    ["Time runs from", last ? "" : window.refresh ? "the last add" : "the first add"],
    ["False positives now", `${percent(filter.rate)} (${oneIn(filter.rate)})`],
    ["Asked for", `${percent(filter.asked)} (${oneIn(filter.asked)})`],
    ["Room taken", percent(filter.fill)],
    ["Memory", bytes(filter.bytes)], ["Bits of memory an item", filter.items === 0 ? "none yet" : (8 * filter.bytes / filter.items).toFixed(1)],
    ["When a generation is full", last ? "the next one begins" : filter.expansion === 0 ? "refuses items until the next one begins" : `grows, times ${filter.expansion}`],
  ].filter(([, value]) => value !== "");
  return facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
}

function factsOf(filter) {
  if (filter.kind === "window") return windowFactsOf(filter);
  const forecast = filter.items >= filter.capacity ? "it is" : filter.full_in === null ? "not foreseen" : `in ${duration(filter.full_in)}`;
  const bloom = filter.kind === "bloom";
  const own = filter.kind === "cuckoo";
  const facts = [
    ["Items", `${exact(filter.items)} of ${exact(filter.capacity)}`], ["Kind", KINDS[filter.kind]],
    bloom ? ["Different items, estimated", exact(filter.estimate)] : ["Removed since it was made or compacted", exact(filter.removed)],
    ["False positives now", `${own ? "at most " : ""}${percent(filter.rate)} (${oneIn(filter.rate)})`],
    ["Asked for", filter.asked === null ? "none" : `${percent(filter.asked)} (${oneIn(filter.asked)})`],
    [bloom ? "Bits set" : "Slots taken", percent(filter.fill)],
    ["Memory", bytes(filter.bytes)], ["Bits of memory an item", filter.items === 0 ? "none yet" : (8 * filter.bytes / filter.items).toFixed(1)],
    ["When full", filter.expansion === 0 ? "refuses items" : own ? "grows, cell by cell" : `grows, times ${filter.expansion}`],
    bloom ? ["Full", forecast] : null,
  ].filter(Boolean);
  return facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
}

// What the share of the bits is called.
const fillOf = (filter) => ({ bloom: "Bits set", window: "Room taken" })[filter.kind] ?? "Slots taken";

function historyCharts(filter) {
  const points = filter.history;
  if (points.length === 0) return [make("p", { class: "note" }, "It has no history: the server keeps one for the filters of the table above.")];
  const oldest = Math.max(60, points[0][0]);
  const age = (seconds) => (seconds > -1 ? "now" : oldest > 600 ? `${Math.round(-seconds / 60)} min ago` : `${Math.round(-seconds)} s ago`);
  const common = { xRange: [-oldest, 0], xText: age, xTitle: "time" };
  const change = (index, text) => `From ${text(points[0][index])} to ${text(points[points.length - 1][index])} in ${duration(points[0][0])}.`;
  return [
    chart({ ...common, title: `${fillOf(filter)}, over the last hour`, said: change(1, percent), head: ["When", fillOf(filter)], points: points.map((point) => [-point[0], point[1]]), yText: percent, yMax: 1 }),
    chart({ ...common, title: "False positives, over the last hour", said: `${change(2, percent)}${filter.asked === null ? "" : ` ${percent(filter.asked)} was asked for.`}`, head: ["When", "Rate"],
      points: points.map((point) => [-point[0], point[2]]), yText: percent, line: filter.asked === null ? undefined : { y: filter.asked, text: `asked for: ${percent(filter.asked)}` } }),
  ];
}

function curveChart(filter) {
  const end = filter.curve[filter.curve.length - 1];
  const full = filter.curve.find((point) => point[0] >= 1);
  const many = filter.layer_list.length > 1;
  return chart({
    title: many ? "If the newest layer were overfilled" : "If it were overfilled",
    said: `With as many items as there is room for, the rate is ${percent(full[1])}; with ${end[0]} times as many, ${percent(end[1])}. Today it has ${filter.load.toFixed(2)} times as many, and the rate is ${percent(filter.rate)}.`,
    head: [many ? "Items of the newest layer's room" : "Items of room", "Rate"], points: filter.curve, xRange: [0, Math.max(3, Math.min(6, filter.load))],
    xText: (value) => `${Number(value.toFixed(1))}\u00d7`, xTitle: many ? "items in the newest layer, times its room" : "items, times the room",
    yText: percent, line: { y: filter.asked, text: "" },
    today: { x: filter.load, y: filter.rate, text: `today: ${percent(filter.rate)}`, above: filter.rate > filter.asked },
  });
}

function layersOf(filter) {
  if (filter.kind === "cuckoo")
    return table("Layers, oldest first", ["Layer", "Items", "Cells", "Slots", "Slots taken", "Rate now, at most", "Memory of slots"],
      filter.layer_list.map((layer, i) => [`${i + 1}`, exact(layer.items), exact(layer.cells), exact(layer.slots), percent(layer.slots_used / layer.slots), percent(layer.rate), bytes(layer.bytes)]));
  if (filter.kind === "window") {
    const generations = filter.window.generations;
    const begin = (at) => (at === null ? "" : new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC"));
    return make("div", {},
      table("Generations, newest first: the oldest is forgotten next", ["Generation", "Began", "Items"],
        generations.map(([at, items], i) => [`${i + 1}`, begin(at), exact(items)])),
      table("Layers, oldest first", ["Layer", "Room for items of a generation", "Items", "Rate now", "Planned rate", "Memory"],
        filter.layer_list.map((layer, i) => [`${i + 1}`, exact(layer.capacity), exact(layer.items), percent(layer.rate), percent(layer.planned_rate), bytes(layer.bytes)])));
  }
  if (filter.kind === "redisbloom_cuckoo")
    return table("Layers, oldest first", ["Layer", "Buckets", "Slots", "Slots taken"],
      filter.layer_list.map((layer, i) => [`${i + 1}`, exact(layer.buckets), exact(layer.slots), percent(layer.fill)]));
  return table("Layers, oldest first", ["Layer", "Items", "Room", "Bits set", "Rate now", "Planned rate", "Bits an item (k)", "Block", "Memory"],
    filter.layer_list.map((layer, i) => [`${i + 1}`, exact(layer.items), exact(layer.capacity), percent(layer.fill), percent(layer.rate), percent(layer.planned_rate),
      `${layer.probes}`, layer.block_bytes === null ? "none" : bytes(layer.block_bytes), bytes(layer.bytes)]));
}

let chosen = "";

function showFilter(filter) {
  filter.id = chosen;
  filter.state = stateOf(filter);
  at("filter-title").textContent = `Filter ${filter.key === "" ? "with the empty key" : filter.key}${filter.database ? ` in database ${filter.database}` : ""}`;
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
    for (const part of ["advice", "facts", "charts", "layers"]) at(`filter-${part}`).replaceChildren();
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

at("close").addEventListener("click", () => {
  history.pushState(null, "", location.pathname);
  choose();
  at("rows").focus();
});
addEventListener("hashchange", choose);

// --- the planner

let planned = 0;

function rateIn(text) {
  const number = /^\s*([0-9.eE+-]+)\s*(%?)\s*$/.exec(text);
  return number ? Number(number[1]) / (number[2] ? 100 : 1) : NaN;
}

function showPlan(plan, items, rate, expansion) {
  const row = (name, shape, block) => [name, bytes(shape.bytes), Number(shape.bits_per_item.toFixed(2)).toString(), exact(shape.probes), block];
  at("plan-result").replaceChildren(
    table("", ["", "Memory", "Bits of memory an item", "Bits set an item (k)", "Memory that an item touches"], [
      row("Sepal", plan.sepal, plan.blocks === 1 ? `the one block, ${bytes(plan.block_bytes)}` : `one block of ${bytes(plan.block_bytes)}`),
      row("RedisBloom", plan.redisbloom, `up to ${exact(plan.redisbloom.probes)} places`),
      row("Textbook", plan.textbook, `up to ${exact(plan.textbook.probes)} places`),
    ]),
    make("p", {}, "To create it: ", make("code", {}, reserveLine("key", rate, items, expansion))),
    expansion ? make("p", { class: "small" }, `The first layer is planned for ${percent(plan.layer_rate)}, so that all layers together keep ${percent(rate)} when the filter grows. A filter that does not grow is smaller.`) : "");
}

// Seconds of "90s", "15m", "1.5 h", "7d" and "2w"; without a unit, of seconds.
function secondsIn(text) {
  const time = /^\s*([0-9.]+)\s*([smhdw]?)\s*$/.exec(text);
  return time ? Number((Number(time[1]) * { s: 1, m: 60, h: 3600, d: 86400, w: 604800 }[time[2] || "s"]).toFixed(3)) : NaN;
}

function timeOf(seconds) {
  const parts = [];
  for (const [size, name] of [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]]) {
    const number = size === 1 ? Number(seconds.toFixed(3)) : Math.floor(seconds / size);
    seconds -= number * size;
    if (number > 0) parts.push(`${exact(number)} ${name}${number === 1 ? "" : "s"}`);
  }
  return parts.join(" ");
}

function showWindowPlan(plan, items, rate, expansion, window) {
  const kept = window.seconds === null
    ? `It keeps the last ${exact(items)} items, and at most ${exact(plan.generation_items * (window.generations + 1))}.`
    : `It keeps an item for at least ${timeOf(window.seconds)}, and for at most ${timeOf(window.seconds + plan.generation_seconds)}.`;
  const full = window.seconds === null ? "" : ` A generation of ${timeOf(plan.generation_seconds)} with more than ${exact(plan.generation_items)} items ${expansion ? "gets a further layer" : "refuses the rest"}.`;
  at("plan-result").replaceChildren(
    table("", ["", "Memory", "Bits of memory an item", "Bits set an item (k)", "Memory that an item touches"], [
      ["Sepal", bytes(plan.sepal.bytes), Number(plan.sepal.bits_per_item.toFixed(2)).toString(), exact(plan.sepal.probes), `${exact(plan.lines)} lines of ${bytes(plan.line_bytes)}`],
    ]),
    make("p", {}, "To create it: ", make("code", {}, reserveLine("key", rate, items, expansion, window))),
    make("p", { class: "small" }, kept + full));
}

// { seconds, generations } as reserveLine() has it, or null.
function windowIn() {
  const forgets = at("plan-forgets").value;
  at("plan-window").parentElement.hidden = forgets !== "time";
  at("plan-generations").parentElement.hidden = forgets === "never";
  at("plan-grows").parentElement.hidden = forgets === "last";
  if (forgets === "never") return null;
  return { seconds: forgets === "time" ? secondsIn(at("plan-window").value) : null, generations: Number(at("plan-generations").value) };
}

function wrongIn(items, rate, window) {
  if (!(Number.isSafeInteger(items) && items >= 1)) return "Items: a whole number from 1 on.";
  if (!(rate >= 1e-15 && rate < 1)) return "False positives: above 0 and below 1, for example 0.01 or 1%.";
  if (window === null) return "";
  if (window.seconds !== null && !(window.seconds > 0 && window.seconds < 1e11)) return "Window: a time, for example 90s, 15m, 1h or 7d.";
  return Number.isInteger(window.generations) && window.generations >= 1 && window.generations <= 16 ? "" : "Generations: a whole number from 1 to 16.";
}

async function plan() {
  const turn = ++planned;
  const items = Number(at("plan-items").value.replace(/[\s,_]/g, "")), rate = rateIn(at("plan-rate").value);
  const expansion = at("plan-grows").checked ? 2 : 0, window = windowIn();
  const wrong = wrongIn(items, rate, window);
  at("plan-message").textContent = wrong;
  if (wrong) return at("plan-result").replaceChildren();
  const forgets = window === null ? "" : `&window=${window.seconds ?? "last"}&generations=${window.generations}`;
  const answer = await ask(`/api/plan?items=${items}&rate=${rate}&expansion=${expansion}${forgets}`);
  if (turn !== planned) return;
  if (answer.error === undefined) return window === null ? showPlan(answer, items, rate, expansion) : showWindowPlan(answer, items, rate, expansion, window);
  at("plan-message").textContent = `This cannot be planned: ${answer.error}.`;
  at("plan-result").replaceChildren();
}

at("plan").addEventListener("input", () => attempt(plan));
at("plan").addEventListener("submit", (event) => event.preventDefault());

// --- all of it

async function attempt(task) {
  try {
    await task();
    tell("");
  } catch (error) {
    tell(error instanceof TypeError ? "The server does not answer. The figures below are the last ones." : `The server answers: ${error.message}`);
  }
}

repeat(() => attempt(async () => {
  showServer(await ask("/api/server"));
  showFilters(await ask("/api/filters"));
  await askFilter();
}));
choose();
attempt(plan);
