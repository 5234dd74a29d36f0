// Drive the list of documents: windowed rows, filters with live errors, retry, deletion with its receipt, roles.
import { checkEverywhere, finish, openContext, order, report, settle, signIn, moveTo } from "./common.mjs";

const { keys, total } = order;
const base = "/knowledge-bases/default";

const press = async (locator) => {
  await locator.focus();
  await locator.press("Enter");
};

async function scrollToEnd(page) {
  const frame = page.locator(".virtual");
  await frame.focus();
  const last = page.locator(`tr[aria-rowindex="${total + 1}"]`);
  for (let presses = 0; presses < 50 && !(await last.count()); presses += 1) {
    await page.keyboard.press("End");
    await settle(page);
  }
  await last.waitFor();
  report.rows = await page.locator("tbody tr:not(.gap)").count();
  report.rowCount = await page.locator("table").getAttribute("aria-rowcount");
  report.heights = await page.evaluate(() => [...new Set([...document.querySelectorAll("tbody tr:not(.gap)")].map((row) => row.offsetHeight))]);
  report.last = await last.innerText();
}

async function filter(page) {
  const field = page.getByLabel("Filter", { exact: true });
  const refused = page.waitForResponse((reply) => reply.url().includes("filter=") && reply.status() === 422);
  await field.fill('{"group": {"$nope": 1}}');
  report.fault = (await (await refused).json()).errors?.[0]?.msg ?? (await (await refused).json()).detail;
  await page.locator(".document-filters .bad-text").first().waitFor();
  report.shownFault = await page.locator(".document-filters").innerText();
  report.refusedAddress = new URL(page.url()).search;
  await checkEverywhere(page, "documents-filter-fault");
  await field.fill('{"group": "old"}');
  await page.getByText("3 documents found", { exact: true }).waitFor();
  await settle(page);
  report.filterAddress = new URL(page.url()).search;
  report.filtered = await page.locator("tbody tr:not(.gap)").count();
}

async function deleteMatches(page) {
  await press(page.getByRole("button", { name: "Delete what matches" }));
  const dialog = page.getByRole("dialog");
  await dialog.getByText("3 documents match the filter").waitFor();
  await checkEverywhere(page, "documents-delete");
  const sent = page.waitForRequest((request) => request.method() === "DELETE");
  await press(dialog.getByRole("button", { name: "Delete", exact: true }));
  report.deletion = new URL((await sent).url()).search;
  await page.getByText("0 rows and objects left").waitFor();
  await page.getByText("0 documents found").waitFor();
  await checkEverywhere(page, "documents-deleted");
}

async function retry(page) {
  await moveTo(page, `${base}?status=failed`, "tbody tr");
  await press(page.getByRole("button", { name: "Retry failed documents" }));
  await page.getByRole("dialog").getByText("1 document of this knowledge base failed").waitFor();
  const sent = page.waitForResponse((reply) => reply.url().includes("/v1/jobs/retry"));
  await press(page.getByRole("dialog").getByRole("button", { name: "Retry failed documents" }));
  report.retried = await (await sent).json();
  await page.getByText("1 job is due again.").waitFor();
}

async function tick(page) {
  await moveTo(page, base, "tbody tr");
  await page.getByRole("checkbox").first().focus();
  await page.keyboard.press("Space");
  const sent = page.waitForResponse((reply) => reply.url().endsWith("/reindex"));
  await press(page.getByRole("button", { name: "Ingest 1 again" }));
  await press(page.getByRole("dialog").getByRole("button", { name: "Ingest again" }));
  report.reindexed = (await sent).status();
  await page.getByText("1 document is ingested again.").waitFor();
}

async function watch(role) {
  const context = await openContext();
  const page = await context.newPage();
  await signIn(page, keys[role]);
  await moveTo(page, base, "tbody tr");
  report[role] = {
    boxes: await page.locator("tbody").getByRole("checkbox").count(),
    buttons: await page.locator("main").getByRole("button").allInnerTexts(),
  };
  await context.close();
}

const context = await openContext();
const page = await context.newPage();
page.setDefaultTimeout(30_000);
await signIn(page, keys.admin);
await moveTo(page, base, "tbody tr");
await scrollToEnd(page);
await checkEverywhere(page, "documents-end");
await filter(page);
await deleteMatches(page);
await retry(page);
await tick(page);
await context.close();
await watch("writer");
await watch("reader");
await finish();
