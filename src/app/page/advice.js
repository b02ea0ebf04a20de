// What the figures of a filter mean: its state, why, and what to do. No part of the document is touched here.
import { count, duration, oneIn } from "./figures.js";
import { quoted } from "./key.js";

// The rate of a filter is estimated from its bits, and differs a little from filter to filter. Above this multiple of the
// rate that was asked for, it is too high.
const RATE_MARGIN = 1.5;
const FILLING_SHARE = 0.8;
const FULL_SOON_SECONDS = 3600;
const LAYERS_MANY = 5;

export const STATES = {
  overfilled: { rank: 0, tone: "bad" },
  full: { rank: 1, tone: "bad" },
  filling: { rank: 2, tone: "warn" },
  fine: { rank: 3, tone: "good" },
};

// What /api/... calls a kind, and what people call it.
export const KINDS = { bloom: "Bloom filter", cuckoo: "cuckoo filter", redisbloom_cuckoo: "cuckoo filter of RedisBloom", window: "filter that forgets" };
const deletes = (filter) => filter.kind === "cuckoo" || filter.kind === "redisbloom_cuckoo";

// Only Bloom filters take more items than they have room for. A filter of RedisBloom was asked for no rate.
export function stateOf(filter) {
  if (!deletes(filter) && filter.rate > RATE_MARGIN * filter.asked) return "overfilled";
  // What a filter that forgets has no room for, it forgets or refuses for a while.
  if (filter.expansion === 0 && filter.kind !== "window") {
    if (filter.items >= filter.capacity) return "full";
    if (filter.items >= FILLING_SHARE * filter.capacity) return "filling";
    if (filter.full_in !== null && filter.full_in < FULL_SOON_SECONDS) return "filling";
  }
  return "fine";
}

// Two leading digits, not below `number`.
function rounded(number) {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(number)) - 1);
  return Math.ceil(number / unit) * unit;
}

// `window` is null for a filter that never forgets: { seconds, generations }, with null for the seconds of "the last items".
export function reserveLine(key, rate, items, expansion, window = null) {
  const growth = window?.seconds === null || (expansion === 2) ? "" : expansion === 0 ? " NONSCALING" : ` EXPANSION ${expansion}`;
  const tail = window === null ? "" : (window.seconds === null ? " LAST" : ` WINDOW ${window.seconds}`) + (window.generations === 4 ? "" : ` GENERATIONS ${window.generations}`);
  return `BF.RESERVE ${key} ${rate} ${items}${growth}${tail}`;
}

// The steps that replace a filter that deletes by a larger one.
function cuckooReplacement(filter) {
  const next = quoted(filter, ":next");
  const items = rounded(2 * Math.max(filter.items, filter.capacity));
  return [
    { text: "Reserve a larger filter beside it:", code: `CF.RESERVE ${next} ${items}${filter.asked === null ? "" : ` ERROR ${filter.asked}`}` },
    { text: "Let your clients add to both and remove from both: BF.MIRROR is for Bloom filters. Add the items from your own source to the new key, with CF.INSERTNX.", code: "" },
    { text: "Swap the two:", code: `RENAME ${next} ${quoted(filter)}` },
  ];
}

// The steps that replace a filter by a larger one, while clients go on.
function replacement(filter) {
  const items = rounded(2 * Math.max(filter.estimate, filter.items, filter.layers > 1 ? 1 : filter.capacity));
  const next = quoted(filter, ":next");
  return [
    { text: "Reserve a larger filter beside it:", code: reserveLine(next, filter.asked, items, filter.expansion) },
    { text: "From now on, the server adds new items to both. The new one also gets what this one refuses:", code: `BF.MIRROR ${quoted(filter)} ${next}` },
    { text: "Add the items from your own source again, with BF.MADD to the new key. A Bloom filter cannot list them.", code: "" },
    { text: "Swap the two:", code: `RENAME ${next} ${quoted(filter)}` },
  ];
}

function untilFull(filter) {
  if (filter.full_in === null) return "";
  return filter.full_in === 0 ? "" : ` At the rate of the last minute it is full in ${duration(filter.full_in)}.`;
}

function adviseCuckoo(filter) {
  const state = stateOf(filter);
  const rate = filter.rate === 0 ? "" : ` It wrongly answers 1 for ${filter.asked === null ? "" : "at most "}${oneIn(filter.rate)} absent items${filter.asked === null ? "" : `; ${oneIn(filter.asked)} was asked for`}.`;
  if (state !== "fine")
    return {
      state,
      why: `It does not grow, and has ${count(filter.items)} items and room for ${count(filter.capacity)}.${state === "full" ? " It refuses new items until some are removed." : " Then it refuses new items."}${rate}`,
      what: "Remove items that are not needed any more, or replace it by a larger filter.",
      steps: cuckooReplacement(filter),
    };
  const has = filter.items === 0 ? "It has no items." : `It has ${count(filter.items)} items, copies included.`;
  if (filter.kind === "cuckoo")
    return { state, why: `${has}${rate} ${filter.expansion === 0 ? "It does not grow." : "It grows by itself, and its rate stays below what was asked for."}`, what: "Nothing has to be done.", steps: [] };
  return {
    state,
    why: `${has}${rate} It keeps the layout of RedisBloom: each layer that it grows by makes it err more.`,
    what: filter.layers < LAYERS_MANY ? "Nothing has to be done." : `A look-up searches ${filter.layers} layers. A filter that is made here errs less, and is smaller:`,
    steps: filter.layers < LAYERS_MANY ? [] : cuckooReplacement(filter),
  };
}

function windowReplacement(filter) {
  const window = filter.window, next = quoted(filter, ":next");
  const time = window.milliseconds === null ? "LAST" : `WINDOW ${window.milliseconds / 1000}`;
  const generations = window.generations.length - 1;
  const line = `BF.RESERVE ${next} ${filter.asked} ${rounded(Math.max(filter.items, window.asked_items))} ${time}${generations === 4 ? "" : ` GENERATIONS ${generations}`}${window.refresh ? " REFRESH" : ""}`;
  return [
    { text: "Reserve another filter beside it:", code: line },
    { text: "Let your clients add to both for one window: BF.MIRROR does not know filters that forget.", code: "" },
    { text: "Swap the two:", code: `RENAME ${next} ${quoted(filter)}` },
  ];
}

function adviseWindow(filter) {
  const state = stateOf(filter);
  const has = filter.items === 0 ? "It remembers no items." : `It remembers ${count(filter.items)} items. It wrongly says "maybe" for ${oneIn(filter.rate)} absent items; ${oneIn(filter.asked)} was asked for.`;
  if (state === "overfilled")
    return { state, why: has, what: "It had more items than it has room for. What it forgets makes room again; a larger filter keeps the rate:", steps: windowReplacement(filter) };
  if (filter.layers >= LAYERS_MANY)
    return { state, why: `${has} It has grown, so a look-up of an absent item searches ${filter.layers} layers.`, what: "Nothing has to be done: all layers but the newest go when their items are forgotten.", steps: [] };
  return { state, why: has, what: "Nothing has to be done.", steps: [] };
}

// { state, why, what, steps }
export function advise(filter) {
  if (filter.kind === "window") return adviseWindow(filter);
  if (deletes(filter)) return adviseCuckoo(filter);
  const state = stateOf(filter);
  const room = `It has about ${count(filter.estimate)} different items, and room for ${count(filter.capacity)}.`;
  if (state === "overfilled")
    return {
      state,
      why: `It wrongly says "maybe" for ${oneIn(filter.rate)} absent items; ${oneIn(filter.asked)} was asked for. ${room}`,
      what: "A larger filter brings the rate back. No item is lost meanwhile: a filter never forgets, it only says \"maybe\" too often.",
      steps: replacement(filter),
    };
  if (state === "full")
    return {
      state,
      why: `It does not grow, and its room for ${count(filter.capacity)} items is used up: it refuses new items. Its answers are as right as was asked for.`,
      what: "Replace it by a larger filter.",
      steps: replacement(filter),
    };
  if (state === "filling")
    return {
      state,
      why: `It does not grow, and has room for ${count(filter.capacity - filter.items)} more items.${untilFull(filter)} Then it refuses new items.`,
      what: "Prepare a larger filter in time.",
      steps: replacement(filter),
    };
  if (filter.layers >= LAYERS_MANY)
    return {
      state,
      why: `Its rate is as asked for. It has grown ${filter.layers - 1} times, so a look-up of an absent item searches ${filter.layers} layers.`,
      what: "Nothing has to be done. One large layer would be faster and smaller:",
      steps: replacement(filter),
    };
  const growth = filter.expansion === 0
    ? "It does not grow."
    : `When it is full, it grows by itself: the next layer holds ${filter.expansion === 1 ? "as many items as" : `${filter.expansion} times`} the last.`;
  return {
    state,
    why: filter.items === 0
      ? `Nothing has been added yet. It has room for ${count(filter.capacity)} items.`
      : `It wrongly says "maybe" for ${oneIn(filter.rate)} absent items; ${oneIn(filter.asked)} was asked for. ${room}${untilFull(filter)} ${growth}`,
    what: "Nothing has to be done.",
    steps: [],
  };
}
