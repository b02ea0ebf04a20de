// What the figures of a filter mean: its state, why, and what to do. No part of the document is touched here.
import { count, duration, oneIn, timeAt } from "./figures.js";
import { quoted, shownText } from "./key.js";

// As the server judges them (docs/operations/watch.md, "States of filters"), the worst first.
export const STATES = {
  full: { rank: 0, tone: "bad", word: "full" },
  overfilled: { rank: 1, tone: "bad", word: "overfilled" },
  mirror_broken: { rank: 2, tone: "bad", word: "mirror broken" },
  filling: { rank: 3, tone: "warn", word: "filling" },
  grown: { rank: 4, tone: "good", word: "grown" },
  fine: { rank: 4, tone: "good", word: "fine" },
};
export const inTrouble = (state) => STATES[state].tone !== "good";

// What /api/... calls a kind, and what people call it.
export const KINDS = { bloom: "Bloom filter", cuckoo: "cuckoo filter", redisbloom_cuckoo: "cuckoo filter of RedisBloom", window: "filter that forgets" };
export const deletes = (filter) => filter.kind === "cuckoo" || filter.kind === "redisbloom_cuckoo";

// Two leading digits, not below `number`.
function rounded(number) {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(number)) - 1);
  return Math.ceil(number / unit) * unit;
}

// `window` is null for a filter that never forgets: { seconds, generations, refresh }, with null for the seconds of "the last items".
export function reserveLine(key, rate, items, expansion, window = null) {
  const growth = window?.seconds === null || (expansion === 2) ? "" : expansion === 0 ? " NONSCALING" : ` EXPANSION ${expansion}`;
  const tail = window === null ? "" : (window.seconds === null ? " LAST" : ` WINDOW ${window.seconds}`) + (window.generations === 4 ? "" : ` GENERATIONS ${window.generations}`) + (window.refresh ? " REFRESH" : "");
  return `BF.RESERVE ${key} ${rate} ${items}${growth}${tail}`;
}

// A filter that takes the place of another one has no deadline of its own.
const keepDeadline = (filter) => (filter.deadline_time_seconds === null ? [] : [{ text: `Let it expire when the old one would have, ${timeAt(filter.deadline_time_seconds)}:`, code: `PEXPIREAT ${quoted(filter)} ${Math.round(1000 * filter.deadline_time_seconds)}` }]);

const reserveLarger = ({ expansion }) => `Reserve a larger filter beside it, for all of the items that you expect${expansion === 0 ? " (it does not grow either)" : ""}:`;

// Keys of another database than 0 are meant there.
const inDatabase = (filter) => (filter.database === 0 ? [] : [{ text: `The key is in database ${filter.database}:`, code: `SELECT ${filter.database}` }]);
const swap = (filter, next) => [{ text: "Put the new one in the place of the old one, which is deleted. From then on, let your clients use this key alone:", code: `RENAME ${next} ${quoted(filter)}` }, ...keepDeadline(filter)];

// The steps that replace a filter that deletes by a larger one. CF.INSERT: with CF.INSERTNX an item that looks like another one would not be
// stored, and the removal of the other would deny it. A copy too many costs queries only.
function cuckooReplacement(filter) {
  const next = quoted(filter, ":next");
  const items = rounded(2 * Math.max(filter.items, filter.capacity));
  const options = `${filter.expansion === 0 ? " EXPANSION 0" : ""}${filter.false_positive_rate_asked === null ? "" : ` ERROR ${filter.false_positive_rate_asked}`}`;
  return [
    ...inDatabase(filter),
    { text: reserveLarger(filter), code: `CF.RESERVE ${next} ${items}${options}` },
    { text: "Change your clients, so that they add to both and remove from both. The server itself does that for Bloom filters only (BF.MIRROR).", code: "" },
    { text: "Add the items from your own source to the new key, with CF.INSERT. Items that have come since are in it twice then: when one is removed later, the filter may go on to say 1 for it.", code: "" },
    ...swap(filter, next),
  ];
}

// The other end of a mirror, as a filter has its key.
export const otherOf = (filter) => ({ key: filter.mirror.other, key_encoded: filter.mirror.other_encoded, database: filter.database });

const largerThan = (filter) => rounded(2 * Math.max(filter.items_estimated, filter.items, filter.layer_count > 1 ? 1 : filter.capacity));
const OWN_SOURCE = (target) => ({ text: `Add the items from your own source to ${target}, with BF.MADD. A Bloom filter cannot list them.`, code: "" });

// The steps that replace a Bloom filter by a larger one, while clients go on. A whole mirror is the half of it. The target of a
// mirror is replaced from its source, whose items are known there.
function replacement(filter) {
  const { mirror } = filter;
  if (mirror?.role === "target") return [];
  const next = mirror ? quoted(otherOf(filter)) : quoted(filter, ":next"), key = quoted(filter);
  const commit = [{ text: "When your program has sent every item of its source, swap the two:", code: `BF.MIRROR ${key} COMMIT` }, ...keepDeadline(filter)];
  if (mirror?.state === "whole") return [...inDatabase(filter), OWN_SOURCE(next), ...commit];
  return [
    ...inDatabase(filter),
    ...(mirror ? [{ text: "End the broken mirror. This deletes its target, which lacks items. If you want no other filter in the place of this one, that is all:", code: `BF.MIRROR ${key} ABORT` }] : []),
    { text: reserveLarger(filter), code: reserveLine(next, filter.false_positive_rate_asked, largerThan(filter), filter.state === "grown" ? 2 : filter.expansion) },
    { text: "From now on, the server adds new items to both. The new one also gets what this one refuses:", code: `BF.MIRROR ${key} ${next}` },
    OWN_SOURCE(next), ...commit,
  ];
}

function untilFull(filter) {
  if (filter.seconds_until_full === null) return "";
  return filter.seconds_until_full === 0 ? "" : ` At the rate of the last minute it is full in ${duration(filter.seconds_until_full)}.`;
}

// What to do where memory is short. `more`: bytes that filters and keys would take beside what they take now.
export function memoryStep(memory, more) {
  const wanted = Math.max(memory.used_bytes, memory.limit_bytes) + more;
  return memory.maxmemory_bytes && wanted < 0.8 * memory.machine_bytes
    ? { text: "Remove keys that are not needed, or raise the limit (also in sepald.toml, for the next start):", code: `CONFIG SET maxmemory ${Math.ceil(wanted / 2 ** 20)}mb` }
    : { text: "Remove keys that are not needed, or give the machine more memory.", code: "" };
}

// It has to grow, and would take more memory than is left.
export const lacksMemory = (filter) => filter.growth_limit === "memory";
// More than its growth takes, in bytes: half of the rate takes less than twice as much for each item. A cuckoo filter grows by parts, to
// twice its size.
export const growthBytes = (filter) => (filter.kind === "cuckoo" ? 1 : 2 * filter.expansion) * filter.memory_bytes;

const keeps = (now, asked) => (now <= asked ? `, and keeps what was asked for (${oneIn(asked)}).` : `; ${oneIn(asked)} was asked for.`);
const errsOf = ({ false_positive_rate_now: now, false_positive_rate_asked: asked }) => `It wrongly says "maybe" for ${oneIn(now)} absent items${keeps(now, asked)}`;

const growthOf = (filter) => (lacksMemory(filter) ? "It has to grow, and would take more memory than is left"
  : filter.growth_limit === "layers" ? "It has grown to as many layers as it may have" : "It does not grow");
const ADD_AGAIN = "add the refused items again";
const NOTHING = "Nothing has to be done.";

// Of a filter that grows, and will not get the memory. `answers`: what can be said of its answers.
function adviseMemory(filter, answers, memory) {
  const full = filter.state === "full";
  const room = full ? (filter.kind === "cuckoo" ? "parts of it have no room" : "its room is used up") : `it has room for ${count(Math.max(0, filter.capacity - filter.items))} more items`;
  return {
    why: `${growthOf(filter)}. Now ${room}${full ? ": it refuses new items." : ". Then it refuses new items."} ${answers}`,
    what: full ? `Let it have more memory. Then ${ADD_AGAIN}.` : "Let it have more memory in time.",
    steps: [memoryStep(memory, growthBytes(filter))],
  };
}

function adviseCuckoo(filter) {
  const { state } = filter;
  const { false_positive_rate_now: now, false_positive_rate_asked: asked } = filter;
  const rate = now === 0 ? "" : asked === null ? ` It wrongly answers 1 for ${oneIn(now)} absent items.` : ` It wrongly answers 1 for at most ${oneIn(now)} absent items${keeps(now, asked)}`;
  if (inTrouble(state))
    return {
      why: `${growthOf(filter)}, and has ${count(filter.items)} items and room for ${count(filter.capacity)}.${state === "full" ? " It refuses new items until some are removed. Look-ups say that the refused items are not there." : " Then it refuses new items."}${rate}`,
      what: `Remove items that are not needed any more, and only items that are in it: to remove another one may take away an item that looks like it. Or replace it by a larger filter.${state === "full" ? ` Then ${ADD_AGAIN}.` : ""}`,
      steps: cuckooReplacement(filter),
    };
  const has = filter.items === 0 ? "It has no items." : `It has ${count(filter.items)} items, copies included.`;
  const growth = filter.kind === "redisbloom_cuckoo" ? "It keeps the layout of RedisBloom: each layer that it grows by makes it err more."
    : filter.expansion === 0 ? "It does not grow." : "It grows by itself, and its rate stays below what was asked for.";
  return {
    why: `${has}${rate} ${growth}`,
    what: state === "grown" ? `A look-up searches ${filter.layer_count} layers. A filter that is made for its items is faster:` : NOTHING,
    steps: state === "grown" ? cuckooReplacement(filter) : [],
  };
}

// `ahead`: a clock that was ahead is the reason, and not the size.
function windowReplacement(filter, ahead = false) {
  const { window_seconds: seconds, generations, refresh, capacity } = filter.window, next = quoted(filter, ":next");
  const items = ahead ? capacity : rounded(2 * Math.max(filter.items, capacity));
  return [
    ...inDatabase(filter),
    { text: ahead ? "Reserve a filter like it beside it:" : reserveLarger(filter), code: reserveLine(next, filter.false_positive_rate_asked, items, filter.expansion, { seconds, generations, refresh }) },
    { text: "Let your clients add to both and ask both for one window: BF.MIRROR does not know filters that forget. The old one may refuse items still.", code: "" },
    ...swap(filter, next),
  ];
}

// When the newest generation began, if that is in the future: then no next one begins until the clock has come so far. Else null.
function beginAhead({ window }, now) {
  const begin = window.by_generation[0].begin;
  return begin !== null && begin > now ? begin : null;
}

function adviseWindow(filter, now) {
  const { state } = filter, ahead = beginAhead(filter, now);
  const has = filter.items === 0 ? "It remembers no items." : `It remembers ${count(filter.items)} items. ${errsOf(filter)}`;
  if (state === "full" && ahead !== null)
    return { why: `${growthOf(filter)}, and its newest generation is full. This generation began in the future, on ${timeAt(ahead)}, because the clock was ahead when an item came. So it refuses new items, and forgets none, until the clock has passed that. ${has}`, what: `See that the server's clock is right now: it shows ${timeAt(60 * Math.floor(now / 60))}. Then replace the filter by a new one, and ${ADD_AGAIN}.`, steps: windowReplacement(filter, true) };
  if (state === "full")
    return { why: `${growthOf(filter)}, and its newest generation is full: it refuses new items until the next one begins. ${has}`, what: `Wait for the next generation, or replace it by a larger filter. Then ${ADD_AGAIN}.`, steps: windowReplacement(filter) };
  if (state === "overfilled")
    return { why: has, what: "It had more items than it has room for. What it forgets makes room again; a larger filter keeps the rate:", steps: windowReplacement(filter) };
  if (state === "grown")
    return { why: `${has} It has grown, so a look-up of an absent item searches ${filter.layer_count} layers.`, what: `${NOTHING} All layers but the newest go when their items are forgotten.`, steps: [] };
  return { why: has, what: NOTHING, steps: [] };
}

// How a mirror stands, in a sentence.
function mirrorOf({ mirror }) {
  if (!mirror) return "";
  const reason = mirror.reason ? `: ${mirror.reason}` : "";
  if (mirror.role === "source")
    return mirror.state === "whole" ? " Its mirror is whole: the target gets each new item, also those that this filter refuses."
      : ` Its mirror is broken${reason}. The target gets no further items, and must not replace this filter.`;
  return mirror.state === "whole" ? " It is the target of a mirror: it gets each item that the source is given."
    : ` It is the target of a mirror that is broken${reason}. It lacks items, and must not replace the source.`;
}

function adviseBloom(filter) {
  const { state } = filter;
  const room = `It has about ${count(filter.items_estimated)} different items, and room for ${count(filter.capacity)}.`;
  const errs = errsOf(filter);
  if (state === "overfilled")
    return { why: `${errs} ${room}${filter.items < 0.9 * filter.items_estimated ? ` Only ${count(filter.items)} were added one by one: the others may have come with a merge, or in a file.` : ""}`, what: "A larger filter brings the rate back. No item is lost meanwhile: a Bloom filter that has too many only says \"maybe\" too often.", steps: replacement(filter) };
  if (state === "full")
    return { why: `${growthOf(filter)}, and its room for ${count(filter.capacity)} items is used up: it refuses new items, and look-ups say that those are not there. Its other answers are as right as was asked for.`, what: `Replace it by a larger filter${filter.mirror?.state === "whole" ? "" : `, and ${ADD_AGAIN}`}.`, steps: replacement(filter) };
  if (state === "mirror_broken")
    return { why: `Adds to this filter go on. ${room}`, what: "Begin again with a larger target.", steps: replacement(filter) };
  if (state === "filling")
    return { why: `${filter.growth_limit ? `${growthOf(filter)}, and has room` : `It has ${filter.layer_count} layers, and with all that it may have room`} for ${count(Math.max(0, filter.capacity_max - filter.items))} more items.${filter.growth_limit ? untilFull(filter) : ""} Then it refuses new items.`, what: "Prepare a larger filter in time.", steps: replacement(filter) };
  if (state === "grown")
    return { why: `Its rate is as asked for. It has grown ${filter.layer_count - 1} times, so a look-up of an absent item searches ${filter.layer_count} layers.`, what: `${NOTHING} One large layer would be faster and smaller:`, steps: replacement(filter) };
  const growth = filter.expansion === 0 ? "It does not grow."
    : filter.growth_limit === "layers" ? "It has as many layers as it may have."
    : `When it is full, it grows by itself: the next layer holds ${filter.expansion === 1 ? "as many items as" : `${filter.expansion} times`} the last.`;
  return {
    why: filter.items === 0 ? `Nothing has been added yet. It has room for ${count(filter.capacity)} items.` : `${errs} ${room}${untilFull(filter)} ${growth}`,
    what: NOTHING, steps: [],
  };
}

// { why, what, steps: [{ text, code }] }. `server`: what /api/server answers.
export function advise(filter, { memory, time_seconds: now }) {
  if ((filter.state === "full" || filter.state === "filling") && lacksMemory(filter)) {
    const answers = deletes(filter) ? "" : errsOf(filter);
    return adviseMemory(filter, answers + mirrorOf(filter), memory);
  }
  if (filter.kind === "window") return adviseWindow(filter, now);
  if (deletes(filter)) return adviseCuckoo(filter);
  const advice = adviseBloom(filter);
  const fromSource = filter.mirror?.role === "target" && inTrouble(filter.state) ? { what: `Choose the source, ${shownText(otherOf(filter))}, to see what to do.` } : {};
  return { ...advice, why: advice.why + mirrorOf(filter), ...fromSource };
}
