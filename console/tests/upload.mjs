// Upload in Chromium: choose, drop, preview, send, follow, fail, retry, leave. Standard input also has {files, folder}.
import { checkScreen, finish, inspect, moveTo, openContext, order, report, settle, signIn } from "./common.mjs";

const { keys, files, folder } = order;
const UPLOAD = "/knowledge-bases/default/upload";
const row = (page, name) => page.locator("tbody tr", { has: page.getByRole("rowheader", { name, exact: true }) });

async function openUpload(key, options = {}) {
  const context = await openContext(options);
  const page = await context.newPage();
  await signIn(page, key);
  await moveTo(page, UPLOAD, key === keys.reader ? ".state" : ".drop");
  return { context, page };
}

/** Choose files by the fields and by a drop, send them, and wait until each is ready or failed. */
async function checkSending() {
  const { context, page } = await openUpload(keys.writer);
  await page.getByLabel("Choose files").setInputFiles([files.handbook, files.broken]);
  await page.getByLabel("Choose files").setInputFiles([files.handbook]);
  report.skipped = await page.getByText("1 file is in the list already.").isVisible();
  await page.getByLabel("Choose a folder").setInputFiles(folder);
  await dropFolder(page);
  report.paths = await page.locator("tbody th").allInnerTexts();
  await page.getByLabel("Title of handbook.pdf").fill("<b>Staff</b> handbook");
  await page.getByLabel("Metadata").fill("[]");
  report.invalidMetadata = await page.getByText("This is not a JSON object.").isVisible();
  report.sendIsOff = await page.getByRole("button", { name: /^Send/ }).isDisabled();
  await page.getByLabel("Metadata").fill('{"department": "hr"}');
  await page.getByLabel("A later upload of the same path").check();
  report.requests = countUploads(page);
  await page.getByRole("button", { name: /^Send/ }).click();
  await row(page, "handbook.pdf").getByText("Ready", { exact: true }).waitFor();
  await row(page, "broken.pdf").getByText("Failed", { exact: true }).waitFor();
  await page.getByText("In progress: 0").waitFor();
  report.summary = await page.getByText(/^\d+ files, /).innerText();
  report.failure = await row(page, "broken.pdf").locator("td.wide").innerText();
  await checkScreen(page, "upload-done", "light", 1280);
  await retryIngestion(page);
  await row(page, "handbook.pdf").getByRole("link").click();
  await settle(page);
  report.opened = await page.getByRole("heading", { level: 1 }).innerText();
  await inspect(page, "upload");
  await context.close();
}

/** Drop a folder as a person does: the browser itself reads it from the disk. */
async function dropFolder(page) {
  const box = await page.locator(".drop").boundingBox();
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files: [folder], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"]) {
    await session.send("Input.dispatchDragEvent", { type, x: box.x + 20, y: box.y + 20, data });
  }
  await page.getByText(/files are in the list already|file is in the list already/).waitFor();
  report.dropped = await page.locator(".notice").innerText();
}

/** Count the uploads that are under way at the same time, and collect their keys. */
function countUploads(page) {
  const seen = { most: 0, keys: [] };
  let running = 0;
  const isUpload = (request) => request.method() === "POST" && request.url().endsWith("/documents");
  page.on("request", (request) => {
    if (!isUpload(request)) return;
    seen.keys.push(request.headers()["idempotency-key"]);
    seen.most = Math.max(seen.most, ++running);
  });
  for (const event of ["requestfinished", "requestfailed"]) page.on(event, (request) => isUpload(request) && running--);
  return seen;
}

async function retryIngestion(page) {
  const reply = page.waitForResponse((response) => response.url().endsWith("/reindex"));
  await row(page, "broken.pdf").getByRole("button", { name: "Try again" }).click();
  report.retried = (await reply).status();
  await row(page, "broken.pdf").getByText("Failed", { exact: true }).waitFor();
}

/** An upload whose connection breaks is sent again with the same key and the same bytes. */
async function checkRejection() {
  const { context, page } = await openUpload(keys.writer);
  const sent = [];
  await page.route("**/documents", async (route) => {
    const request = route.request();
    if (request.method() !== "POST") return route.continue();
    sent.push([request.headers()["idempotency-key"], request.headers()["content-type"]]);
    if (sent.length > 1) return route.continue();
    // The service does the work, and its reply is lost.
    report.lostReply = (await route.fetch()).status();
    await route.abort();
  });
  await page.getByLabel("Choose files").setInputFiles([files.note]);
  await page.getByRole("button", { name: "Send 1 file" }).click();
  await row(page, "note.md").getByText("Not accepted").waitFor();
  report.rejection = await row(page, "note.md").locator("td.wide").innerText();
  const second = page.waitForResponse((response) => response.request().method() === "POST");
  await row(page, "note.md").getByRole("button", { name: "Try again" }).click();
  report.replayed = (await second).headers()["idempotent-replayed"];
  await row(page, "note.md").getByText("Ready", { exact: true }).waitFor();
  report.attempts = sent.slice(0, 2);
  await page.getByLabel("Choose files").setInputFiles([files.empty]);
  await page.getByRole("button", { name: "Send 1 file" }).click();
  await row(page, "empty.txt").getByText("Not accepted").waitFor();
  report.empty = await row(page, "empty.txt").locator("td.wide").innerText();
  await page.getByLabel("Choose a folder").setInputFiles(folder);
  await context.setOffline(true);
  await page.getByRole("button", { name: "Send 3 files" }).click();
  await page.getByText("The service does not answer").nth(2).waitFor();
  await context.setOffline(false);
  await page.getByRole("button", { name: "Send 4 files again" }).click();
  await page.getByText("Ready: 4. Failed: 1.").waitFor();
  await context.close();
}

/** A long list shows a part, and what failed stands first in it. */
async function checkLongList() {
  const { context, page } = await openUpload(keys.writer);
  const many = Array.from({ length: 150 }, (_, index) => ({
    name: `file-${index}.md`,
    mimeType: "text/markdown",
    buffer: Buffer.from(`# File ${index}`),
  }));
  await page.getByLabel("Choose files").setInputFiles(many);
  report.shownRows = [await page.locator("tbody tr").count()];
  await page.getByRole("button", { name: "Show 50 more" }).click();
  report.shownRows.push(await page.locator("tbody tr").count());
  await page.getByRole("button", { name: "Remove file-0.md" }).click();
  await page.route("**/documents", (route) => {
    if (route.request().method() !== "POST") return route.continue();
    return route.fulfill({ status: 429, body: '{"type": "urn:carrel:problem:quota_exceeded", "detail": "The quota is used up."}' });
  });
  await page.getByLabel("Choose files").setInputFiles([files.note]);
  await page.getByRole("button", { name: "Send 150 files" }).click();
  await page.getByText("Failed: 150.").waitFor();
  report.refusal = await row(page, "note.md").locator("td.wide").innerText();
  await page.unroute("**/documents");
  await row(page, "note.md").getByRole("button", { name: "Try again" }).click();
  await row(page, "note.md").getByText("Ready", { exact: true }).waitFor();
  report.lastRow = await page.locator("tbody th").last().innerText();
  await context.close();
}

/** Leaving with unsent files asks: by a link, by the back button, by signing out. */
async function checkLeaving() {
  const { context, page } = await openUpload(keys.writer, { colorScheme: "dark", viewport: { width: 320, height: 800 } });
  await page.getByLabel("Choose files").setInputFiles([files.note]);
  const dialog = page.getByRole("dialog");
  const stays = async (go) => {
    await go();
    await dialog.waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    return page.url().endsWith(UPLOAD) && (await page.locator("tbody tr").count()) === 1;
  };
  report.stays = [
    await stays(() => page.getByRole("link", { name: "Overview" }).click()),
    await stays(() => page.goBack()),
    await stays(() => page.getByRole("button", { name: "Sign out" }).click()),
  ];
  await page.getByRole("link", { name: "Overview" }).click();
  await checkScreen(page, "upload-leave", "dark", 320);
  await dialog.getByRole("button", { name: "Leave" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await moveTo(page, UPLOAD, ".drop");
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await context.close();
}

/** Preview a file with one chunking, then with two, by keyboard, and compare figures and texts with the replies. */
async function checkPreview() {
  const { context, page } = await openUpload(keys.writer);
  await page.getByLabel("Choose files").setInputFiles([files.handbook, files.payload, files.broken]);
  report.previews = [];
  page.on("response", async (response) => {
    if (response.url().endsWith("/v1/preview") && response.ok()) report.previews.push(await response.json());
  });
  await page.getByRole("button", { name: "Preview handbook.pdf" }).press("Enter");
  await page.locator(".preview-columns .chunk").first().waitFor();
  report.previewFocus = await page.evaluate(() => document.activeElement.className);
  report.previewTexts = await page.locator(".chunk .text").allTextContents();
  report.previewFacts = await page.locator(".preview .facts").innerText();
  await page.getByRole("group", { name: "Compare with" }).getByLabel("Chunker").selectOption("sentence");
  await page.getByLabel("sentences", { exact: true }).fill("3");
  await page.getByLabel("sentences", { exact: true }).press("Enter");
  await page.getByRole("heading", { name: "Chunks: sentence" }).waitFor();
  await page.getByRole("table").filter({ hasText: "Median" }).waitFor();
  report.comparison = await page.getByRole("table").filter({ hasText: "Median" }).locator("tbody tr").allInnerTexts();
  report.inBoth = await page.locator(".chunk").filter({ hasText: "In both" }).count();
  report.previewAddress = decodeURIComponent(new URL(page.url()).search);
  await checkScreen(page, "upload-compare", "light", 1280);
  await page.setViewportSize({ width: 320, height: 800 });
  await checkScreen(page, "upload-compare", "light", 320);
  await page.emulateMedia({ colorScheme: "dark" });
  await checkScreen(page, "upload-compare", "dark", 320);
  await page.setViewportSize({ width: 1280, height: 800 });
  await checkScreen(page, "upload-compare", "dark", 1280);
  await page.getByRole("button", { name: "Preview <img" }).click();
  await page.locator(".chunk .text", { hasText: "<img src=x" }).first().waitFor();
  await inspect(page, "preview of a payload");
  await page.getByRole("button", { name: "Preview broken.pdf" }).click();
  await page.getByText("The file is damaged and cannot be read.").first().waitFor();
  await page.getByLabel("sentences", { exact: true }).fill("99");
  await page.getByRole("button", { name: "Preview handbook.pdf" }).click();
  await page.getByRole("button", { name: "Preview with these" }).click();
  await page.locator(".field-note", { hasText: "Input should be less than or equal to 20." }).waitFor();
  report.invalidOption = await page.locator(".field", { has: page.getByLabel("sentences", { exact: true }) }).innerText();
  await page.getByRole("button", { name: "Close" }).click();
  report.closed = await page.locator(".preview").count();
  await context.close();
}

async function checkReader() {
  const { context, page } = await openUpload(keys.reader);
  report.reader = await page.locator("main").innerText();
  await moveTo(page, "/knowledge-bases/default");
  report.readerSeesLink = await page.getByRole("link", { name: "Upload" }).isVisible();
  await context.close();
}

async function checkLooks() {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [320, 1280]) {
      const { context, page } = await openUpload(keys.writer, { colorScheme, viewport: { width, height: 800 } });
      await checkScreen(page, "upload-none", colorScheme, width);
      await page.getByLabel("Choose files").setInputFiles(Object.values(files));
      await checkScreen(page, "upload-chosen", colorScheme, width);
      await context.close();
    }
  }
  const { context, page } = await openUpload(keys.writer, { locale: "de-DE", viewport: { width: 320, height: 800 } });
  await page.getByLabel("Dateien wählen").setInputFiles(Object.values(files));
  await page.getByRole("button", { name: "Vorschau von handbook.pdf" }).click();
  await page.locator(".preview-columns .chunk").first().waitFor();
  await checkScreen(page, "upload-german", "light", 320);
  await context.close();
}

await checkSending();
await checkRejection();
await checkLongList();
await checkLeaving();
await checkPreview();
await checkReader();
await checkLooks();
await finish();
