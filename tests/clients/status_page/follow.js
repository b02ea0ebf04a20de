// Reads the advice of the status page. Each line of standard input is a JSON array: an action and its words. Each is answered by a line of JSON.
"use strict";
const path = require("node:path");
const readline = require("node:readline");
const { chromium } = require(path.join(process.env.SEPAL_MODULES, "playwright-core"));

const DONE_MAX = 60000;

// The texts of a list, each with the lines that it says to send.
const stepsIn = (list) => list.evaluateAll((all) => all.map((one) => ({ text: one.textContent, lines: [...one.querySelectorAll("code")].map((code) => code.textContent) })));

const ACTIONS = {
  async open(page, web) {
    await page.goto(web);
    return {};
  },
  // The advice for a filter, once the page has it in this state.
  async filter(page, id, state) {
    await page.evaluate((hash) => { location.hash = hash; }, `#filter=${id}`);
    await page.waitForFunction(([wanted, word]) => document.getElementById("filter-tools").dataset.of === wanted &&
      document.querySelector("#filter-advice .state")?.textContent === word, [id, state], { timeout: DONE_MAX });
    return { text: await page.textContent("#filter-advice"), steps: await stepsIn(page.locator("#filter-advice li")) };
  },
  // An address that names no filter.
  async missing(page, id) {
    await page.evaluate((hash) => { location.hash = hash; }, `#filter=${id}`);
    await page.waitForFunction((wanted) => document.getElementById("filter-title").textContent === `No such filter: ${wanted}`, id, { timeout: DONE_MAX });
    return page.isVisible("#filter-title");
  },
  // What needs the operator, once a line of it has the text, or once none has it.
  async trouble(page, text) {
    await page.waitForFunction((wanted) => [...document.querySelectorAll("#troubles li")].some((one) => one.textContent.includes(wanted)), text, { timeout: DONE_MAX });
    return stepsIn(page.locator("#troubles li"));
  },
  async over(page, text) {
    await page.waitForFunction((wanted) => ![...document.querySelectorAll("#troubles li")].some((one) => one.textContent.includes(wanted)), text, { timeout: DONE_MAX });
    return page.locator("#troubles li").allTextContents();
  },
  // The page says that all is well.
  async well(page) {
    await page.waitForFunction(() => document.getElementById("no-trouble").textContent.startsWith("Nothing is wrong"), undefined, { timeout: DONE_MAX });
    return page.textContent("#verdict");
  },
  text: (page, selector) => page.textContent(selector),
};

async function main() {
  const browser = await chromium.launch({ executablePath: process.env.SEPAL_CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
  try {
    for await (const line of readline.createInterface({ input: process.stdin })) {
      const [action, ...words] = JSON.parse(line);
      const answer = await ACTIONS[action](page, ...words).catch(async (error) => ({ error: `${error.message}\n${await page.textContent("main")}` }));
      console.log(JSON.stringify(answer));
    }
  } finally {
    await browser.close();
  }
}

main();
