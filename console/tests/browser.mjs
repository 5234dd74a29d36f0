// Drive the console in Chromium. Standard input: {url, browser, keys, screens, pictures}. Standard output: a report as JSON.
import axe from "axe-core";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { url, browser: executablePath, keys, screens, pictures } = JSON.parse(readFileSync(0, "utf8"));
const RULES = { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };
const report = { reports: [], errors: [], foreign: [], leaks: [], violations: [], overflow: [], markup: [], screens: {} };

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });

/** Open a context whose pages collect policy reports, script errors, foreign requests and leaks of keys. */
async function openContext(options = {}) {
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
async function settle(page) {
  await page.waitForLoadState("networkidle");
  await page.waitForFunction(() => document.querySelector("h1, .state") && !document.querySelector(".spinner"));
}

async function signIn(page, key) {
  await page.goto(`${url}/#key=${key}`);
  await settle(page);
}

/** Collect what the page reports, and whether any payload became an element or ran. */
async function inspect(page, name) {
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

async function checkScreen(page, name, theme, width) {
  const label = `${name} ${theme} ${width}`;
  const seen = await inspect(page, label);
  if (seen.overflow) report.overflow.push(label);
  if (pictures) await page.screenshot({ path: join(pictures, `${name}-${theme}-${width}.png`), fullPage: true });
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate((rules) => window.axe.run(document, rules), RULES);
  for (const { id, nodes } of violations) report.violations.push(`${label}: ${id} ${nodes[0].html.slice(0, 120)}`);
  await page.evaluate(() => window.policyReports.splice(0));
}

/** Move to a path of the console without a reload, which would end the session. */
async function moveTo(page, path, selector = "h1") {
  await page.evaluate((target) => {
    history.pushState(null, "", target);
    window.dispatchEvent(new PopStateEvent("popstate"));
  }, path);
  await page.locator(selector).first().waitFor();
  await settle(page);
}

async function checkScreens() {
  for (const theme of ["light", "dark"]) {
    for (const width of [320, 1280]) {
      const context = await openContext({ colorScheme: theme, viewport: { width, height: 800 } });
      const page = await context.newPage();
      await page.goto(`${url}/`);
      await settle(page);
      await checkScreen(page, "sign-in", theme, width);
      await signIn(page, keys.admin);
      for (const [name, [path, selector]] of Object.entries(screens)) {
        await moveTo(page, path, selector);
        await checkScreen(page, name, theme, width);
        report.screens[name] ??= await page.evaluate(() => document.querySelector("main").innerText);
      }
      await context.close();
    }
  }
}

/** Return places of the browser in which the key of a signed-in tab stands. */
async function checkKey() {
  const context = await openContext();
  const page = await context.newPage();
  await signIn(page, keys.admin);
  const places = await page.evaluate(() => ({
    address: window.location.href,
    local: JSON.stringify({ ...localStorage }),
    session: JSON.stringify({ ...sessionStorage }),
    cookie: document.cookie,
    state: JSON.stringify(history.state),
    html: document.documentElement.outerHTML,
  }));
  places.cookies = JSON.stringify(await context.cookies());
  for (const [place, content] of Object.entries(places)) if (content.includes(keys.admin)) report.leaks.push(place);
  await page.getByRole("link", { name: "Knowledge bases" }).click();
  await page.goBack();
  await settle(page);
  if (page.url() !== `${url}/`) report.leaks.push(`history ${page.url().replace(keys.admin, "KEY")}`);
  await page.reload();
  await settle(page);
  report.signedOutByReload = await page.getByLabel("API key").isVisible();
  await page.getByLabel("API key").fill(keys.admin);
  await page.getByRole("checkbox").check();
  await page.keyboard.press("Enter");
  await settle(page);
  await page.reload();
  await settle(page);
  report.keptInTab = await page.getByRole("heading", { name: "Overview" }).isVisible();
  report.keptPlaces = await page.evaluate(
    (key) => [sessionStorage, localStorage].map((storage) => JSON.stringify({ ...storage }).includes(key)),
    keys.admin,
  );
  await inspect(page, "key");
  await context.close();
}

/** Search by keyboard alone, and compare the shown body and reply with those on the wire. */
async function checkSearch() {
  const context = await openContext();
  const page = await context.newPage();
  await signIn(page, keys.admin);
  await moveTo(page, "/search");
  const sent = page.waitForRequest((request) => request.method() === "POST");
  await page.getByLabel("Question").focus();
  await page.keyboard.type("free cancellation <img src=x onerror=pwned=1>");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.type("2");
  await page.keyboard.press("Enter");
  const request = await sent;
  await page.locator(".hit").first().waitFor();
  const reply = await (await request.response()).text();
  const shown = await page.evaluate(() => ["body", "reply"].map((id) => document.querySelector(`[data-testid=${id}]`).textContent));
  report.search = { body: request.postData(), reply, shownBody: shown[0], shownReply: shown[1] };
  await inspect(page, "search by keyboard");
  await page.locator(".hit a").first().focus();
  await page.keyboard.press("Enter");
  await page.locator(".chunk.chosen").first().waitFor();
  report.openedChunk = await page.getByRole("heading", { name: "Chosen chunk" }).isVisible();
  await context.close();
}

/** The screens of a reader, and of a key that was revoked during the session. */
async function checkRoles() {
  const context = await openContext();
  const page = await context.newPage();
  await signIn(page, keys.reader);
  report.readerOverview = await page.evaluate(() => document.querySelector("main").innerText);
  const revocation = await page.request.delete(`${url}/v1/api-keys/${keys.readerId}`, {
    headers: { Authorization: `Bearer ${keys.admin}` },
  });
  report.revoked = revocation.status();
  await page.getByRole("link", { name: "Knowledge bases" }).click();
  await page.getByRole("alert").waitFor();
  report.signedOutByRevocation = await page.getByLabel("API key").isVisible();
  await inspect(page, "roles");
  await context.close();
}

await checkScreens();
await checkKey();
await checkSearch();
if (keys.reader) await checkRoles();
await browser.close();
process.stdout.write(JSON.stringify(report));
