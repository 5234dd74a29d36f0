// One document in Chromium: tree and chunks, pages, download, edit, delete. Standard input also has {path, chunk, line, crossing}.
import { checkScreen, finish, inspect, moveTo, openContext, order, report, settle, signIn } from "./common.mjs";
import { readFileSync } from "node:fs";

const { keys, path, chunk, line, crossing } = order;
const OF_CHUNK = ".node.of-chunk a";

async function openDocument(key, target, selector = ".document-tree a", options = {}) {
  const context = await openContext(options);
  const page = await context.newPage();
  await signIn(page, key);
  await moveTo(page, target, selector);
  return { context, page };
}

/** Choose a chunk and see its node; choose that node by keyboard and see its chunks. */
async function checkTree() {
  const { context, page } = await openDocument(keys.writer, path);
  await page.locator(`.chunks a[href*="${chunk}"]`).click();
  await page.locator(OF_CHUNK).waitFor();
  report.nodeOfChunk = new URL(await page.locator(OF_CHUNK).getAttribute("href"), page.url()).searchParams.get("node");
  await settle(page);
  await checkScreen(page, "document-tree", "light", 1280);
  const reply = page.waitForResponse((response) => response.url().includes("/chunks?") && response.url().includes("node="));
  await page.locator(OF_CHUNK).focus();
  await page.keyboard.press("Enter");
  report.chunksOfNode = (await (await reply).json()).items.map(({ id }) => id);
  await page.getByRole("heading", { name: "Chunks of the chosen part" }).waitFor();
  await settle(page);
  report.listed = await page.locator(".chunks .chunk-head a").evaluateAll((links) => links.map((link) => new URL(link.href).searchParams.get("chunk")));
  report.isScrolled = await page.locator(".chunks").evaluate((list) => list.getBoundingClientRect().top < window.innerHeight);
  report.currentNodes = await page.locator(".document-tree a[aria-current]").count();
  const root = page.locator(".document-tree .node-toggle").first();
  await root.press("Enter");
  report.closed = (await root.getAttribute("aria-expanded")) === "false" && (await page.locator(".document-tree .node").count()) === 1;
  await context.close();
}

/** The chosen chunk has an image of each of its pages, and each of its lines a box. */
async function checkPages() {
  const options = { colorScheme: "dark", viewport: { width: 320, height: 800 } };
  const { context, page } = await openDocument(keys.writer, crossing, ".page-image rect", options);
  report.pageImages = await page.locator(".page-image img").count();
  report.rects = await page.locator(".page-image rect").count();
  await checkScreen(page, "document-all-pages", "dark", 320);
  await context.close();
}

/** The text of a line over the image can be selected. */
async function checkText() {
  const { context, page } = await openDocument(keys.reader, `${path}?chunk=${line}`, ".page-image text");
  report.selected = await page.locator(".page-image text").evaluate((element) => {
    getSelection().selectAllChildren(element);
    return getSelection().toString();
  });
  await checkScreen(page, "document-text", "light", 1280);
  await context.close();
}

async function checkDownload() {
  const { context, page } = await openDocument(keys.reader, path);
  const waiting = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download" }).click();
  const download = await waiting;
  report.fileName = download.suggestedFilename();
  report.fileStart = readFileSync(await download.path()).subarray(0, 5).toString();
  report.readerButtons = await page.locator(".actions button").allInnerTexts();
  await inspect(page, "download");
  await context.close();
}

/** Two people edit: the second one learns that the document has changed, loads it again, and saves. */
async function checkEdit() {
  const { context, page } = await openDocument(keys.writer, path);
  const other = await openDocument(keys.writer, path);
  const edit = async (at, metadata) => {
    await at.getByRole("button", { name: "Edit" }).click();
    await at.getByLabel("Metadata").fill(metadata);
    if (metadata.includes("mine")) await checkScreen(at, "document-edit", "light", 1280);
    await at.getByRole("button", { name: "Save" }).click();
  };
  await edit(other.page, '{"by": "<b>other</b>"}');
  await other.page.getByRole("dialog").waitFor({ state: "detached" });
  await edit(page, '{"by": "mine"}');
  report.stale = await page.getByRole("alert").innerText();
  await page.getByRole("button", { name: "Load it again" }).click();
  await page.locator("main pre.code", { hasText: "<b>other</b>" }).waitFor();
  await edit(page, '{"by": "mine again"}');
  await page.locator("main pre.code", { hasText: "mine again" }).waitFor();
  await other.context.close();
  await context.close();
}

async function checkChanges() {
  const { context, page } = await openDocument(keys.writer, path);
  const reindexed = page.waitForResponse((response) => response.url().endsWith("/reindex"));
  await page.getByRole("button", { name: "Ingest again" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Ingest again" }).click();
  report.reindexed = (await reindexed).status();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByTestId("receipt").getByText("0 rows and objects left").waitFor();
  report.receipt = new URL(page.url()).searchParams.get("deletion");
  await checkScreen(page, "document-receipt", "light", 1280);
  await context.close();
}

for (const check of [checkTree, checkPages, checkText, checkDownload, checkEdit, checkChanges]) await check();
await finish();
