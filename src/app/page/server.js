// The server at a glance.
import { at } from "./ask.js";
import { bar, make, spark, stateMark, table } from "./draw.js";
import { bytes, count, duration, exact, percent, shortTime } from "./figures.js";
import { areMany, HANDSHAKES, many, REASONS, recently } from "./trouble.js";

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
  const limit = memory.limit_bytes;
  const share = limit ? memory.used_bytes / limit : 0;
  const tone = share > 0.98 ? "bad" : share > 0.9 ? "warn" : "good";
  return card("Memory of filters", bytes(memory.used_bytes),
    [limit ? `${percent(share)} of ${memory.maxmemory_bytes ? "maxmemory" : "their share of the memory"}, ${bytes(limit)}` : "no limit", `the process has ${bytes(memory.resident_bytes)}`],
    limit ? bar(share, "meter", tone) : null, tone, tone === "good" ? "" : tone === "bad" ? "nearly full" : "filling");
}

function journalCard(journal) {
  const tone = journal.accepting ? (journal.waits_for_save ? "warn" : "good") : "bad";
  return card("Journal", journal.accepting ? journal.policy : "refuses changes",
    [journal.accepting ? "" : `${journal.refusal}; its policy is ${journal.policy}`,
      `${bytes(journal.bytes)} on disk${journal.max_bytes ? ` of at most ${bytes(journal.max_bytes)}` : ""}`,
      journal.policy === "off" ? "A crash loses what was added since the last save." : `${bytes(journal.unsynced_bytes)} not on the disk yet`,
      journal.syncs_failed ? `${many(journal.syncs_failed, "sync", "syncs")} failed since the start. The log says why (journal refuses changes).` : "",
      journal.waits_for_save ? "It waits for a save before it grows further." : ""],
    null, tone, tone === "good" ? "" : tone === "bad" ? "refuses" : "look here");
}

function saveCard(save, policy) {
  // Nothing writes its changes but a client's SAVE, or a stop.
  const unwatched = policy === "off" && !save.interval_seconds && save.changes_unsaved > 0;
  const tone = !save.ok ? "bad" : unwatched ? "warn" : "good";
  return card(save.ok ? "Save" : "Last good save", save.running ? `running, ${percent(save.progress_ratio)}` : save.saves > save.saves_failed ? `${duration(save.age_seconds)} ago` : "none since the start",
    [`${count(save.changes_unsaved)} ${save.changes_unsaved === 1 ? "change" : "changes"} not saved yet`, save.interval_seconds ? `if there are changes, one after ${duration(save.interval_seconds)}` : `none by a timer: save_interval is 0${unwatched ? ", and there is no journal. A crash loses the changes; SAVE keeps them" : ""}`, save.ok ? "" : `The last save failed: ${save.error}`],
    null, tone, !save.ok ? "the last failed" : unwatched ? "look here" : "");
}

const sumOf = (numbers) => Object.values(numbers).reduce((sum, number) => sum + number, 0);
const counted = (numbers, name) => Object.entries(numbers).filter(([, number]) => number > 0).map(([reason, number]) => [name(reason), count(number)]);
const texts = (pairs) => pairs.map((pair) => pair.join(": "));

const REFUSED = {
  full: "filter full", mirrored: "full, but its mirror's target has them", layers: "as many layers as there may be", memory: "no memory", keys: "as many keys as there may be",
  journal: "the journal refuses changes",
};

function rejectionCard({ recent, rejections, tls_handshakes_failed: handshakes, errors }) {
  const number = sumOf(recent.rejections) + sumOf(recent.tls_handshakes_failed) + sumOf(recent.adds_refused) - recent.adds_refused.mirrored;
  const reasons = [...counted(recent.adds_refused, (reason) => `items, ${REFUSED[reason]}`), ...counted(recent.rejections, (reason) => REASONS[reason]?.[1] ?? reason), ...counted(recent.tls_handshakes_failed, (reason) => `TLS, ${HANDSHAKES[reason][0]}`)];
  const list = texts(counted(errors, (word) => (word === "Filter" ? "Filter is full" : word))), rejected = sumOf(rejections) + sumOf(handshakes);
  const earlier = rejected > sumOf(recent.rejections) + sumOf(recent.tls_handshakes_failed) ? `${count(rejected)} rejected, ` : "";
  // The number of the only reason is above it.
  return card(`Refused ${recently(recent)}`, count(number),
    [...(reasons.length === 1 && number > 0 ? [reasons[0][0]] : texts(reasons)),
      recent.error_replies > 0 ? `${count(recent.error_replies)} error ${recent.error_replies === 1 ? "reply" : "replies"}; each item of a request can have one` : "no error replies",
      `since the start: ${earlier}${list.length ? `error replies ${list.join(", ")}` : "no error replies"}`],
    null, number > 0 ? "warn" : "good", number > 0 ? "look here" : "");
}

function latencyCard({ p50_seconds: p50, p99_seconds: p99, commands }) {
  const slowest = commands[0];
  return card("Latency, last minute", p99 === null ? "no command ran" : `p99 ${shortTime(p99)}`,
    [p50 === null ? "" : `half of the commands take ${shortTime(p50)} or less, 99% take ${shortTime(p99)} or less`, slowest ? `slowest: ${slowest.command}, p99 ${shortTime(slowest.p99_seconds)}` : ""]);
}

// The table behind the cards. What is open stays open.
function showSlowest({ commands }) {
  at("slowest").hidden = commands.length === 0;
  at("slowest-table").replaceChildren(table("", ["Command", "Calls", "p50", "p99"],
    commands.map(({ command, calls, p50_seconds: p50, p99_seconds: p99 }) => [command, exact(calls), shortTime(p50), shortTime(p99)])));
}

function clientsCard(now) {
  const mirrors = now.mirrors.length, broken = now.mirrors.filter((mirror) => mirror.state === "broken").length;
  const tone = broken || now.connections >= now.connections_max ? "bad" : areMany(now.connections, now.connections_max) ? "warn" : "good";
  return card("Clients and keys", `${count(now.connections)} ${now.connections === 1 ? "client" : "clients"}`,
    [`of at most ${count(now.connections_max)}`, `${count(now.keys)} keys, ${now.keys_with_deadline ? count(now.keys_with_deadline) : "none"} with a deadline`,
      mirrors ? `${exact(mirrors)} ${mirrors === 1 ? "mirror" : "mirrors"}${broken ? `, ${exact(broken)} broken` : ", whole"}` : ""],
    null, tone, tone === "good" ? "" : "look here");
}

export function showServer(now) {
  const requests = perSecond(now, "requests");
  if (before !== null) rates.push(requests);
  if (rates.length > RATES_MAX) rates.shift();
  const cores = perSecond(now, "cpu_seconds");
  at("server-line").textContent = `version ${now.version}${now.commit ? ` (${now.commit})` : ""}, up for ${duration(now.uptime_seconds)}, kernel ${now.kernel}` +
    (now.loading ? `, loading: ${bytes(now.load_bytes)} of ${bytes(now.load_size_bytes)}` : "");
  at("cards").replaceChildren(
    card("Load", `${count(requests)}/s`,
      [`requests; ${count(perSecond(now, "items_looked_up"))} items looked up${now.items_removed > 0 ? `, ${count(perSecond(now, "items_removed"))} removed` : ""} and ${count(perSecond(now, "items_added"))} added a second`,
        `${percent(cores / now.workers)} of the cores of ${many(now.workers, "worker", "workers")}`], rates.length > 1 ? spark(rates) : null),
    latencyCard(now.latency), memoryCard(now.memory), journalCard(now.journal), saveCard(now.save, now.journal.policy), rejectionCard(now), clientsCard(now));
  showSlowest(now.latency);
  before = now;
}
