// Drive keys, audit events and receipts in Chromium: create, rotate and revoke a key by keyboard, filter, download.
import { finish, inspect, moveTo, openContext, order, report, settle, signIn } from "./common.mjs";

const { url, keys, payload } = order;
const ask = async (page, key) =>
  (await page.request.get(`${url}/v1/me`, { headers: { Authorization: `Bearer ${key}` } })).status();
const readMain = (page) => page.evaluate(() => document.querySelector("main").innerText);

async function press(page, role, name) {
  await page.getByRole(role, { name, exact: true }).focus();
  await page.keyboard.press("Enter");
}

async function readKey(page) {
  const field = page.getByTestId("key");
  await field.waitFor();
  const key = await field.textContent();
  await press(page, "button", "Close");
  await field.waitFor({ state: "detached" });
  return key;
}

async function manageKeys(page) {
  await moveTo(page, "/api-keys", "tbody tr");
  await press(page, "link", "New key");
  await page.getByTestId("body").waitFor();
  await page.getByLabel("Name", { exact: true }).fill(payload);
  await page.getByLabel("Role").selectOption("reader");
  await press(page, "button", "Create");
  const first = await readKey(page);
  report.createdStatus = await ask(page, first);
  await settle(page);
  await press(page, "button", `Rotate ${payload}`);
  await page.getByLabel("Hours").fill("2");
  await page.keyboard.press("Enter");
  const second = await readKey(page);
  await page.getByText("Replaced, valid for").waitFor();
  report.rotated = [await ask(page, first), await ask(page, second)];
  report.keys = await readMain(page);
  await page.getByRole("button", { name: `Revoke ${payload}`, exact: true }).last().focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await press(page, "button", "Revoke");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  report.revoked = [await ask(page, first), await ask(page, second)];
  const stored = await page.evaluate(() => JSON.stringify([location.href, history.state, { ...localStorage }, { ...sessionStorage }]));
  if (stored.includes(first) || stored.includes(second)) report.leaks.push("new key");
  await inspect(page, "keys");
}

async function readAudit(page) {
  await moveTo(page, "/audit-events", "tbody tr");
  await page.getByLabel("Action").fill("key.create");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/audit-events?action=key.create");
  await settle(page);
  report.audit = await page.evaluate(() => document.querySelector("tbody").innerText);
  const started = page.waitForEvent("download");
  await press(page, "button", "Download all as JSON Lines");
  const stream = await (await started).createReadStream();
  report.lines = "";
  for await (const part of stream) report.lines += part;
  await page.getByLabel("Action").fill("nothing");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  report.refusedFilter = await readMain(page);
  await inspect(page, "audit");
}

async function readReceipt(page) {
  await moveTo(page, "/deletions", "tbody tr");
  report.deletions = await readMain(page);
  await page.locator("tbody a").first().focus();
  await page.keyboard.press("Enter");
  await page.getByText("0 rows and objects left").waitFor();
  await inspect(page, "receipt");
}

const context = await openContext({ acceptDownloads: true });
const page = await context.newPage();
await signIn(page, keys.admin);
await manageKeys(page);
await readAudit(page);
await readReceipt(page);
await context.close();

const readers = await openContext();
const readerPage = await readers.newPage();
await signIn(readerPage, keys.reader);
report.readerScreens = {};
for (const path of ["/api-keys", "/audit-events", "/deletions"]) {
  await moveTo(readerPage, path);
  report.readerScreens[path] = await readMain(readerPage);
}
report.readerLinks = await readerPage.evaluate(() => document.querySelector("nav").innerText);
await readers.close();
await finish();
