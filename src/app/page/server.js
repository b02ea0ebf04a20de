// The server at a glance.
import { at } from "./ask.js";
import { bar, make, spark, stateMark } from "./draw.js";
import { bytes, count, duration, exact, percent } from "./figures.js";

const RATES_MAX = 150;  // points of the load, five minutes

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

export function showServer(now) {
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
