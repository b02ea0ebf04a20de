// Looks at the status page with Debian's chromium. SEPAL_WEB is its address, SEPAL_CHROMIUM the browser, and SEPAL_MODULES where
// the packages are. Prints "ok PART" after each part that went well. With SEPAL_SCREENSHOTS it writes pictures into that folder instead.
"use strict";
const assert = require("node:assert");
const path = require("node:path");
const { chromium } = require(path.join(process.env.SEPAL_MODULES, "playwright-core"));
const screens = require("./screens.js");
const words = require("./words.js");
const AXE = path.join(process.env.SEPAL_MODULES, "axe-core", "axe.min.js");

const WEB = process.env.SEPAL_WEB, PICTURES = process.env.SEPAL_SCREENSHOTS;
const FACTS = JSON.parse(process.env.SEPAL_FACTS);
const MANY = 100000;
// A limit for a machine that does much else.
const DONE_MAX = 120000;

let browser;
const faults = [];

// `prepare` is called with the page before it asks for anything.
async function open(options = {}, address = "/", prepare = async () => {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  context.setDefaultTimeout(DONE_MAX);
  const page = await context.newPage();
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) faults.push(message.text()); });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => { if (!request.url().startsWith(WEB) && !request.url().startsWith("data:")) faults.push(`asks ${request.url()}`); });
  await prepare(page);
  await page.goto(WEB + address);
  return page;
}

const keys = (page) => page.locator("#body button.key").allTextContents();
const row = (page, key) => page.locator("#body tr.row").filter({ has: page.locator("button.key", { hasText: new RegExp(`^${key}$`) }) });

async function openFilter(page, key) {
  await page.fill("#search", key);
  await row(page, key).locator("button.key").click();
  await page.locator("#filter-title", { hasText: key }).waitFor();
  await page.locator("#filter-charts figure").first().waitFor();
}

// The page is whole, and says which filter is in trouble.
async function content(page) {
  await row(page, "overfilled").waitFor();
  assert.match(await page.textContent("#server-line"), /^version \d+\.\d+\.\d+/);
  const cards = await page.locator("#cards h3").allTextContents();
  assert.deepEqual(cards.map((card) => card.replace(/(look here)$/, "").replace(/(Refused in the last) .*/, "$1")), ["Load", "Latency, last minute", "Memory of filters", "Journal", "Save", "Refused in the last", "Clients and keys"]);
  const total = FACTS.keys.length;
  assert.equal(await page.textContent("#verdict"), `4 of ${total} filters are in trouble: 1 full, 1 overfilled, 2 filling`);
  assert.equal(await page.textContent("#kinds"), `${total - 2} Bloom filters, 1 cuckoo filter, 1 cuckoo filter of RedisBloom`);
  assert.match(await page.textContent("#watched"), new RegExp(`^All ${total} filters are listed\\. All were judged `));
  const causes = await page.locator("#troubles li .state").allTextContents();
  assert.match(causes.join("\n"), /^1 filter is full: it refuses new items\. \d+ adds? w(as|ere) refused in the last [^.]*\.\n1 filter errs far more often than was asked for\.\n2 filters have little room left, and cannot grow further\.$/);
  await page.locator("#troubles a", { hasText: "overfilled" }).waitFor();
  await page.locator("#slowest summary").click();
  await page.locator("#slowest tbody tr", { hasText: "bf.madd" }).waitFor();
  const slowest = await page.locator("#slowest tbody tr").first().locator("td").allTextContents();
  assert.match(slowest.join(" "), /^[\d,]+ [\d.]+ (ns|\u00b5s|ms|s) [\d.]+ (ns|\u00b5s|ms|s)$/);
  assert.match(await page.textContent("#cards"), /p99 [\d.]+ (ns|\u00b5s|ms|s)/);
  assert.match(await page.textContent("#cards"), /everysec/);
  for (const [key, state] of [["overfilled", "overfilled"], ["full", "full"], ["filling", "filling"], ["carts", "filling"]])
    assert.equal(await row(page, key).locator("td.c-state").textContent(), state);
  // What is in trouble stands first.
  const first = (await keys(page)).slice(0, 4);
  assert.deepEqual([...first.slice(0, 2), ...first.slice(2).sort()], ["full", "overfilled", "carts", "filling"]);
}

async function sorting(page) {
  const bytes = () => page.locator("#columns button", { hasText: "Memory" });
  await bytes().click();
  assert.equal((await keys(page))[0], FACTS.largest);
  assert.equal(await page.locator("th.c-bytes").getAttribute("aria-sort"), "descending");
  await bytes().click();
  assert.equal(await page.locator("th.c-bytes").getAttribute("aria-sort"), "ascending");
  assert.notEqual((await keys(page))[0], FACTS.largest);
  await page.locator("#columns button", { hasText: "Key" }).click();
  const names = await keys(page);
  assert.deepEqual(names, [...names].sort());
  await page.locator("#columns button", { hasText: "State" }).click();
}

async function search(page) {
  assert.equal(await page.textContent("#shown"), `${FACTS.keys.length} filters`);
  await page.fill("#search", "USER:1");
  assert.equal(await page.textContent("#shown"), `${FACTS.keys.filter((key) => key.includes("user:1")).length} of the ${FACTS.keys.length} listed`);
  assert.deepEqual(new Set(await keys(page)), new Set(FACTS.keys.filter((key) => key.includes("user:1"))));
  await page.fill("#search", "no such key");
  assert.deepEqual(await keys(page), []);
  await page.fill("#search", "");
  await page.selectOption("#only", "full");
  assert.deepEqual(await keys(page), ["full"]);
  await page.selectOption("#only", "");
}

// Keys are bytes, and never markup.
async function hostileKeys(page) {
  await page.fill("#search", "<img");
  const [key] = await keys(page);
  assert.equal(key, FACTS.markup);
  assert.equal(await page.locator("#rows img").count(), 0);
  await page.locator("#body button.key").first().click();
  await page.locator("#filter-title", { hasText: "<img" }).waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  await page.fill("#search", "binary");
  await page.locator("#body button.key").first().click();
  await page.locator("#filter-title", { hasText: "binary\\xff" }).waitFor();
  await page.locator("#filter-facts dd").first().waitFor();
  assert.equal(await page.locator("#filter-facts dd").first().textContent(), "1 of 100");
  await page.fill("#search", "");
}

// The points of a curve, and what the axis says of them, from the server's own figures.
async function charts(page) {
  await openFilter(page, "overfilled");
  const answer = await (await page.request.get(`${WEB}/api/filter?database=0&key=overfilled`)).json();
  const figures = page.locator("#filter-charts figure");
  await figures.nth(2).waitFor();
  assert.equal(await figures.count(), 3);
  const curve = figures.nth(2);
  const points = (await curve.locator("path.curve").getAttribute("d")).match(/-?[\d.]+ -?[\d.]+/g).map((pair) => pair.split(" ").map(Number));
  assert.equal(points.length, answer.curve.length);
  // Two points of the figures give the scale; all others must lie on it.
  const last = answer.curve.length - 1;
  const scale = (points[last][1] - points[0][1]) / (answer.curve[last].false_positive_rate - answer.curve[0].false_positive_rate);
  answer.curve.forEach(({ false_positive_rate: rate }, i) => assert.ok(Math.abs(points[i][1] - points[0][1] - scale * (rate - answer.curve[0].false_positive_rate)) < 0.2, `point ${i}`));
  const today = await curve.locator("circle.today").evaluate((mark) => [Number(mark.getAttribute("cx")), Number(mark.getAttribute("cy"))]);
  assert.ok(Math.abs(today[1] - points[0][1] - scale * (answer.false_positive_rate_now - answer.curve[0].false_positive_rate)) < 0.2, "today's rate");
  const across = (points[last][0] - points[0][0]) / 3;
  assert.ok(Math.abs(today[0] - points[0][0] - across * answer.load) < 0.2, "today's items");
  assert.ok(answer.false_positive_rate_now > 3 * answer.false_positive_rate_asked && answer.load > 1.5, "it is overfilled");
  for (const picture of await figures.locator("svg").all()) {
    assert.equal(await picture.getAttribute("role"), "img");
    assert.match(await picture.getAttribute("aria-label"), /\d%/);
  }
  assert.equal(await curve.locator("tbody tr").count(), answer.curve.length);
  await page.waitForFunction(() => document.querySelector("#filter-charts path.curve") && document.querySelectorAll("#filter-charts figure")[0].querySelectorAll("tbody tr").length >= 3);
}

// Why, and what to do: the lines can be sent as they are.
async function advice(page) {
  const text = await page.textContent("#filter-advice");
  assert.match(text, /^overfilledIt wrongly says "maybe" for 1 of \d+ absent items; 1 of 100 was asked for\./);
  const lines = await page.locator("#filter-advice code").allTextContents();
  assert.match(lines[0], /^BF\.RESERVE overfilled:next 0\.01 \d+ NONSCALING$/);
  assert.ok(Number(lines[0].split(" ")[3]) >= 3 * FACTS.overfilled_capacity, lines[0]);
  assert.deepEqual(lines.slice(1), ["BF.MIRROR overfilled overfilled:next", "BF.MIRROR overfilled COMMIT"]);
  console.log(`advice ${JSON.stringify(lines)}`);
  assert.equal(await page.locator("#filter-layers tbody tr").count(), 1);
}

// Both kinds of cuckoo filters: what they are, what to do, their layers.
async function cuckoo(page) {
  const facts = async () => Object.fromEntries(await page.locator("#filter-facts > div").evaluateAll((all) => all.map((one) => [...one.children].map((part) => part.textContent))));
  await openFilter(page, "carts");
  const carts = await facts();
  assert.equal(carts.Kind, "cuckoo filter");
  assert.equal(carts.Items, "1,700 of 2,000");
  assert.equal(carts["Asked for"], "0.1% (1 of 1,000)");
  assert.match(carts["False positives now"], /^at most 0\.0\d+% /);
  assert.match(await page.textContent("#filter-advice"), /^fillingIt does not grow, and has 1,700 items and room for 2,000\./);
  const lines = await page.locator("#filter-advice code").allTextContents();
  assert.deepEqual(lines, ["CF.RESERVE carts:next 4000 EXPANSION 0 ERROR 0.001", "RENAME carts:next carts"]);
  assert.equal(await page.locator("#filter-charts figure").count(), 2);
  assert.equal(await page.locator("#filter-layers tbody tr").count(), 1);
  await openFilter(page, "moved");
  const moved = await facts();
  assert.equal(moved.Kind, "cuckoo filter of RedisBloom");
  assert.deepEqual([moved.Items, moved["Asked for"], moved["Slots taken"], moved["Removed since it was made or compacted"]], ["64 of 128", "none", "50%", "5"]);
  assert.equal(await row(page, "moved").locator("td.c-asked").textContent(), "none");
  assert.deepEqual(await page.locator("#filter-layers tbody td").allTextContents(), ["64", "128", "50%"]);
  console.log(`cuckoo ${JSON.stringify(lines)}`);
}

async function planner(page) {
  await page.fill("#plan-items", "1000000");
  await page.fill("#plan-rate", "1%");
  await page.uncheck("#plan-grows");
  await page.waitForFunction(() => document.querySelector("#plan-result code")?.textContent.endsWith("NONSCALING"));
  assert.equal(await page.textContent("#plan-result code"), "BF.RESERVE key 0.01 1000000 NONSCALING");
  const cells = await page.locator("#plan-result tbody tr").nth(0).locator("td").allTextContents();
  const answer = await (await page.request.get(`${WEB}/api/plan?capacity=1000000&error=0.01&expansion=0`)).json();
  assert.equal(cells[1], String(Number(answer.sepal.bits_per_item.toFixed(2))));
  assert.equal(cells[2], String(answer.sepal.probes));
  await page.fill("#plan-rate", "200%");
  assert.match(await page.textContent("#plan-message"), /above 0 and below 1/);
  await page.fill("#plan-items", "9000000000000000");
  await page.fill("#plan-rate", "0.0001%");
  await page.waitForFunction(() => document.getElementById("plan-message").textContent.includes("no machine's memory"));
  assert.equal(await page.locator("#plan-result table").count(), 0);
  await page.fill("#plan-items", "1000000");
  await page.fill("#plan-rate", "1%");
  await page.check("#plan-grows");
  await windows(page);
}

// A filter that forgets.
async function windows(page) {
  const reserves = (line) => page.waitForFunction((wanted) => document.querySelector("#plan-result code")?.textContent === wanted, line);
  await page.selectOption("#plan-forgets", "time");
  await reserves("BF.RESERVE key 0.01 1000000 WINDOW 3600");
  const cells = await page.locator("#plan-result tbody tr").nth(0).locator("td").allTextContents();
  const answer = await (await page.request.get(`${WEB}/api/plan?capacity=1000000&error=0.01&window=3600`)).json();
  assert.equal(cells[1], String(Number(answer.sepal.bits_per_item.toFixed(2))));
  assert.match(await page.textContent("#plan-result"), /at least 1 hour, and for at most 1 hour 15 minutes\. A generation of 15 minutes with more than 250,000 items gets a further layer/);
  await page.fill("#plan-window", "1.5d");
  await page.fill("#plan-generations", "8");
  await reserves("BF.RESERVE key 0.01 1000000 WINDOW 129600 GENERATIONS 8");
  await page.uncheck("#plan-grows");
  await reserves("BF.RESERVE key 0.01 1000000 NONSCALING WINDOW 129600 GENERATIONS 8");
  await page.fill("#plan-window", "soon");
  assert.match(await page.textContent("#plan-message"), /^Window: a time/);
  await page.fill("#plan-generations", "17");
  await page.fill("#plan-window", "1h");
  assert.match(await page.textContent("#plan-message"), /^Generations: .* 1 to 16/);
  await page.fill("#plan-generations", "4");
  await page.selectOption("#plan-forgets", "last");
  await reserves("BF.RESERVE key 0.01 1000000 LAST");
  assert.equal(await page.locator("#plan-window").isVisible(), false);
  await page.selectOption("#plan-forgets", "never");
  await page.check("#plan-grows");
  await reserves("BF.RESERVE key 0.01 1000000");
}

async function keyboard(page) {
  await page.fill("#search", "");
  await page.focus("#rows");
  await page.keyboard.press("ArrowDown");
  const first = await page.evaluate(() => document.activeElement.textContent);
  assert.equal(first, (await keys(page))[0]);
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), (await keys(page))[1]);
  await page.keyboard.press("End");
  assert.equal(await page.evaluate(() => document.activeElement.closest("tr").getAttribute("aria-rowindex")), String(FACTS.keys.length + 1));
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await page.locator("#filter-title", { hasText: first }).waitFor();
  await page.waitForFunction(() => document.activeElement.id === "filter");
  await page.click("#close");
  assert.equal(await page.isVisible("#filter"), false);
}

// Findings that matter to people who use the keyboard, a screen reader, or strong contrast.
async function accessible(page, what) {
  const text = require("node:fs").readFileSync(AXE, "utf8");
  await page.evaluate(text + ";0");
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  assert.deepEqual(serious.map((one) => [one.id, one.nodes.map((node) => node.html).slice(0, 3)]), [], what);
}

async function withoutStyle() {
  const page = await open();
  await row(page, "overfilled").waitFor();
  await page.evaluate(() => document.querySelector("link[rel=stylesheet]").remove());
  const text = await page.evaluate(() => document.body.innerText);
  for (const part of ["The server at a glance", "everysec", "overfilled", "Plan a filter"]) assert.ok(text.includes(part), part);
  await page.context().close();
}

// A server with 100,000 filters: only the rows in view have elements, and scrolling goes through them all.
async function manyRows() {
  const columns = ["database", "key", "key_encoded", "kind", "capacity", "capacity_max", "items", "items_estimated", "items_removed", "fill", "false_positive_rate_now", "false_positive_rate_asked", "expansion", "layer_count", "memory_bytes", "seconds_until_full", "state", "deadline_time_seconds", "mirror"];
  const body = JSON.stringify({ columns, rows: Array.from({ length: MANY }, (_, i) => [0, `key:${String(i).padStart(6, "0")}`, null, "bloom", 1000, null, i % 1000, i % 1000, null, 0.4, 0.009, 0.01, 2, 1, 2048 + i, null, "fine", null, null]), shown: MANY, total: MANY, troubled: 0, troubled_shown: 0, states: { fine: MANY }, kinds: { bloom: MANY }, judged_age_seconds: 1 });
  const page = await open({}, "/", (fresh) => fresh.route("**/api/filters", (route) => route.fulfill({ contentType: "application/json", body })));
  await page.waitForFunction((count) => document.querySelector("#rows table").getAttribute("aria-rowcount") === String(count + 1), MANY);
  const counts = await page.evaluate(async () => {
    const scroller = document.getElementById("rows"), most = [];
    for (let i = 0; i <= 50; ++i) {
      scroller.scrollTop = scroller.scrollHeight * i / 50;
      await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      most.push(document.querySelectorAll("#body tr.row").length);
    }
    return Math.max(...most);
  });
  assert.ok(counts <= 40, `${counts} rows have elements`);
  assert.equal((await keys(page)).pop(), `key:0${MANY - 1}`);
  await page.fill("#search", "key:05555");
  assert.deepEqual((await keys(page)), Array.from({ length: 10 }, (_, i) => `key:05555${i}`));
  await page.context().close();
}

async function main() {
  browser = await chromium.launch({ executablePath: process.env.SEPAL_CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
  const done = async (name, part) => {
    await part;
    assert.deepEqual(faults, [], name);
    console.log(`ok ${name}`);
  };
  try {
    const tools = { open, row, openFilter, facts: FACTS, web: WEB };
    if (PICTURES) return await screens.pictures(tools, PICTURES);
    const page = await open();
    await done("content", content(page));
    await done("sorting", sorting(page));
    await done("search", search(page));
    await done("keys", hostileKeys(page));
    await done("charts", charts(page));
    await done("advice", advice(page));
    await done("cuckoo", cuckoo(page));
    await done("planner", planner(page));
    await done("accessible", accessible(page, "light"));
    await done("keyboard", keyboard(page));
    const dark = await open({ colorScheme: "dark" }, "/#filter=0/overfilled");
    for (const part of ["#filter-charts figure", "#plan-result table", "#rows tr.row"]) await dark.locator(part).first().waitFor();
    await done("dark", accessible(dark, "dark"));
    await done("screens", screens.fit(tools));
    await done("odd keys", words.oddKeys(tools));
    await done("copies", words.copies(tools));
    await done("escape", words.escape(tools));
    await done("small rates", words.smallRates(tools));
    await done("far deadline", words.farDeadline(tools));
    await done("planner reads", words.plannerReads(tools));
    await done("without style", withoutStyle());
    await done("many rows", manyRows());
  } finally {
    await browser.close();
  }
}

main().catch((error) => { console.log(error.stack); process.exitCode = 1; });
