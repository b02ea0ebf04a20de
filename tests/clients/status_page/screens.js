// The page on screens of several widths, light and dark.
"use strict";
const assert = require("node:assert");
const path = require("node:path");

const SCREENS = [[360, 740], [390, 844], [768, 1024], [1280, 900]];
const SCHEMES = ["light", "dark"];

// What is measured on the page: widths, and what is wider than the screen.
function measure() {
  const roomIn = (one) => one.getBoundingClientRect().width - parseFloat(getComputedStyle(one).paddingLeft) - parseFloat(getComputedStyle(one).paddingRight) + 0.05;
  const widthIn = (one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return range.getBoundingClientRect().width;
  };
  const list = document.getElementById("rows");
  const cells = (name) => [...document.querySelectorAll(`#rows tr.row ${name}`)].map((cell) => cell.getBoundingClientRect());
  const row = document.querySelector("#rows tr.row").getBoundingClientRect();
  return {
    screen: innerWidth, page: document.documentElement.scrollWidth,
    outside: [...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5 && !one.closest("svg, .wide, #rows")).map((one) => `${one.tagName}#${one.id}`),
    list: list.clientWidth, listScrolls: list.scrollWidth, head: document.querySelector("#columns .c-key").getBoundingClientRect().width,
    keys: cells(".c-key").map((box) => box.width), right: Math.max(...cells("> *").map((box) => box.right)), edge: list.getBoundingClientRect().right,
    // The lines of a row: tops of its cells that differ by more than half a line.
    lines: new Set([".c-key", ".c-rate"].map((name) => Math.round((cells(name)[0].top + cells(name)[0].bottom) / 2 / 13))).size, row: row.height,
    // Figures and heads that are cut.
    cut: [...document.querySelectorAll("#rows tbody td:not(.c-about), #rows thead button")].filter((one) => one.clientWidth > 0 && widthIn(one) > roomIn(one)).map((one) => one.textContent),
    font: parseFloat(getComputedStyle(document.querySelector("#rows tr.row .c-rate")).fontSize),
  };
}

// The key has at least 40% of the list, nothing is wider than the screen, and a phone has rows of two lines.
async function fit({ open }) {
  for (const [width, height] of SCREENS)
    for (const colorScheme of SCHEMES) {
      const page = await open({ viewport: { width, height }, colorScheme }, "/#filter=0/overfilled");
      await page.locator("#filter-charts figure").first().waitFor();
      await page.locator("#plan-result table").waitFor();
      await page.locator("#rows tr.row").first().waitFor();
      const seen = await page.evaluate(measure), name = `${width} ${colorScheme}: ${JSON.stringify(seen)}`;
      assert.ok(seen.keys.length > 3, name);
      for (const wide of [seen.head, ...seen.keys]) assert.ok(wide >= 0.4 * seen.list, `the column of keys, ${name}`);
      assert.ok(seen.page <= seen.screen && seen.outside.length === 0, `the page, ${name}`);
      assert.ok(seen.listScrolls <= seen.list && seen.right <= seen.edge, `the list, ${name}`);
      if (width < 700) assert.equal(seen.lines, 2, name);
      assert.ok(seen.font >= 12, name);
      assert.deepEqual(seen.cut, [], name);
      await page.context().close();
    }
}

async function pictures({ open, row, openFilter }, folder) {
  for (const [width, height] of SCREENS)
    for (const colorScheme of SCHEMES) {
      const page = await open({ viewport: { width, height }, colorScheme });
      const shot = (place, name) => place.screenshot({ path: path.join(folder, `${name}-${width}-${colorScheme}.png`) });
      await row(page, "overfilled").waitFor();
      // Long enough that the load has a line.
      await page.waitForTimeout(16000);
      await shot(page, "page");
      await page.locator("#filters").scrollIntoViewIfNeeded();
      await shot(page.locator("#filters"), "filters");
      await openFilter(page, colorScheme === "dark" ? "sessions" : "overfilled");
      await shot(page.locator("#filter"), colorScheme === "dark" ? "sessions" : "overfilled");
      await shot(page.locator("#planner"), "planner");
      await page.context().close();
    }
}

module.exports = { fit, pictures };
