// Drive the screens of the operator in Chromium: health, tenants with quotas, first key, changes, deletion, roles.
import { checkEverywhere, finish, inspect, moveTo, openContext, order, report, settle, signIn } from "./common.mjs";

const { url, keys, tenant, payload } = order;
const call = (page, method, path, data) =>
  page.request.fetch(`${url}/v1${path}`, { method, data, headers: { Authorization: `Bearer ${keys.operator}` } });
const readMain = (page) => page.evaluate(() => document.querySelector("main").innerText);

/** Wait for the next request of a method, and return what was shown, what was sent, and the reply. */
async function sendBy(page, method, act) {
  const sent = page.waitForRequest((request) => request.method() === method && request.url().includes("/v1/tenants"));
  const shown = await page.getByTestId("body").textContent();
  await act();
  const request = await sent;
  const reply = await request.response();
  return { shown, body: request.postData(), ifMatch: await request.headerValue("if-match"), status: reply.status() };
}

async function readScreens(page) {
  for (const [name, path, selector] of [
    ["operation", "/operator", ".figures"],
    ["tenants", "/operator/tenants", "tbody tr"],
    ["create-tenant", "/operator/create-tenant", "[data-testid=body]"],
    ["tenant", `/operator/tenants/${tenant}`, "[data-testid=body]"],
    ["tenant-missing", "/operator/tenants/%3Cb%3E", "[role=alert]"],
    ["operator-jobs", "/jobs?state=failed", "tbody tr"],
    ["operator-nowhere", "/operator/tenants/a/b", "h1"],
  ]) {
    await moveTo(page, path, selector);
    await checkEverywhere(page, name);
    report.screens[name] = await readMain(page);
  }
}

/** Create a tenant by keyboard, after a refusal. The first key must be in no address and in no storage. */
async function createTenant(page) {
  await moveTo(page, "/operator/tenants");
  await page.getByRole("link", { name: "New tenant" }).focus();
  await page.keyboard.press("Enter");
  await page.getByTestId("body").waitFor();
  await page.getByText("Quotas", { exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("documents", { exact: true }).fill("many");
  report.refused = await sendBy(page, "POST", () => page.getByRole("button", { name: "Create" }).click());
  await page.getByRole("alert").waitFor();
  report.refusal = await page.getByRole("alert").innerText();
  await page.getByLabel("Name", { exact: true }).fill(payload);
  await page.getByLabel("documents", { exact: true }).fill("12");
  report.created = await sendBy(page, "POST", () => page.keyboard.press("Enter"));
  const field = page.getByTestId("key");
  await field.waitFor();
  const key = await field.textContent();
  report.firstKeyWorks = (await page.request.get(`${url}/v1/me`, { headers: { Authorization: `Bearer ${key}` } })).status();
  await checkEverywhere(page, "tenant-created");
  const places = await page.evaluate(() => JSON.stringify([location.href, history.state, { ...localStorage }, { ...sessionStorage }]));
  if (places.includes(key)) report.leaks.push("first key");
  await page.getByRole("link", { name: payload }).click();
  await page.getByTestId("body").waitFor();
  report.keyAfterwards = (await page.evaluate(() => document.documentElement.outerHTML)).includes(key);
  report.createdTenant = await readMain(page);
  return key;
}

async function changeTenant(page) {
  const path = `/tenants/${page.url().split("/").at(-1)}`;
  await page.locator("summary", { hasText: "Quotas" }).click();
  await page.getByLabel("documents", { exact: true }).fill("34");
  await call(page, "PATCH", path, { quotas: { chunks: 5 } });
  report.stale = await sendBy(page, "PATCH", () => page.getByRole("button", { name: "Save" }).click());
  await page.getByRole("button", { name: "Load again" }).click();
  await page.locator("td.number", { hasText: /^5$/ }).waitFor();
  await page.locator("summary", { hasText: "Quotas" }).click();
  await page.getByLabel("documents", { exact: true }).fill("");
  report.saved = await sendBy(page, "PATCH", () => page.getByRole("button", { name: "Save" }).click());
  await page.getByText("Saved.").waitFor();
  report.quotas = (await (await call(page, "GET", path)).json()).quotas;
}

async function deleteTenant(page, key) {
  await page.getByRole("button", { name: "Delete tenant" }).click();
  const dialog = page.getByRole("dialog");
  const confirm = dialog.getByRole("button", { name: "Delete tenant" });
  await dialog.getByRole("textbox").fill(`${payload}x`);
  report.deleteOther = await confirm.isDisabled();
  await checkEverywhere(page, "tenant-delete");
  await dialog.getByRole("textbox").fill(payload);
  await page.keyboard.press("Enter");
  await page.getByText("0 rows and objects left").waitFor();
  report.keyAfterDeletion = (await page.request.get(`${url}/v1/me`, { headers: { Authorization: `Bearer ${key}` } })).status();
  await checkEverywhere(page, "tenant-receipt");
}

/** An admin and a reader see no link and no screen of the operator, and the console asks the API for nothing. */
async function checkOthers() {
  report.others = {};
  for (const name of ["admin", "reader"]) {
    const context = await openContext();
    const page = await context.newPage();
    await signIn(page, keys[name]);
    const asked = [];
    page.on("request", (request) => {
      const { pathname } = new URL(request.url());
      if (!pathname.startsWith("/console/")) asked.push(pathname);
    });
    const texts = [];
    for (const path of ["/operator", "/operator/tenants", `/operator/tenants/${tenant}`, "/operator/create-tenant"]) {
      await moveTo(page, path);
      texts.push(await readMain(page));
    }
    const links = await page.getByRole("link", { name: "Operation" }).count();
    report.others[name] = { texts, asked, links };
    await inspect(page, name);
    if (name === "admin") await checkEverywhere(page, "operator-forbidden");
    await context.close();
  }
}

const context = await openContext();
const page = await context.newPage();
page.setDefaultTimeout(60_000);
await signIn(page, keys.operator);
await settle(page);
await readScreens(page);
const key = await createTenant(page);
await changeTenant(page);
await deleteTenant(page, key);
await context.close();
await checkOthers();
await finish();
