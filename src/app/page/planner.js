// Plans a filter as `sepal plan` does: it reads the same numbers, and the server has the same planner.
import { reserveLine } from "./advice.js";
import { ask, at, attempt } from "./ask.js";
import { copied, make, table } from "./draw.js";
import { bytes, countIn, exact, paceIn, percent, rateIn, secondsIn } from "./figures.js";

const ITEMS_MAX = 2n ** 64n - 1n;
let planned = 0;

function showPlan(plan, items, rate, expansion) {
  const row = (name, shape, block) => [name, bytes(shape.bitmap_bytes), Number(shape.bits_per_item.toFixed(2)).toString(), exact(shape.probes), block];
  at("plan-result").replaceChildren(
    table("", ["", "Memory", "Bits of memory an item", "Bits set an item (k)", "Memory that an item touches"], [
      row("Sepal", plan.sepal, plan.blocks === 1 ? `the one block, ${bytes(plan.block_bytes)}` : `one block of ${bytes(plan.block_bytes)}`),
      row("RedisBloom", plan.redisbloom, `up to ${exact(plan.redisbloom.probes)} places`),
      row("Textbook", plan.textbook, `up to ${exact(plan.textbook.probes)} places`),
    ]),
    make("p", {}, "To create it: ", ...copied(reserveLine("key", rate, items, expansion))),
    expansion ? make("p", { class: "small" }, `The first layer is planned for ${percent(plan.false_positive_rate_planned)}, so that all layers together keep ${percent(rate)} when the filter grows. A filter that does not grow is smaller.`) : "");
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
    ? `It keeps the last ${exact(items)} items, and at most ${exact(plan.generation_capacity * (window.generations + 1))}.`
    : `It keeps an item for at least ${timeOf(window.seconds)}, and for at most ${timeOf(window.seconds + plan.generation_seconds)}.`;
  const full = window.seconds === null ? "" : ` A generation of ${timeOf(plan.generation_seconds)} with more than ${exact(plan.generation_capacity)} items ${expansion ? "gets a further layer" : "refuses the rest"}.`;
  at("plan-result").replaceChildren(
    table("", ["", "Memory", "Bits of memory an item", "Bits set an item (k)", "Memory that an item touches"], [
      ["Sepal", bytes(plan.sepal.bitmap_bytes), Number(plan.sepal.bits_per_item.toFixed(2)).toString(), exact(plan.sepal.probes), `${exact(plan.zones)} lines of ${bytes(plan.line_bytes)}`],
    ]),
    make("p", {}, "To create it: ", ...copied(reserveLine("key", rate, items, expansion, window))),
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

// With a window, "20000/s" says how many items come, and a window has as many as come in its time.
function itemsIn(text, window) {
  const pace = window?.seconds > 0 ? paceIn(text) : null;
  if (pace === null) return countIn(text);
  const milliseconds = (seconds) => BigInt(Math.round(seconds * 1000));
  return (pace.count * milliseconds(window.seconds) - 1n) / milliseconds(pace.seconds) + 1n;
}

function wrongIn(items, rate, window) {
  if (!(items !== null && items >= 1n && items <= ITEMS_MAX))
    return `Items: a whole number from 1 on, for example 1000000, 1M or 1e6${window?.seconds > 0 ? "; or how many come, for example 20000/s" : ""}.`;
  if (!(rate >= 1e-15 && rate < 1)) return "False positives: above 0 and below 1, for example 0.01, 1% or 1/100.";
  if (window === null) return "";
  if (window.seconds !== null && !(window.seconds > 0 && window.seconds < 1e11)) return "Window: a time, for example 500ms, 90s, 15m, 1h or 7d.";
  return Number.isInteger(window.generations) && window.generations >= 1 && window.generations <= 16 ? "" : "Generations: a whole number from 1 to 16.";
}

export async function plan() {
  const turn = ++planned;
  const window = windowIn();
  const items = itemsIn(at("plan-items").value, window), rate = rateIn(at("plan-rate").value);
  const expansion = at("plan-grows").checked ? 2 : 0;
  const wrong = wrongIn(items, rate, window);
  at("plan-message").textContent = wrong;
  if (wrong) return at("plan-result").replaceChildren();
  const growth = window?.seconds === null ? "" : `&expansion=${expansion}`;
  const forgets = window === null ? "" : `&window=${window.seconds ?? "last"}&generations=${window.generations}`;
  const answer = await ask(`/api/plan?capacity=${items}&error=${rate}${growth}${forgets}`);
  if (turn !== planned) return;
  if (answer.error === undefined) return window === null ? showPlan(answer, items, rate, expansion) : showWindowPlan(answer, items, rate, expansion, window);
  at("plan-message").textContent = `This cannot be planned: ${answer.error}.`;
  at("plan-result").replaceChildren();
}

at("plan").addEventListener("input", () => attempt(plan));
at("plan").addEventListener("submit", (event) => event.preventDefault());
