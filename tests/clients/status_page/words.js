// Keys, numbers and lines: what people read on the page, copy from it, and write into it.
"use strict";
const assert = require("node:assert");

const opened = async (open, address = "/") => {
  const page = await open({ permissions: ["clipboard-read", "clipboard-write"] }, address);
  await page.locator("#body tr.row").first().waitFor();
  return page;
};

// FACTS.odd has, for each odd key, its id in the page's address and what is shown of it.
async function oddKeys({ open, facts }) {
  const page = await opened(open);
  const shown = new Map();
  for (const [id, text] of Object.entries(facts.odd)) {
    await page.evaluate((hash) => { location.hash = hash; }, `#filter=${id}`);
    await page.waitForFunction((wanted) => document.getElementById("filter-tools").dataset.of === wanted, id);
    const title = await page.locator("#filter-title .key-text").textContent();
    assert.equal(title, text, id);
    assert.doesNotMatch(title, /[\p{C}\p{Zl}\p{Zp}\u00a0]|^ | $| {2}/u, id);
    assert.ok(!shown.has(title), `${id} looks like ${shown.get(title)}`);
    shown.set(title, id);
  }
  await page.fill("#search", "odd");
  const list = await page.evaluate(async () => {
    const scroller = document.getElementById("rows"), seen = new Map();
    for (scroller.scrollTop = 0; ; scroller.scrollTop += scroller.clientHeight / 2) {
      await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      for (const row of document.querySelectorAll("#body tr.row")) seen.set(row.index, row.key.textContent);
      if (scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 1) return [...seen.values()];
    }
  });
  assert.equal(list.length, Object.values(facts.odd).filter((text) => text.includes("odd")).length);
  assert.equal(new Set(list).size, list.length);
  for (const text of list) assert.ok(shown.has(text), text);
  // A long key is cut in the middle: its end is what tells it from others.
  await page.fill("#search", facts.long);
  const [tail, cell, head] = await page.locator("#body button.key").first().evaluate((key) =>
    [key.querySelector(".key-tail"), key.closest("th"), key.querySelector(".key-head")].map((one) => [one.getBoundingClientRect().right, one.scrollWidth - one.clientWidth]));
  assert.ok(tail[0] <= cell[0] && tail[1] === 0 && head[1] > 0, JSON.stringify([tail, cell, head]));
  await page.context().close();
}

// What the buttons copy; the driver sends it by redis-cli.
async function copies({ open, facts }) {
  const page = await opened(open);
  const copied = {};
  for (const id of Object.keys(facts.odd)) {
    await page.evaluate((hash) => { location.hash = hash; }, `#filter=${id}`);
    await page.waitForFunction((wanted) => document.getElementById("filter-tools").dataset.of === wanted, id);
    const button = page.locator("#filter-tools button");
    await button.click();
    await page.waitForFunction(() => document.querySelector("#filter-tools button").textContent === "Copied");
    copied[id] = await page.evaluate(() => navigator.clipboard.readText());
  }
  console.log(`copied ${JSON.stringify(copied)}`);
  // Without a secure context there is no clipboard for scripts.
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
  await page.locator("#plan-result .copy").click();
  await page.waitForFunction(() => document.querySelector("#plan-result .copy").textContent === "Copied");
  await page.fill("#search", "");
  await page.focus("#search");
  await page.keyboard.press("Control+V");
  const line = await page.textContent("#plan-result code");
  await page.waitForFunction((wanted) => document.getElementById("search").value === wanted, line);
  await page.context().close();
}

async function escape({ open }) {
  const page = await opened(open, "/#filter=0/overfilled");
  const figures = page.locator("#filter-charts details").first();
  // The charts are drawn anew now and then, also while the button is pressed. Open figures stay.
  while (await figures.getAttribute("open") === null) await figures.locator("summary").click();
  await page.keyboard.press("Escape");
  assert.equal(await figures.getAttribute("open"), null);
  assert.equal(await page.isVisible("#filter"), true);
  await page.fill("#search", "over");
  await page.keyboard.press("Escape");
  assert.equal(await page.isVisible("#filter"), true);
  await page.focus("#close");
  await page.keyboard.press("Escape");
  assert.equal(await page.isVisible("#filter"), false);
  assert.equal(await page.evaluate(() => location.hash), "");
  await page.context().close();
}

// An empty filter, or one with few items, errs once in more questions than anybody asks.
async function smallRates({ open }) {
  const page = await opened(open, "/#filter=0/tiny");
  await page.locator("#filter-charts figure").first().waitFor();
  await page.fill("#search", "tiny");
  assert.equal(await page.locator("#body td.c-rate").first().textContent(), "< 0.0001%");
  const text = await page.innerText("#filter");
  assert.match(text, /< 0\.0001%/);
  assert.match(text, /for fewer than 1 of 10\^12 absent items/);
  assert.doesNotMatch(text, /0\.00000|\d[eE]-|\d{20}|\d(,\d{3}){5}/);
  await page.context().close();
}

// A deadline behind the last day that a browser knows.
async function farDeadline({ open }) {
  const page = await opened(open, "/#filter=0/far");
  await page.locator("#filter-facts dd").first().waitFor();
  assert.match(await page.textContent("#filter-facts"), /Expiresin more than 1,000 years, after the year 275,760/);
  assert.equal(await page.isVisible("#trouble"), false);
  await page.context().close();
}

// Items, false positives, window, and what the line to create it says.
const READ = [
  ["1000000", "0.01", null, "0.01 1000000"], ["1M", "1%", null, "0.01 1000000"], ["1e6", "1e-2", null, "0.01 1000000"], ["1.5m", "0.7%", null, "0.007 1500000"],
  ["2G", "0.1 %", null, "0.001 2000000000"], ["12.5k", ".3%", null, "0.003 12500"], ["1e+3", "1/1000", null, "0.001 1000"], ["1,234,567", "1 of 1M", null, "0.000001 1234567"],
  ["1500e-2", "1e-7", null, "1e-7 15"], ["1000", "5%", "500ms", "0.05 1000 WINDOW 0.5"], ["1000", "5%", "90", "0.05 1000 WINDOW 90"], ["20000/s", "1%", "1h", "0.01 72000000 WINDOW 3600"],
  ["1.5m/h", "1%", "7d", "0.01 252000000 WINDOW 604800"], ["3k/15m", "1%", "1.5h", "0.01 18000 WINDOW 5400"], ["7/2s", "1%", "3s", "0.01 11 WINDOW 3"],
];

// The planner reads what `sepal plan` reads, and more; the driver compares the lines with its own.
async function plannerReads({ open }) {
  const page = await opened(open);
  const write = async (items, rate, window) => {
    await page.selectOption("#plan-forgets", window ? "time" : "never");
    if (window) await page.fill("#plan-window", window);
    await page.fill("#plan-items", items);
    await page.fill("#plan-rate", rate);
  };
  for (const [items, rate, window, wanted] of READ) {
    await write(items, rate, window);
    assert.equal(await page.textContent("#plan-message"), "", `${items} ${rate} ${window}`);
    await page.waitForFunction((line) => document.querySelector("#plan-result code")?.textContent === line, `BF.RESERVE key ${wanted}`);
  }
  const refused = async (name, ...words) => {
    await write(...words);
    assert.equal((await page.textContent("#plan-message")).split(":")[0], name, `${words}`);
    assert.equal(await page.locator("#plan-result table").count(), 0);
  };
  for (const items of ["1.5", "", "0", "1.00001k", "1q", "-5", "1e", "1e99", "0x10", "20000/s"]) await refused("Items", items, "1%");
  for (const rate of ["0", "1", "100%", "-1%", "", "1e", "one", "1e-400", "2/1"]) await refused("False positives", "1000", rate);
  for (const window of ["0s", "1y", "-1h", "soon"]) await refused("Window", "1000", "1%", window);
  console.log(`planned ${JSON.stringify(READ)}`);
  await page.context().close();
}

module.exports = { oddKeys, copies, escape, smallRates, farDeadline, plannerReads };
