// Drive all screens of the console in Chromium: policies, payloads, accessibility, keys, search, roles.
import { checkScreen, finish, inspect, moveTo, openContext, order, report, settle, signIn } from "./common.mjs";

const { url, keys, screens } = order;

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

/** The API reference loads and reports nothing. Requests to other origins are faults on all pages. */
async function checkReference() {
  const context = await openContext();
  const page = await context.newPage();
  await page.goto(`${url}/docs`);
  await page.locator(".opblock").first().waitFor();
  report.reports.push(...(await page.evaluate(() => window.policyReports.map((text) => `/docs: ${text}`))));
  await context.close();
}

await checkScreens();
await checkReference();
await checkKey();
await checkSearch();
if (keys.reader) await checkRoles();
await finish();
