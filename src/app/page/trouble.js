// What is wrong with the server and its filters: one line for one cause, the worst first, and what to do.
import { deletes, lacksMemory, memoryStep, nextLayerBytes, STATES } from "./advice.js";
import { bytes, count, duration, exact, percent, timeAt } from "./figures.js";

const NEAR = 0.9;  // of a limit
const CERTIFICATE_DAYS = 21;
const DAY = 86400;

const step = (text, code = "") => ({ text, code });
const many = (number, one, more) => `${exact(number)} ${number === 1 ? one : more}`;
const recently = (recent) => (recent.seconds >= 290 ? "in the last 5 minutes" : `in the last ${duration(Math.max(1, recent.seconds))}`);

function ofJournal({ journal, save, recent }) {
  const causes = [];
  if (!journal.accepting)
    causes.push({ tone: "bad", what: `Changes are refused: ${journal.refusal}.${recent.adds_refused.journal ? ` ${many(recent.adds_refused.journal, "add was", "adds were")} refused ${recently(recent)}.` : ""}`,
      steps: [step("Look-ups go on, and no change that was answered is lost. The data is in the directory that this names:", "CONFIG GET dir"),
        step("First free room on that disk, outside of the directory, or enlarge the disk. The server notices by itself. Only then, a save ends it at once:", "SAVE")] });
  // A cause that both have is told once.
  else if (!save.ok) causes.push({ tone: "bad", what: `The last save failed: ${save.error}.`, steps: [step("First mend that: the disk may be full, or the directory not writable. Only then save:", "SAVE")] });
  return causes;
}

// Every command waits in a pause of all requests, also one that would end it.
function ofPause({ pause }) {
  if (!pause) return [];
  const time = duration(Math.max(1, pause.left_seconds));
  if (pause.actions === "write")
    return [{ tone: "bad", what: `Clients are paused for another ${time}, by CLIENT PAUSE: requests that may change something wait, and look-ups go on.`, steps: [step("This ends the pause:", "CLIENT UNPAUSE")] }];
  return [{ tone: "bad", what: `Clients are paused for another ${time}, by CLIENT PAUSE: no request is answered.`,
    steps: [step("No command can end it, because each would wait too. If it takes too long, start sepald again, by root, in a shell:", "systemctl restart sepald")] }];
}

const LARGEST = 3;

const STUCK = {
  full: ["cannot grow: its next layer would take more memory than is left. It refuses new items.", "cannot grow: their next layers would take more memory than is left. They refuse new items."],
  filling: ["will not be able to grow: its next layer would take more memory than is left. Then it refuses new items.", "will not be able to grow: their next layers would take more memory than is left. Then they refuse new items."],
};
const stuck = (filter) => filter.state in STUCK && lacksMemory(filter);

function ofMemory({ memory, recent }, listed) {
  // Those that filters refuse which cannot grow are told with these filters.
  const refused = listed.some((filter) => filter.state === "full" && stuck(filter)) ? 0 : recent.adds_refused.memory;
  if (!memory.limit_bytes || (memory.used_bytes <= NEAR * memory.limit_bytes && refused === 0)) return [];
  const near = memory.used_bytes > NEAR * memory.limit_bytes;
  const share = (first) => `${first} and keys take ${bytes(memory.used_bytes)}, ${percent(memory.used_bytes / memory.limit_bytes)} of ${memory.maxmemory_bytes ? "maxmemory" : "their share of the memory"}`;
  const were = `${many(refused, "add was", "adds were")} refused ${recently(recent)} for lack of memory`;
  // What was refused is told for some minutes. By then there may be room.
  const largest = { sizes: true, filters: [...listed].sort((one, other) => other.memory_bytes - one.memory_bytes).slice(0, LARGEST) };
  if (!near) return [{ tone: "warn", what: `${were}. ${share("Now filters")}.`, steps: [step("If more are refused, remove keys that are not needed, or raise maxmemory.")], ...largest }];
  const what = `${share("Filters")}. ${refused ? `${were}.` : "At the limit, new filters and items are refused."}`;
  const tone = refused || memory.used_bytes > 0.98 * memory.limit_bytes ? "bad" : "warn";
  return [{ tone, what, steps: [memoryStep(memory, 0.5 * memory.used_bytes)], ...largest }];
}

// Filters that have to grow, or soon will, and would not get the memory.
function ofGrowth({ memory, recent }, listed) {
  return Object.entries(STUCK).flatMap(([state, [one, more]]) => {
    const filters = listed.filter((filter) => filter.state === state && stuck(filter)), refused = state === "full" ? recent.adds_refused.memory : 0;
    if (filters.length === 0) return [];
    const { text, code } = memoryStep(memory, filters.reduce((sum, filter) => sum + nextLayerBytes(filter), 0));
    return [{ tone: STATES[state].tone, filters: filters.slice(0, LARGEST), state, number: filters.length,
      what: `${many(filters.length, `filter ${one}`, `filters ${more}`)}${refused ? ` ${many(refused, "add was", "adds were")} refused ${recently(recent)} for lack of memory.` : ""}`,
      steps: [step(text, code), ...(refused ? [step("Add the refused items again then.")] : [])] }];
  });
}

const areMany = (clients, clientsMax) => clients > NEAR * clientsMax;

function ofLimits({ keys, keys_max: keysMax, connections: clients, connections_max: clientsMax, recent }) {
  const causes = [];
  const keysRefused = recent.adds_refused.keys, turnedAway = recent.rejections.maxclients;
  if (keys > NEAR * keysMax)
    causes.push({ tone: keysRefused ? "bad" : "warn", what: `There are ${exact(keys)} keys of at most ${exact(keysMax)}.${keysRefused ? ` ${many(keysRefused, "add for a new key was", "adds for new keys were")} refused ${recently(recent)}.` : ""}`,
      steps: [step("Remove keys that are not needed, or raise keys_max in sepald.toml and start sepald again.")] });
  if (areMany(clients, clientsMax))
    causes.push({ tone: turnedAway ? "bad" : "warn", what: `There are ${exact(clients)} connections of at most ${exact(clientsMax)}.${turnedAway ? ` ${many(turnedAway, "was", "were")} turned away ${recently(recent)}.` : ""}`,
      steps: [step("Look for clients that open too many:", "CLIENT LIST"), step("Or raise the limit (also in sepald.toml, for the next start):", `CONFIG SET maxclients ${2 * clientsMax}`)] });
  return causes;
}

// Why the server turned something away (of one, of several), and what to do. What has a line of its own above is left out.
export const REASONS = {
  maxclients: ["connection turned away: there were as many as maxclients", "connections turned away: there were as many as maxclients", "See which clients open many:", "CLIENT LIST"],
  protected_mode: ["connection from another machine: there is no password", "connections from other machines: there is no password", "Set requirepass in sepald.toml, start sepald again, and give clients the password.", ""],
  maxmemory_clients: ["connection closed: it did not read its replies, or sent too large requests", "connections closed: they did not read their replies, or sent too large requests", "The log says which (client closed). Let them read their replies, and ask and send less at once, or raise maxmemory_clients. See which clients hold much now (tot-mem):", "CLIENT LIST"],
  not_logged_in: ["connection closed: it did not log in within login_timeout, or sent too much before", "connections closed: they did not log in within login_timeout, or sent too much before", "Let clients log in as soon as they are connected.", ""],
  request_too_long: ["request that was too long", "requests that were too long", "Let clients send fewer items at once. So many bytes may a request have:", "CONFIG GET client-query-buffer-limit"],
  http_request: ["request of HTTP to the port for Redis", "requests of HTTP to the port for Redis", "Give browsers and scrapers the http_port.", ""],
  acl_login: ["wrong password", "wrong passwords", "Give the client its password, or keep the address out. ACL LOG says which user and which address:", "ACL LOG"],
  acl_command: ["command that its user may not use", "commands that their user may not use", "Give the user the right (ACL SETUSER), or mend the client. ACL LOG says which user and which command:", "ACL LOG"],
  acl_key: ["key that its user may not use", "keys that their user may not use", "Give the user the right (ACL SETUSER), or mend the client. ACL LOG says which user and which key:", "ACL LOG"],
  acl_tls_certificate: ["TLS certificate without a user", "TLS certificates without a user", "Make the user (ACL SETUSER), or give the client another certificate. ACL LOG says which name it has:", "ACL LOG"],
};
// Why a TLS handshake failed, and what to do.
const MAY_BE_A_STRANGER = "If the client is one of yours, its own log may say more.";
export const HANDSHAKES = {
  client_certificate: ["certificate of the client missing or not valid", "Give the client a certificate that the CA of tls_ca_cert_file has signed, and its key."],
  refused_by_client: ["refused by the client, which does not trust the certificate", "Give the client the CA of tls_cert_file, and let it connect to a name that is in this certificate."],
  protocol: ["not TLS, or too old", "Let the client speak TLS 1.2 or later at the tls_port."],
  closed: ["the client went away", MAY_BE_A_STRANGER],
  timeout: ["too slow", MAY_BE_A_STRANGER],
  displaced: ["displaced by newer ones", "Keep strangers away from the port."],
};

function ofRejections({ recent, connections: clients, connections_max: clientsMax }) {
  const causes = [];
  const told = areMany(clients, clientsMax) ? "maxclients" : "";
  for (const [reason, [one, more, advice, line]] of Object.entries(REASONS))
    if (recent.rejections[reason] > 0 && reason !== told) causes.push({ tone: "warn", what: `${recently(recent)}: ${many(recent.rejections[reason], one, more)}.`, steps: [step(advice, line)] });
  const failed = Object.entries(recent.tls_handshakes_failed).filter(([, number]) => number > 0);
  if (failed.length > 0)
    causes.push({ tone: "warn", what: `${recently(recent)}: TLS handshakes failed: ${failed.map(([reason, number]) => `${HANDSHAKES[reason][0]} (${count(number)})`).join("; ")}.`,
      steps: [step(`The log names the last address (connections refused). ${[...new Set(failed.map(([reason]) => HANDSHAKES[reason][1]))].join(" ")}`)] });
  for (const cause of causes) cause.what = cause.what[0].toUpperCase() + cause.what.slice(1);
  return causes;
}

function ofCertificate({ certificate }) {
  if (!certificate) return [];
  const left = certificate.end_time_seconds - Date.now() / 1000;
  if (left > CERTIFICATE_DAYS * DAY) return [];
  const until = timeAt(certificate.end_time_seconds);
  return [{ tone: left <= 0 ? "bad" : "warn", what: left <= 0 ? `The TLS certificate has ended on ${until}: clients refuse it.` : `The TLS certificate ends in ${duration(left)}, on ${until}.`,
    steps: [step("Replace its files, then send SIGHUP to sepald, as this does, by root, in a shell:", "systemctl reload sepald")] }];
}

const OF_STATES = {
  full: ["is full: it refuses new items.", "are full: they refuse new items.", "Replace it by a larger filter"],
  overfilled: ["errs far more often than was asked for.", "err far more often than was asked for.", "Replace it by a larger filter"],
  mirror_broken: ["has a broken mirror: its target lacks items.", "have broken mirrors: their targets lack items.", "Begin the mirror again with a larger target"],
  filling: ["has little room left, and cannot grow.", "have little room left, and cannot grow.", "Prepare a larger filter"],
};

// `listed` are the filters of the list. The full target of a broken mirror is told with its source, and one that cannot grow for lack of
// memory by ofGrowth().
function ofFilters({ filters, recent }, listed) {
  const causes = [];
  const told = (filter) => filter.mirror?.role === "target" && filter.mirror.state === "broken";
  for (const [state, [one, more, advice]] of Object.entries(OF_STATES)) {
    const all = listed.filter((filter) => filter.state === state), own = all.filter((filter) => !told(filter) && !stuck(filter));
    const number = (filters.states[state] ?? 0) - (all.length - own.length);
    if (number <= 0) continue;
    const refused = state === "full" ? recent.adds_refused.full : 0;
    const removal = state !== "full" || !own.some(deletes) ? "" : `, or remove items${own.every(deletes) ? "" : " from a cuckoo filter"}`;
    causes.push({ tone: STATES[state].tone, state, filters: own.slice(0, 3), number, what: `${many(number, `filter ${one}`, `filters ${more}`)}${refused > 0 ? ` ${many(refused, "add was", "adds were")} refused ${recently(recent)}.` : ""}`,
      steps: [step(`${advice}${removal}.${refused > 0 ? " Add the refused items again then." : ""} Choose ${number === 1 ? "it" : "one"} to see the lines to send.`)] });
  }
  return causes;
}

// [{ tone, what, steps: [{ text, code }], state?, number?, filters?, sizes? }]
export function troubles(server, listed) {
  const all = [...ofPause(server), ...ofJournal(server), ...ofMemory(server, listed), ...ofGrowth(server, listed), ...ofLimits(server), ...ofFilters(server, listed), ...ofCertificate(server), ...ofRejections(server)];
  return [...all.filter((cause) => cause.tone === "bad"), ...all.filter((cause) => cause.tone !== "bad")];
}
