// One filter: its facts, its charts, its layers.
import { KINDS, otherOf } from "./advice.js";
import { chart, make, table } from "./draw.js";
import { bytes, duration, exact, oneIn, percent, RATE_AXIS_MIN, timeAt } from "./figures.js";
import { idOf, shownKey } from "./key.js";

// Its deadline, and the other end of its mirror.
function linksOf(filter) {
  const facts = [["Expires", filter.deadline_time_seconds === null ? "never" : `in ${duration(Math.max(0, filter.deadline_time_seconds - Date.now() / 1000))}, ${timeAt(filter.deadline_time_seconds)}`]];
  if (!filter.mirror) return facts;
  const other = otherOf(filter), { role, state, reason, items_mirrored: items } = filter.mirror;
  const link = other.key === null ? shownKey(other) : make("a", { href: `#filter=${idOf(other)}` }, shownKey(other));
  return [...facts, [role === "source" ? "Mirrored to" : "Mirror of", link], ["The mirror is", reason ? `${state}: ${reason}` : state], ["New items of the source since it began", exact(items)]];
}

function windowFactsOf(filter) {
  const window = filter.window;
  const last = window.window_seconds === null;
  const facts = [
    ["Items remembered", exact(filter.items)], ["Kind", KINDS[filter.kind]],
    ["Remembers", last ? `at least the last ${exact(window.capacity)} items` : `${duration(window.window_seconds)}, for up to ${exact(window.capacity)} items`],
    ["Time runs from", last ? "" : window.refresh ? "the last add" : "the first add"],
    ["False positives now", `${percent(filter.false_positive_rate_now)} (${oneIn(filter.false_positive_rate_now)})`],
    ["Asked for", `${percent(filter.false_positive_rate_asked)} (${oneIn(filter.false_positive_rate_asked)})`],
    ["Room taken", percent(filter.fill)],
    ["Memory", bytes(filter.memory_bytes)], ["Bits of memory an item", filter.items === 0 ? "none yet" : (8 * filter.memory_bytes / filter.items).toFixed(1)],
    ["When a generation is full", last ? "the next one begins" : filter.expansion === 0 || filter.growth_limit ? "refuses items until the next one begins" : `grows, times ${filter.expansion}`],
    ...linksOf(filter),
  ].filter(([, value]) => value !== "");
  return facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
}

const LIMITED = { memory: "would grow, but there is no memory for it: refuses items", layers: "has as many layers as it may have: refuses items" };

export function factsOf(filter) {
  if (filter.kind === "window") return windowFactsOf(filter);
  const forecast = filter.state === "overfilled" ? "it has more items than it was made for" : filter.items >= filter.capacity ? "it is" : filter.seconds_until_full === null ? "not foreseen" : `in ${duration(filter.seconds_until_full)}`;
  const bloom = filter.kind === "bloom";
  const own = filter.kind === "cuckoo";
  const facts = [
    ["Items", `${exact(filter.items)} of ${exact(filter.capacity)}`], ["Kind", KINDS[filter.kind]],
    bloom ? ["Different items, estimated", exact(filter.items_estimated)] : ["Removed since it was made or compacted", exact(filter.items_removed)],
    ["False positives now", `${own ? "at most " : ""}${percent(filter.false_positive_rate_now)} (${oneIn(filter.false_positive_rate_now)})`],
    ["Asked for", filter.false_positive_rate_asked === null ? "none" : `${percent(filter.false_positive_rate_asked)} (${oneIn(filter.false_positive_rate_asked)})`],
    [bloom ? "Bits set" : "Slots taken", percent(filter.fill)],
    ["Memory", bytes(filter.memory_bytes)], ["Bits of memory an item", filter.items === 0 ? "none yet" : (8 * filter.memory_bytes / filter.items).toFixed(1)],
    ["When full", filter.expansion === 0 ? "refuses items" : filter.growth_limit ? LIMITED[filter.growth_limit] ?? "refuses items" : own ? "grows, cell by cell" : filter.expansion === 1 ? "grows, by a layer like the last" : `grows, times ${filter.expansion}`],
    bloom ? ["Full", forecast] : null,
    ...linksOf(filter),
  ].filter(Boolean);
  return facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
}

// What the share of the bits is called.
const fillOf = (filter) => ({ bloom: "Bits set", window: "Room taken" })[filter.kind] ?? "Slots taken";

export function historyCharts(filter) {
  const points = filter.history;
  if (points.length === 0) return [make("p", { class: "note" }, "It has no history: the server keeps one for the filters of the table above.")];
  const oldest = Math.max(60, points[0].age_seconds);
  const age = (seconds) => (seconds > -1 ? "now" : oldest > 600 ? `${Math.round(-seconds / 60)} min ago` : `${Math.round(-seconds)} s ago`);
  const common = { xRange: [-oldest, 0], xText: age, xTitle: "time" };
  const change = (name, text) => `From ${text(points[0][name])} to ${text(points[points.length - 1][name])} in ${duration(points[0].age_seconds)}.`;
  return [
    chart({ ...common, title: `${fillOf(filter)}, over the last hour`, said: change("fill", percent), head: ["When", fillOf(filter)], points: points.map((point) => [-point.age_seconds, point.fill]), yText: percent, yMax: 1 }),
    chart({ ...common, title: "False positives, over the last hour", said: `${change("false_positive_rate", percent)}${filter.false_positive_rate_asked === null ? "" : ` ${percent(filter.false_positive_rate_asked)} was asked for.`}`, head: ["When", "Rate"],
      points: points.map((point) => [-point.age_seconds, point.false_positive_rate]), yText: percent, yLeast: RATE_AXIS_MIN, line: filter.false_positive_rate_asked === null ? undefined : { y: filter.false_positive_rate_asked, text: `asked for: ${percent(filter.false_positive_rate_asked)}` } }),
  ];
}

export function curveChart(filter) {
  const end = filter.curve[filter.curve.length - 1];
  const full = filter.curve.find((point) => point.load >= 1);
  const many = filter.layers.length > 1;
  return chart({
    title: many ? "If the newest layer were overfilled" : "If it were overfilled",
    said: `With as many items as there is room for, the rate is ${percent(full.false_positive_rate)}; with ${end.load} times as many, ${percent(end.false_positive_rate)}. Today it has ${filter.load.toFixed(2)} times as many, and the rate is ${percent(filter.false_positive_rate_now)}.`,
    head: [many ? "Items of the newest layer's room" : "Items of room", "Rate"], points: filter.curve.map((point) => [point.load, point.false_positive_rate]), xRange: [0, Math.max(3, Math.min(6, filter.load))],
    xText: (value) => `${Number(value.toFixed(1))}\u00d7`, xTitle: many ? "items in the newest layer, times its room" : "items, times the room",
    yText: percent, yLeast: RATE_AXIS_MIN, line: { y: filter.false_positive_rate_asked, text: "" },
    today: { x: filter.load, y: filter.false_positive_rate_now, text: `today: ${percent(filter.false_positive_rate_now)}`, above: filter.false_positive_rate_now > filter.false_positive_rate_asked },
  });
}

export function layersOf(filter) {
  if (filter.kind === "cuckoo")
    return table("Layers, oldest first", ["Layer", "Items", "Cells", "Slots", "Slots taken", "Rate now, at most", "Memory of slots"],
      filter.layers.map((layer, i) => [`${i + 1}`, exact(layer.items), exact(layer.cells), exact(layer.slots), percent(layer.slots_used / layer.slots), percent(layer.false_positive_rate_now), bytes(layer.memory_bytes)]));
  if (filter.kind === "window") {
    const generations = filter.window.by_generation;
    const begin = (at) => (at === null ? "" : timeAt(at));
    return make("div", {},
      table("Generations, newest first: the oldest is forgotten next", ["Generation", "Began", "Items"],
        generations.map((generation, i) => [`${i + 1}`, begin(generation.begin), exact(generation.items)])),
      table("Layers, oldest first", ["Layer", "Room for items of a generation", "Items", "Rate now", "Planned rate", "Memory"],
        filter.layers.map((layer, i) => [`${i + 1}`, exact(layer.generation_capacity), exact(layer.items), percent(layer.false_positive_rate_now), percent(layer.false_positive_rate_planned), bytes(layer.memory_bytes)])));
  }
  if (filter.kind === "redisbloom_cuckoo")
    return table("Layers, oldest first", ["Layer", "Buckets", "Slots", "Slots taken"],
      filter.layers.map((layer, i) => [`${i + 1}`, exact(layer.buckets), exact(layer.slots), percent(layer.fill)]));
  return table("Layers, oldest first", ["Layer", "Items", "Room", "Bits set", "Rate now", "Planned rate", "Bits an item (k)", "Block", "Memory"],
    filter.layers.map((layer, i) => [`${i + 1}`, exact(layer.items), exact(layer.capacity), percent(layer.fill), percent(layer.false_positive_rate_now), percent(layer.false_positive_rate_planned),
      `${layer.probes}`, layer.block_bytes === null ? "none" : bytes(layer.block_bytes), bytes(layer.bitmap_bytes)]));
}
