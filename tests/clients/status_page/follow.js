// Reads the advice of the status page. Each line of standard input is a JSON array: an action and its words. Each is answered by a line of JSON.
"use strict";
const path = require("node:path");
const readline = require("node:readline");
const { chromium } = require(path.join(process.env.SEPAL_MODULES, "playwright-core"));

const DONE_MAX = 300000, CHOOSE_AGAIN = 10000;

// The texts of a list, each with the lines that it says to send.
const stepsIn = (list) => list.evaluateAll((all) => all.map((one) => ({ text: one.textContent, lines: [...one.querySelectorAll("code")].map((code) => code.textContent) })));

const ACTIONS = {
  async open(page, web) {
    await page.goto(web);
    return {};
  },
  // The advice for a filter, once the page has it in this state.
  async filter(page, id, state) {
    const shown = () => page.waitForFunction(([wanted, word]) => document.getElementById("filter-tools").dataset.of === wanted &&
      document.querySelector("#filter-advice .state")?.textContent === word, [id, state], { timeout: CHOOSE_AGAIN });
    // The page gives up a filter that is not there at a moment when it asks. So it is chosen again.
    for (const end = Date.now() + DONE_MAX; ;) {
      await page.evaluate((hash) => { location.hash = ""; location.hash = hash; }, `#filter=${id}`);
      const problem = await shown().then(() => null, (error) => error);
      if (problem === null) break;
      if (Date.now() > end) throw problem;
    }
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
    // The lines of one moment: the page may draw others right after.
    const found = await page.waitForFunction((wanted) => {
      const all = [...document.querySelectorAll("#troubles li")].map((one) => ({ text: one.textContent, lines: [...one.querySelectorAll("code")].map((code) => code.textContent) }));
      return all.some((one) => one.text.includes(wanted)) && all;
    }, text, { timeout: DONE_MAX });
    return found.jsonValue();
  },
  async over(page, text) {
    await page.waitForFunction((wanted) => ![...document.querySelectorAll("#troubles li")].some((one) => one.textContent.includes(wanted)), text, { timeout: DONE_MAX });
    return page.locator("#troubles li").allTextContents();
  },
  // The page says that all is well, and this of the filters. It has asked for all of it since this action began: before, it may not
  // have known of any trouble yet.
  async well(page, verdict) {
    await page.waitForRequest((request) => request.url().endsWith("/api/server"), { timeout: DONE_MAX });
    await page.waitForResponse((response) => response.url().endsWith("/api/filters"), { timeout: DONE_MAX });
    await page.waitForFunction((wanted) => document.getElementById("no-trouble").textContent.startsWith("Nothing is wrong") &&
      document.getElementById("verdict").textContent.includes(wanted), verdict, { timeout: DONE_MAX });
    return true;
  },
  // The page has asked for all of it since this action began, and shows it.
  async asked(page) {
    await page.waitForRequest((request) => request.url().endsWith("/api/server"), { timeout: DONE_MAX });
    await page.waitForResponse((response) => response.url().endsWith("/api/filters"), { timeout: DONE_MAX });
    await page.waitForRequest((request) => request.url().endsWith("/api/server"), { timeout: DONE_MAX });
    return true;
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
