// Shared by the browser tests: contexts that collect faults, sign-in, and checks of a screen.
// Standard input of a test: {url, browser, keys, screenshots, …}. Standard output: a report as JSON.
import axe from "axe-core";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const order = JSON.parse(readFileSync(0, "utf8"));
const { url, browser: executablePath, keys, screenshots } = order;
const RULES = { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };
export const report = { reports: [], errors: [], foreign: [], leaks: [], violations: [], overflow: [], markup: [], screens: {} };

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });

/** Open a context whose pages collect policy reports, script errors, foreign requests and leaks of keys. */
export async function openContext(options = {}) {
  const context = await browser.newContext({ locale: "en-GB", reducedMotion: "reduce", ...options });
  await context.addInitScript(() => {
    window.policyReports = [];
    document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) =>
      window.policyReports.push(`${violatedDirective} ${blockedURI} ${sample}`),
    );
  });
  context.on("request", (request) => {
    const address = request.url();
    if (!address.startsWith(`${url}/`) && !address.startsWith("blob:")) report.foreign.push(address);
    for (const key of Object.values(keys)) {
      if (address.includes(key)) report.leaks.push(`request ${address.replace(key, "KEY")}`);
      // At the time of a request of the API, the address bar has lost the key already.
      const page = request.frame().url();
      if (address.includes("/v1/") && page.includes(key)) report.leaks.push(`address at ${address}`);
    }
  });
  context.on("weberror", (error) => report.errors.push(String(error.error())));
  return context;
}

/** Wait until no screen part is loading. */
export async function settle(page) {
  await page.waitForLoadState("networkidle");
  await page.waitForFunction(() => document.querySelector("h1, .state") && !document.querySelector(".spinner"));
}

export async function signIn(page, key) {
  await page.goto(`${url}/#key=${key}`);
  await settle(page);
}

/** Collect what the page reports, and whether any payload became an element or ran. */
export async function inspect(page, name) {
  const seen = await page.evaluate(() => ({
    reports: window.policyReports.splice(0),
    ran: "pwned" in window,
    elements: document.querySelectorAll("#app :is(img:not([src^=\"blob:\"]), iframe, script, object, embed, [onerror], [onload])").length,
    overflow: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  }));
  report.reports.push(...seen.reports.map((text) => `${name}: ${text}`));
  if (seen.ran || seen.elements) report.markup.push(name);
  return seen;
}

export async function checkScreen(page, name, theme, width) {
  const label = `${name} ${theme} ${width}`;
  const seen = await inspect(page, label);
  if (seen.overflow) report.overflow.push(label);
  if (screenshots) await page.screenshot({ path: join(screenshots, `${name}-${theme}-${width}.png`), fullPage: true });
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate((rules) => window.axe.run(document, rules), RULES);
  for (const { id, nodes } of violations) report.violations.push(`${label}: ${id} ${nodes[0].html.slice(0, 120)}`);
  await page.evaluate(() => window.policyReports.splice(0));
}

/** Move to a path of the console without a reload, which would end the session. */
export async function moveTo(page, path, selector = "h1") {
  await page.evaluate((target) => {
    history.pushState(null, "", target);
    window.dispatchEvent(new PopStateEvent("popstate"));
  }, path);
  await page.locator(selector).first().waitFor();
  await settle(page);
}

/** Check the screen as it is, in both themes and widths. */
export async function checkEverywhere(page, name) {
  for (const theme of ["light", "dark"]) {
    for (const width of [320, 1280]) {
      await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
      await page.setViewportSize({ width, height: 800 });
      await checkScreen(page, name, theme, width);
    }
  }
}

/** Close the browser and print the report. */
export async function finish() {
  await browser.close();
  process.stdout.write(JSON.stringify(report));
}
