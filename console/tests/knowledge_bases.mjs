// Drive the forms of knowledge bases: create, change with If-Match, reindex, roll back, delete with a receipt, roles.
import { checkScreen, finish, inspect, moveTo, openContext, order, report, settle, signIn } from "./common.mjs";

const { url, keys, name, payload } = order;
const base = `/knowledge-bases/${name}`;
const call = (page, method, path, data) =>
  page.request.fetch(`${url}/v1${path}`, { method, data, headers: { Authorization: `Bearer ${keys.admin}` } });
const shownBody = (page) => page.getByTestId("body").textContent();
const isInvalid = (field) => field.getAttribute("aria-invalid");

/** Check the screen as it is in a theme and a width. */
async function checkAs(page, name, theme, width) {
  await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
  await page.setViewportSize({ width, height: 800 });
  await checkScreen(page, name, theme, width);
}

/** Wait for the next request of a method, and return its body, its If-Match and the status of the reply. */
async function sendBy(page, method, act) {
  const sent = page.waitForRequest((request) => request.method() === method);
  const shown = await shownBody(page);
  await act();
  const request = await sent;
  const reply = await request.response();
  return { shown, body: request.postData(), ifMatch: await request.headerValue("if-match"), status: reply.status() };
}

async function createByKeyboard(page) {
  await moveTo(page, "/knowledge-bases");
  await page.getByRole("link", { name: "New knowledge base" }).focus();
  await page.keyboard.press("Enter");
  const field = page.getByLabel("Name", { exact: true });
  await field.focus();
  await page.keyboard.type("Not A Name");
  await page.getByLabel("Title", { exact: true }).fill(payload);
  await page.getByText("Chunking", { exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("strategy").first().selectOption("hierarchical");
  await page.getByLabel("parent_tokens").fill("900");
  await page.getByText("Searches", { exact: true }).click();
  await page.getByLabel("top_k").fill("seven");
  report.refused = await sendBy(page, "POST", () => page.getByLabel("top_k").press("Enter"));
  await page.getByRole("alert").waitFor();
  report.refusedFields = [await isInvalid(field), await isInvalid(page.getByLabel("top_k")), await isInvalid(page.getByLabel("parent_tokens"))];
  report.refusal = await page.getByRole("alert").innerText();
  await checkAs(page, "create-refused", "light", 1280);
  await field.fill(name);
  await page.getByLabel("top_k").fill("7");
  report.created = await sendBy(page, "POST", () => page.getByRole("button", { name: "Create" }).click());
  await page.waitForURL(`${url}${base}`);
  await settle(page);
  report.createdTitle = await page.locator("h1").innerText();
}

/** A link away from a changed form asks first; "Cancel" keeps what was typed. */
async function stayOnChangedForm(page) {
  await moveTo(page, "/create-knowledge-base", "[data-testid=body]");
  await page.getByLabel("Name", { exact: true }).fill("draft");
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  report.draft = await page.getByLabel("Name", { exact: true }).inputValue();
  await page.getByLabel("Name", { exact: true }).fill("");
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

/** Another kind has the fields of its source, and those of documents are gone. */
async function describeSource(page) {
  await moveTo(page, "/create-knowledge-base", "[data-testid=body]");
  await page.getByLabel("Enforced metadata").fill('{"department": "hr"}');
  await page.getByLabel("Kind").selectOption("agent_search");
  await page.getByText("Source", { exact: true }).click();
  await page.getByLabel("hostname").fill("https://search.example.com");
  await page.getByLabel("top_k").first().fill("3");
  report.source = { body: await shownBody(page), chunking: await page.getByText("Chunking", { exact: true }).count() };
  await page.getByRole("button", { name: "Edit as JSON" }).click();
  await page.getByLabel("Body of the request").fill("{}");
  report.ownBody = await sendAsJson(page);
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("dialog").getByRole("button").last().click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

async function sendAsJson(page) {
  const sent = page.waitForRequest((request) => request.method() === "POST");
  await page.getByRole("button", { name: "Create" }).click();
  const request = await sent;
  return [request.postData(), (await request.response()).status()];
}

/** The screens in German fit a narrow window too. */
async function checkGerman() {
  const context = await openContext({ locale: "de-DE", viewport: { width: 320, height: 800 } });
  const page = await context.newPage();
  await signIn(page, keys.admin);
  for (const path of ["/create-knowledge-base", "/knowledge-bases/default/settings", "/knowledge-bases/default/index", "/agents", "/agents/a"]) {
    await moveTo(page, path);
    await checkScreen(page, `german${path.replaceAll("/", "-")}`, "light", 320);
  }
  report.german = await page.locator("main").innerText();
  await context.close();
}

async function changeWithVersions(page) {
  await moveTo(page, base);
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByTestId("body").waitFor();
  report.unchangedButton = await page.getByRole("button", { name: "Save" }).isDisabled();
  await page.getByLabel("Enforced metadata").fill("{broken");
  report.brokenButton = await page.getByRole("button", { name: "Save" }).isDisabled();
  await page.getByLabel("Enforced metadata").fill('{"department": "hr"}');
  await page.getByLabel("Description", { exact: true }).fill("First");
  await call(page, "PATCH", base, { description: "Second" });
  report.stale = await sendBy(page, "PATCH", () => page.getByRole("button", { name: "Save" }).click());
  await page.getByRole("button", { name: "Load again" }).click();
  await page.waitForFunction(() => [...document.querySelectorAll("textarea")].some(({ value }) => value === "Second"));
  report.keptByStale = await page.getByLabel("Enforced metadata").inputValue();
  await page.getByText("Searches", { exact: true }).click();
  await page.getByLabel("top_k").fill("9");
  report.saved = await sendBy(page, "PATCH", () => page.getByRole("button", { name: "Save" }).click());
  await page.getByText("Saved.").waitFor();
}

async function waitForIndex(page, holds) {
  for (;;) {
    const item = await (await call(page, "GET", base)).json();
    if (holds(item)) return item;
    await page.waitForTimeout(200);
  }
}

async function reindexAndRollBack(page) {
  await call(page, "POST", `${base}/documents?wait=30`, { text: "A text about leave.\n\nAnother about travel." });
  await moveTo(page, `${base}/index`);
  await page.getByTestId("body").waitFor();
  await page.getByText("Chunking", { exact: true }).last().click();
  await page.getByLabel("max_tokens").fill("120");
  report.reindexed = await sendBy(page, "POST", () => page.getByRole("button", { name: "Start a reindex" }).click());
  await waitForIndex(page, (item) => item.reindex === null && item.chunking.max_tokens === 120);
  await page.getByRole("button", { name: "Roll back" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
  const item = await waitForIndex(page, ({ chunking }) => chunking.max_tokens !== 120);
  report.rolledBack = item.chunking;
  await inspect(page, "index");
}

async function deleteWithReceipt(page) {
  await moveTo(page, `${base}/settings`);
  await page.getByRole("button", { name: "Delete knowledge base" }).click();
  const dialog = page.getByRole("dialog");
  const confirm = dialog.getByRole("button", { name: "Delete knowledge base" });
  report.deleteBefore = await confirm.isDisabled();
  await checkAs(page, "delete-dialog", "light", 320);
  await dialog.getByRole("textbox").fill(`${name}x`);
  report.deleteOther = await confirm.isDisabled();
  await dialog.getByRole("textbox").fill(name);
  await page.keyboard.press("Enter");
  await page.getByText("0 rows and objects left").waitFor();
  report.receipt = await page.getByTestId("receipt").innerText();
  report.afterDeletion = (await call(page, "GET", base)).status();
  await checkAs(page, "receipt", "light", 320);
  await checkAs(page, "receipt", "dark", 1280);
}

async function checkReader() {
  const context = await openContext();
  const page = await context.newPage();
  await signIn(page, keys.reader);
  const read = async (path) => {
    await moveTo(page, path);
    return page.evaluate(() => document.querySelector("main").innerText);
  };
  report.reader = [await read("/create-knowledge-base"), await read("/knowledge-bases/default/settings")];
  report.readerIndex = await read("/knowledge-bases/default/index");
  report.readerList = await read("/knowledge-bases");
  await context.close();
}

/** Cancel a reindex that cannot go on: the embedding endpoint does not answer. */
async function cancelReindex(page) {
  await moveTo(page, `${base}/index`, "[data-testid=body]");
  await page.getByText("Chunking", { exact: true }).last().click();
  await page.getByLabel("max_tokens").fill("20");
  await page.getByRole("button", { name: "Start a reindex" }).click();
  await page.getByRole("progressbar", { name: "Reindex" }).waitFor();
  report.progress = await page.getByText(/\d+ of \d+ documents/).innerText();
  await checkAs(page, "index-reindex", "light", 320);
  await checkAs(page, "index-reindex", "dark", 1280);
  await page.getByRole("button", { name: "Cancel the reindex" }).click();
  await page.getByRole("button", { name: "Start a reindex" }).waitFor();
  report.afterCancel = (await (await call(page, "GET", base)).json()).reindex;
}

const context = await openContext();
const page = await context.newPage();
page.setDefaultTimeout(60_000);
await signIn(page, keys.admin);
if (order.cancels) {
  await cancelReindex(page);
  await finish();
  process.exit();
}
await stayOnChangedForm(page);
await describeSource(page);
await createByKeyboard(page);
await changeWithVersions(page);
await reindexAndRollBack(page);
await deleteWithReceipt(page);
await context.close();
await checkReader();
await checkGerman();
await finish();
