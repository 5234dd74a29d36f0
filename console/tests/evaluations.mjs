// Drive the screens of golden sets and evaluations: create, add, remove, run, compare, delete.
import { checkEverywhere, finish, moveTo, openContext, order, report, settle, signIn } from "./common.mjs";

const { keys, document, query } = order;

/** Wait for the next request of a method, and return its body and its reply. */
async function sendBy(page, method, act) {
  const sent = page.waitForRequest((request) => request.method() === method);
  await act();
  const request = await sent;
  const reply = await request.response();
  return { body: request.postData(), status: reply.status(), reply: method === "DELETE" ? null : await reply.json() };
}

const press = async (locator) => {
  await locator.focus();
  await locator.press("Enter");
};

async function fillSet(page) {
  await press(page.getByRole("link", { name: "Golden sets" }));
  await page.getByText("No golden sets").waitFor();
  await checkEverywhere(page, "golden-sets-none");
  await page.getByLabel("Name").fill(order.name);
  report.created = await sendBy(page, "POST", () => page.keyboard.press("Enter"));
  await page.getByText("No items").waitFor();
  await page.getByLabel("Query", { exact: true }).last().fill(query);
  await page.getByLabel("Relevant").fill(`${document}\n${document} ${order.chunk}`);
  const shown = await page.getByTestId("body").textContent();
  report.added = { shown, ...(await sendBy(page, "POST", () => press(page.getByRole("button", { name: "Add", exact: true })))) };
  await page.getByText("The item is saved.").waitFor();
  await page.getByLabel("Conversation").check();
  await page.getByRole("textbox", { name: "Conversation" }).fill("user: What does a transporter cost?\nassistant: 90 euros.\nuser: And its deposit?");
  await page.getByLabel("Relevant").fill("doc_01h455vb4pex5vsknk084sn02q");
  report.refused = await sendBy(page, "POST", () => press(page.getByRole("button", { name: "Add", exact: true })));
  report.alert = await page.getByRole("alert").innerText();
  await page.getByLabel("Relevant").fill(document);
  report.talk = await sendBy(page, "POST", () => press(page.getByRole("button", { name: "Add", exact: true })));
  await page.getByText("2 items").waitFor();
  await settle(page);
  await checkEverywhere(page, "golden-set");
  report.links = await page.locator("td a[href*=documents]").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
}

async function removeItem(page) {
  const button = page.getByRole("button", { name: `Remove ${order.chunk} from` });
  report.removedRelevant = await sendBy(page, "DELETE", () => press(button));
  await page.getByText("no longer relevant").waitFor();
  await button.waitFor({ state: "detached" });
  report.removed = await sendBy(page, "DELETE", () => press(page.getByRole("button", { name: "Remove the item “And its deposit?”" })));
  await page.getByText("1 item", { exact: true }).waitFor();
  await settle(page);
}

async function evaluate(page) {
  await press(page.getByRole("link", { name: "Evaluations" }).last());
  await page.getByText("No evaluations").waitFor();
  await page.getByLabel("Template for setting 1").selectOption("hybrid");
  await page.getByLabel("Setting 2", { exact: true }).fill("[");
  await page.getByText("This is not a JSON object.").first().waitFor();
  report.canStart = await page.getByRole("button", { name: "Start" }).isEnabled();
  await page.getByLabel("Template for setting 2").selectOption("lexical");
  await checkEverywhere(page, "evaluations-form");
  const shown = await page.getByTestId("body").textContent();
  report.started = { shown, ...(await sendBy(page, "POST", () => press(page.getByRole("button", { name: "Start" })))) };
  await page.getByText("Done").first().waitFor();
  await settle(page);
  report.figures = await page.getByRole("region", { name: "Figures" }).innerText();
  await checkEverywhere(page, "evaluation");
  await page.getByLabel("Change").selectOption("all");
  await page.getByRole("region", { name: "Queries" }).waitFor();
  await settle(page);
  report.address = new URL(page.url()).search;
  await checkEverywhere(page, "evaluation-queries");
  report.playground = await page.getByRole("link", { name: "with setting 2" }).getAttribute("href");
  await press(page.getByRole("link", { name: "with setting 2" }));
  await page.locator(".hit").first().waitFor();
  await page.goBack();
  await page.getByRole("region", { name: "Queries" }).waitFor();
}

async function deleteAll(page) {
  await press(page.getByRole("button", { name: "Delete the evaluation" }));
  const dialog = page.getByRole("dialog");
  report.deleted = await sendBy(page, "DELETE", () => press(dialog.getByRole("button", { name: "Delete the evaluation" })));
  await page.getByText("No evaluations").waitFor();
  await moveTo(page, `/golden-sets/${report.created.reply.id}`);
  await press(page.getByRole("button", { name: "Delete the golden set" }));
  report.deletedSet = await sendBy(page, "DELETE", () => press(page.getByRole("dialog").getByRole("button", { name: "Delete the golden set" })));
  await page.getByText("No golden sets").waitFor();
}

async function checkReader() {
  const context = await openContext();
  const page = await context.newPage();
  await signIn(page, keys.reader);
  report.reader = [];
  for (const path of ["/golden-sets", "/golden-sets/gold_x", "/evaluations", "/evaluations/eval_x"]) {
    await moveTo(page, path);
    report.reader.push(await page.evaluate(() => document.querySelector("main").innerText));
  }
  report.readerLinks = await page.getByRole("navigation", { name: "Main" }).innerText();
  await context.close();
}

const context = await openContext();
const page = await context.newPage();
page.setDefaultTimeout(60_000);
await signIn(page, keys.writer);
await fillSet(page);
await removeItem(page);
await evaluate(page);
await deleteAll(page);
await context.close();
await checkReader();
await finish();
