// What is wrong with the server and its filters: one line for one cause, the worst first, and what to do.
import { deletes, growthBytes, lacksMemory, memoryStep, STATES } from "./advice.js";
import { bytes, count, duration, exact, percent, timeAt } from "./figures.js";

const ADD_AGAIN = "After that, add the refused items again. Until then, look-ups say that they are not there.";
const NEAR = 0.9;  // of a limit
const CERTIFICATE_DAYS = 21;
const DAY = 86400;

const step = (text, code = "") => ({ text, code });
export const many = (number, one, more) => `${exact(number)} ${number === 1 ? one : more}`;
export const recently = (recent) => (recent.seconds >= 290 ? "in the last 5 minutes" : `in the last ${duration(Math.max(1, recent.seconds)).replace(/^1 /, "")}`);

const ONLY_THEN = "Only then, save. sepald also does so by itself, from time to time:";
// What the journal's reason for refusing changes asks for, the first that fits. A reason may have that of a failed save in it.
const REMEDIES = [
  [/ was removed while in use| is not there: | is not the directory that |: No such file or directory/, "Files were removed there, or the directory was moved, or is not mounted any more. Do not stop sepald before a save has succeeded: the data that it has in its memory may be the only whole copy. First put the directory back at its path. If it is lost, make an empty one there that sepald may write to. Then a save writes all of the data:"],
  [/: (Permission denied|Operation not permitted|Read-only file system)/, `First let sepald write there again. ${ONLY_THEN}`],
  [/: Input\/output error/, "The disk has errors, and the system's log says more. First mend that. Only then, a save writes all of the data anew:"],
  [/: (No space left on device|Disk quota exceeded)|the disk is full|; free \d+ bytes |did not fit on the disk/, `First free room on that disk, or enlarge it. Remove nothing inside the directory. ${ONLY_THEN}`],
  [/^/, `First mend that, if it names a fault. ${ONLY_THEN}`],
];

const BEGUN = step("If SAVE is refused because a background save is in progress, wait for that one: it does the same.");

const IN_DIRECTORY = "This names the data directory:";

const remedy = (why) => [step(REMEDIES.find(([reason]) => reason.test(why))[1], "SAVE"), BEGUN];

function ofJournal({ journal, save, recent }) {
  const causes = [];
  if (!journal.accepting)
    causes.push({ tone: "bad", refused: ["journal"], what: `Changes are refused: ${journal.refusal}.${recent.adds_refused.journal ? ` ${many(recent.adds_refused.journal, "add was", "adds were")} refused ${recently(recent)}.` : ""}`,
      steps: [step(`Look-ups go on, and no change that was accepted is lost. ${IN_DIRECTORY}`, "CONFIG GET dir"), ...remedy(journal.refusal), ...(recent.adds_refused.journal ? [step(ADD_AGAIN)] : [])] });
  // A cause that both have is told once.
  else if (!save.ok) causes.push({ tone: "bad", what: `The last save failed: ${save.error}.`,
      steps: [step(`Look-ups and changes go on. ${journal.policy === "off" ? "There is no journal: if sepald ends, all changes since the last good save are lost, and all of the data if that save is gone. So do not stop it before a save has succeeded." : "The journal has all changes."} ${IN_DIRECTORY}`, "CONFIG GET dir"), ...remedy(save.error)] });
  return causes;
}

// A value that comes whole gets a file of its own, so the disk may lack room for it while the journal takes small changes. The reason stays
// until another one has come, but it is trouble only while clients are refused.
const isWholeRefused = ({ journal, recent }) => journal.accepting && journal.adoption_refusal !== "" && recent.errors.MISCONF > 0;

function ofWholeValues(server) {
  if (!isWholeRefused(server)) return [];
  return [{ tone: "warn", what: `The last filter or string that came whole was refused: ${server.journal.adoption_refusal}.`,
    steps: [step(`COPY, RESTORE, BF.IMPORT, the last BF.LOADCHUNK of a filter, a long SET and the like put such values. Look-ups and small changes go on. ${IN_DIRECTORY}`, "CONFIG GET dir"), ...remedy(server.journal.adoption_refusal), step("After that, send the refused commands again.")] }];
}

const WHO_PAUSED = "The log says who has paused the server: look there for CLIENT PAUSE.";

// Every command waits in a pause of all requests, also one that would end it.
function ofPause({ pause, time_seconds: now }) {
  if (!pause) return [];
  const time = `${duration(Math.max(1, pause.left_seconds))}, until ${timeAt(Math.round(now + pause.left_seconds))}`;
  if (pause.actions === "write")
    return [{ tone: "bad", what: `Clients are paused for another ${time}, by CLIENT PAUSE: requests that may change something wait, and look-ups go on.`, steps: [step(`The requests that wait run when it ends. ${WHO_PAUSED} If nothing depends on it any more, this ends the pause:`, "CLIENT UNPAUSE")] }];
  return [{ tone: "bad", what: `Clients are paused for another ${time}, by CLIENT PAUSE: no request is answered.`,
    steps: [step(`No command can end it, because each would wait too. ${WHO_PAUSED} If it takes too long, start sepald again, by root, in a shell:`, "systemctl restart sepald")] }];
}

function ofScript({ busy_script: script, journal }) {
  if (!script) return [];
  const what = `A script has run for ${duration(Math.max(1, script.running_seconds))}: all other requests are answered BUSY. The log says whose it is (a script holds up).`;
  if (!script.has_written) return [{ tone: "bad", what, steps: [step("This ends it:", "SCRIPT KILL")] }];
  const kept = journal.policy === "off" ? "journal is off, so all changes since the last save are lost" : "all changes are in the journal";
  return [{ tone: "bad", what, steps: [step(`It has changed something, so SCRIPT KILL does not end it. Wait, or stop sepald, which ends the script after 5 seconds (${kept}). Then start sepald again:`, "SHUTDOWN NOSAVE")] }];
}

const LARGEST = 3;

const STUCK = {
  full: ["cannot grow: it would take more memory than is left. It refuses new items.", "cannot grow: they would take more memory than is left. They refuse new items."],
  filling: ["will not be able to grow: it would take more memory than is left. Then it refuses new items.", "will not be able to grow: they would take more memory than is left. Then they refuse new items."],
};
const stuck = (filter) => filter.state in STUCK && lacksMemory(filter);
const share = (first, memory) => `${first} and keys take ${bytes(memory.used_bytes)}, ${percent(memory.used_bytes / memory.limit_bytes)} of ${memory.maxmemory_bytes ? "maxmemory" : "their share of the memory"}`;

function ofMemory({ memory, recent }, listed) {
  // Filters that cannot grow have a line of their own for the same cause.
  if (!memory.limit_bytes || listed.some((filter) => filter.state === "full" && stuck(filter))) return [];
  const near = memory.used_bytes > NEAR * memory.limit_bytes, refused = recent.adds_refused.memory;
  if (!near && refused === 0) return [];
  const were = `${many(refused, "add was", "adds were")} refused ${recently(recent)} for lack of memory`;
  // What was refused is told for some minutes. By then there may be room.
  const largest = { sizes: true, filters: [...listed].sort((one, other) => other.memory_bytes - one.memory_bytes).slice(0, LARGEST) };
  if (!near) return [{ tone: "warn", refused: ["memory"], what: `${were}. ${share("Now filters", memory)}.`, steps: [step("If more are refused, remove keys that are not needed, or raise maxmemory.")], ...largest }];
  const what = `${share("Filters", memory)}. ${refused ? `${were}.` : "At the limit, new filters and items are refused."}`;
  const tone = refused || memory.used_bytes > 0.98 * memory.limit_bytes ? "bad" : "warn";
  return [{ tone, refused: ["memory"], what, steps: [memoryStep(memory, 0.5 * memory.used_bytes)], ...largest }];
}

// Filters that have to grow, or soon will, and would not get the memory.
function ofGrowth({ memory, recent }, listed) {
  return Object.entries(STUCK).flatMap(([state, [one, more]]) => {
    const filters = listed.filter((filter) => filter.state === state && stuck(filter)), refused = state === "full" ? recent.adds_refused.memory : 0;
    if (filters.length === 0) return [];
    const growth = filters.reduce((sum, filter) => sum + growthBytes(filter), 0);
    const { text, code } = memoryStep(memory, growth);
    return [{ tone: STATES[state].tone, refused: state === "full" ? ["memory"] : [], filters: filters.slice(0, LARGEST), state, number: filters.length,
      what: `${many(filters.length, `filter ${one}`, `filters ${more}`)}${refused ? ` ${many(refused, "add was", "adds were")} refused ${recently(recent)} for lack of memory.` : ""}${state === "full" ? ` ${share("Filters", memory)}.` : ""} To grow takes up to ${bytes(growth)}.`,
      steps: [step(text, code), ...(refused ? [step(ADD_AGAIN)] : [])] }];
  });
}

const ALL_TAKEN = "All are taken. For the operator four more may come by the UNIX socket (redis-cli -s, with the path of unixsocket in sepald.toml). If there is none, end one of the programs first.";
export const areMany = (clients, clientsMax) => clients > NEAR * clientsMax;

function ofLimits({ keys, keys_max: keysMax, connections: clients, connections_max: clientsMax, recent }) {
  const causes = [];
  const keysRefused = recent.adds_refused.keys, turnedAway = recent.rejections.maxclients;
  if (keys > NEAR * keysMax)
    causes.push({ tone: keysRefused ? "bad" : "warn", refused: ["keys"], what: `There are ${exact(keys)} keys of at most ${exact(keysMax)}.${keysRefused ? ` ${many(keysRefused, "add for a new key was", "adds for new keys were")} refused ${recently(recent)}.` : ""}`,
      steps: [step("Remove keys that are not needed, or raise keys_max in sepald.toml and start sepald again.")] });
  if (areMany(clients, clientsMax))
    causes.push({ tone: turnedAway ? "bad" : "warn", what: `There are ${exact(clients)} connections of at most ${exact(clientsMax)}.${turnedAway ? ` ${many(turnedAway, "was", "were")} turned away ${recently(recent)}.` : ""}`,
      steps: [step(`${clients >= clientsMax ? `${ALL_TAKEN} ` : ""}Look for clients that open too many:`, "CLIENT LIST"), step("Or raise the limit (also in sepald.toml, for the next start):", `CONFIG SET maxclients ${2 * clientsMax}`)] });
  return causes;
}

// Why the server turned something away (of one, of several), and what to do. What has a line of its own above is left out.
export const REASONS = {
  maxclients: ["connection turned away: there were as many as maxclients", "connections turned away: there were as many as maxclients", "See which clients open many:", "CLIENT LIST"],
  protected_mode: ["connection from another machine: there is no password", "connections from other machines: there is no password", "Set requirepass in sepald.toml, start sepald again, and give clients the password.", ""],
  maxmemory_clients: ["connection closed: it did not read its replies, or sent too large requests", "connections closed: they did not read their replies, or sent too large requests", "The log says which (client closed). Let them read their replies, and ask and send less at once, or raise maxmemory_clients. See which clients hold much now (tot-mem):", "CLIENT LIST"],
  not_logged_in: ["connection closed: it did not log in within login_timeout, or sent too much before", "connections closed: they did not log in within login_timeout, or sent too much before", "Let clients log in as soon as they are connected.", ""],
  request_too_long: ["request that was too long", "requests that were too long", "Let clients send fewer items at once. So many bytes may a request have:", "CONFIG GET client-query-buffer-limit"],
  http_request: ["request of HTTP to the port for Redis", "requests of HTTP to the port for Redis", "Let browsers and scrapers use the http_port. The log says which address sent them (a client sent HTTP to the port for Redis).", ""],
  acl_login: ["wrong password", "wrong passwords", "If it goes on, give the client its password, or keep the address out. ACL LOG says which user and which address:", "ACL LOG"],
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

function ofRejections({ recent, certificate, time_seconds: now, connections: clients, connections_max: clientsMax }) {
  const causes = [];
  const told = areMany(clients, clientsMax) ? "maxclients" : "";
  for (const [reason, [one, more, advice, line]] of Object.entries(REASONS))
    if (recent.rejections[reason] > 0 && reason !== told) causes.push({ tone: "warn", what: `${recently(recent)}: ${many(recent.rejections[reason], one, more)}.`, steps: [step(advice, line)] });
  // A certificate that is not valid has a line of its own.
  const failed = Object.entries(recent.tls_handshakes_failed).filter(([reason, number]) => number > 0 && !(reason === "refused_by_client" && certificate && !isValid(certificate, now)));
  if (failed.length > 0)
    causes.push({ tone: "warn", what: `${recently(recent)}: TLS handshakes failed: ${failed.map(([reason, number]) => `${HANDSHAKES[reason][0]} (${count(number)})`).join("; ")}.`,
      steps: [step(`The log names the last address (connections refused). ${[...new Set(failed.map(([reason]) => HANDSHAKES[reason][1]))].join(" ")}`)] });
  for (const cause of causes) cause.what = cause.what[0].toUpperCase() + cause.what.slice(1);
  return causes;
}

function ofReload({ reload }) {
  if (reload.ok) return [];
  return [{ tone: "bad", what: `The last reload failed: ${reload.error}.`,
    steps: [step("sepald goes on with what it had, but a start would fail. Mend the file, then reload again, by root, in a shell:", "systemctl reload sepald")] }];
}

const isValid = ({ start_time_seconds: start, end_time_seconds: end }, now) => start <= now && now < end;

function ofCertificate({ certificate, time_seconds: now }) {
  if (!certificate) return [];
  if (certificate.start_time_seconds > now)
    return [{ tone: "bad", what: `The TLS certificate is valid only from ${timeAt(certificate.start_time_seconds)} on: clients refuse it until then. The server's clock shows ${timeAt(60 * Math.floor(now / 60))}.`,
      steps: [step("Check the server's clock. If it is right, replace the certificate's files. Then send SIGHUP to sepald, as this does, by root, in a shell:", "systemctl reload sepald")] }];
  const left = certificate.end_time_seconds - now;
  if (left > CERTIFICATE_DAYS * DAY) return [];
  const until = timeAt(certificate.end_time_seconds);
  return [{ tone: left <= 0 ? "bad" : "warn", what: left <= 0 ? `The TLS certificate has ended on ${until}: clients refuse it.` : `The TLS certificate ends in ${duration(left)}, on ${until}.`,
    steps: [step("Replace its files, then send SIGHUP to sepald, as this does, by root, in a shell:", "systemctl reload sepald")] }];
}

const OF_STATES = {
  full: ["is full: it refuses new items.", "are full: they refuse new items.", "Replace it by a larger filter"],
  overfilled: ["errs far more often than was asked for.", "err far more often than was asked for.", "Replace it by a larger filter"],
  mirror_broken: ["has a broken mirror: its target lacks items, and must not replace it. The filter itself works.", "have broken mirrors: their targets lack items, and must not replace them. The filters themselves work.", "Begin the mirror again with a larger target"],
  filling: ["has little room left, and cannot grow further.", "have little room left, and cannot grow further.", "Prepare a larger filter"],
};

const forgets = (filter) => filter.kind === "window";
const REPLACE_OR_WAIT = "Replace it, or wait for its next generation";

const KEY_BYTES_MAX = 256;  // of a key that is shown

// Why filters cannot be chosen, and the lines for a Bloom filter whose key the operator has to write.
function stepsOfUnlisted({ http_metrics_filters: max, http_metrics_pattern: pattern }, state, number, listed) {
  const [are, keys, lines] = number === 1 ? ["It is", "its key", "its lines"] : ["They are", "their keys", "their lines"];
  const why = listed.length >= max ? `http_metrics_filters is ${exact(max)}` : `${keys} ${number === 1 ? "has" : "have"} more than ${KEY_BYTES_MAX} bytes${pattern === "*" ? "" : `, or http_metrics_pattern (${pattern}) leaves ${number === 1 ? "it" : "them"} out`}`;
  return [
    step(`${are} not listed here, so ${lines} are not told: ${why}. For a Bloom filter these are the lines. Write its key for KEY. What it has:`, "BF.STATS KEY"),
    ...(state === "mirror_broken" ? [step("End the broken mirror. This deletes its target:", "BF.MIRROR KEY ABORT")] : []),
    step("Write its rate for RATE, and twice its items or its capacity for ITEMS:", "BF.RESERVE KEY:next RATE ITEMS"),
    step("From now on, the server adds new items to both:", "BF.MIRROR KEY KEY:next"),
    step("Add the items from your own source to KEY:next. Then swap the two:", "BF.MIRROR KEY COMMIT"),
    step("A filter of another kind has no mirror: let clients add to both. Then swap the two:", "RENAME KEY:next KEY"),
  ];
}

// `listed` are the filters of the list. The full target of a broken mirror is told with its source, and one that cannot grow for lack of
// memory by ofGrowth().
function ofFilters(server, listed) {
  const { filters, recent } = server, causes = [];
  const told = (filter) => filter.mirror?.role === "target" && filter.mirror.state === "broken";
  for (const [state, [one, more, advice]] of Object.entries(OF_STATES)) {
    const all = listed.filter((filter) => filter.state === state), own = all.filter((filter) => !told(filter) && !stuck(filter));
    const number = (filters.states[state] ?? 0) - (all.length - own.length);
    if (number <= 0) continue;
    const refused = state === "full" ? recent.adds_refused.full + recent.adds_refused.layers : 0;
    const forgetful = state === "full" && own.length > 0 && own.every(forgets);
    // The target of a broken mirror may be full, and refuse items itself.
    const refusing = state === "full" || (state === "mirror_broken" && listed.some((filter) => filter.state === "full" && told(filter)));
    const removal = state !== "full" || !own.some(deletes) ? "" : `, or remove items${own.every(deletes) ? "" : " from a cuckoo filter"}`;
    causes.push({ tone: STATES[state].tone, refused: refusing ? ["full", "layers"] : [], state, filters: own.slice(0, 3), number, what: `${many(number, `filter ${one}`, `filters ${more}`)}${refused > 0 ? ` ${many(refused, "add was", "adds were")} refused ${recently(recent)}.` : ""}`,
      steps: [step(`${forgetful ? REPLACE_OR_WAIT : advice}${removal}.${refused > 0 ? ` ${ADD_AGAIN}` : ""}${own.length > 0 ? ` Choose ${number === 1 ? "it" : "one"} to see ${forgetful ? "which, and " : ""}the lines to send.` : ""}`),
        ...(own.length > 0 ? [] : stepsOfUnlisted(server, state, number, listed))] });
  }
  return causes;
}

// Why adds were refused, by the reasons of the server, and what to do where that is over, or shows nowhere else.
const AFTERWARDS = " Then add the refused items again.";
const ADDS_REFUSED = {
  full: ["their filter had no room", `It has room again, or is gone. A filter that forgets has room again when its next generation begins: replace it by one for more items.${AFTERWARDS}`],
  layers: ["their filter had as many layers as it may have", `It takes items again, or is gone. A filter that forgets drops its oldest layers: replace it by one for more items.${AFTERWARDS}`],
  memory: ["there was no memory", `Remove keys that are not needed, or give the machine more memory.${AFTERWARDS}`],
  keys: ["there were as many keys as there may be", `Now there are fewer. If more are refused, remove keys that are not needed, or raise keys_max in sepald.toml and start sepald again.${AFTERWARDS}`],
  journal: ["they could not be recorded in the journal", "Now changes are accepted. The log says why they were refused (journal refuses changes). Add the refused items again."],
};

// What no other line has told.
function ofRefusedAdds({ recent }, told) {
  return Object.entries(ADDS_REFUSED).filter(([reason]) => recent.adds_refused[reason] > 0 && !told.has(reason))
    .map(([reason, [why, advice]]) => ({ tone: "warn", what: `${many(recent.adds_refused[reason], "add was", "adds were")} refused ${recently(recent)}: ${why}.`, steps: [step(advice)] }));
}

const MANY_ERRORS = 100, ERRORS_SHARE = 0.1;  // of the requests

// Error replies that no other line tells of, by their first word.
function errorsLeft(server) {
  const { busy_script: script, recent: { errors, adds_refused: refused, rejections } } = server;
  const told = { LOADING: true, BUSY: script !== null, OOM: refused.memory > 0, MISCONF: refused.journal > 0 || isWholeRefused(server), NOPERM: rejections.acl_command + rejections.acl_key > 0, WRONGPASS: rejections.acl_login > 0, Filter: refused.full + refused.layers > 0 };
  // "Filter is full" is the one such reply that does not begin with ERR.
  const ofAdds = refused.full - (errors.Filter ?? 0) + refused.mirrored + refused.layers + refused.memory + refused.keys;
  return Object.entries(errors).filter(([word]) => !told[word]).map(([word, number]) => [word, word === "ERR" ? number - ofAdds : number])
    .filter(([, number]) => number > 0).sort(([, one], [, other]) => other - one);
}

function ofErrors(server) {
  const { journal, recent } = server, left = errorsLeft(server), number = left.reduce((sum, [, one]) => sum + one, 0);
  if (!journal.accepting || number < MANY_ERRORS || number < ERRORS_SHARE * recent.requests) return [];
  return [{ tone: "warn", what: `${exact(number)} replies to ${many(recent.requests, "request", "requests")} were errors ${recently(recent)}: ${left.slice(0, LARGEST).map(([word, one]) => `${word} (${exact(one)})`).join(", ")}${left.length > LARGEST ? ", and others" : ""}. Each item of a request can have one.`,
    steps: [...(left.some(([word]) => word === "NOAUTH") ? [step("NOAUTH: a client has sent no password. While it is connected, this has its address:", "CLIENT LIST")] : []),
      step("See which commands fail (failed_calls), or are refused before they run (rejected_calls). The clients that send them have the texts:", "INFO commandstats")] }];
}

// [{ tone, what, steps: [{ text, code }], refused?, state?, number?, filters?, sizes? }]. `refused`: reasons for which adds are refused, and that
// the line tells of.
export function troubles(server, listed) {
  const told = [...ofScript(server), ...ofPause(server), ...ofJournal(server), ...ofWholeValues(server), ...ofMemory(server, listed), ...ofGrowth(server, listed), ...ofLimits(server), ...ofFilters(server, listed)];
  const all = [...told, ...ofRefusedAdds(server, new Set(told.flatMap(({ refused = [] }) => refused))), ...ofReload(server), ...ofCertificate(server), ...ofRejections(server), ...ofErrors(server)];
  return [...all.filter((cause) => cause.tone === "bad"), ...all.filter((cause) => cause.tone !== "bad")];
}
