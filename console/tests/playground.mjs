// The playground: bodies and replies of many settings, a comparison, a conversation, copies, and a golden set.
import { checkScreen, finish, inspect, moveTo, openContext, order, report, settle, signIn } from "./common.mjs";

const { url, keys, settings, conversation } = order;

const isSearch = (request) => request.method() === "POST" && request.url().endsWith("/search");
const readTexts = (page, ids) =>
  page.evaluate((names) => names.map((id) => document.querySelector(`[data-testid=${id}]`)?.textContent ?? null), ids);

/** Open an address, and return the bodies and replies on the wire beside those on the screen. */
async function runAddress(page, address, suffixes = [""]) {
  const seen = [];
  const note = (response) => isSearch(response.request()) && seen.push(response);
  page.on("response", note);
  await moveTo(page, address);
  await page.locator(".search-reply :is([data-testid^=reply], [role=alert])").nth(suffixes.length - 1).waitFor({ state: "attached" });
  page.off("response", note);
  const wire = await Promise.all(
    seen.map(async (response) => ({
      url: response.url().slice(url.length),
      body: response.request().postData(),
      status: response.status(),
      reply: await response.text(),
    })),
  );
  const shownBodies = await readTexts(page, suffixes.map((suffix) => `body${suffix}`));
  const shownReplies = await readTexts(page, suffixes.map((suffix) => `reply${suffix}`));
  const alerts = await page.locator("[role=alert]").allInnerTexts();
  return { wire, shownBodies, shownReplies, alerts };
}

async function runSettings(page) {
  report.runs = [];
  for (const address of settings) {
    await moveTo(page, "/jobs");
    report.runs.push(await runAddress(page, address));
  }
}

/** Compare two columns, which the person opens and changes with the form. */
async function compare(page) {
  await moveTo(page, "/search?q=deposit+of+a+transporter&kb=handbook&strategy=lexical&top_k=2", ".hit");
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByRole("group", { name: "Settings B" }).getByLabel("top_k").fill("4");
  await page.getByRole("group", { name: "Settings B" }).getByLabel("Strategy", { exact: true }).selectOption("dense");
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.locator("[data-testid=reply-2]").waitFor({ state: "attached" });
  await settle(page);
  report.compared = await runAddress(page, page.url().slice(url.length) + "&again=1", ["", "-2"]);
  report.marks = await page.locator(".search-reply .badge").allInnerTexts();
  report.lines = await page.locator(".search-lines line").count();
  report.words = await page.locator(".hit mark").allInnerTexts();
  report.address = page.url().slice(url.length);
  await inspect(page, "compared");
}

/** Mark a result as relevant in a new golden set. */
async function markRelevant(page) {
  await page.getByRole("button", { name: "Mark as relevant" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name of the golden set").fill("From the playground");
  const sent = page.waitForResponse((response) => response.url().endsWith("/items"));
  await dialog.getByRole("button", { name: "Mark as relevant" }).click();
  const response = await sent;
  report.relevant = { status: response.status(), body: response.request().postData() };
  await page.getByRole("button", { name: "Marked as relevant" }).first().waitFor();
}

/** Make a conversation with the form, and read what the buttons copy. */
async function converse(page) {
  await moveTo(page, "/search", "form");
  await page.getByLabel("Search for").selectOption("messages");
  for (const [index, { role, content }] of conversation.entries()) {
    if (index) await page.getByRole("button", { name: "Add a message" }).click();
    await page.getByLabel("Role").nth(index).selectOption(role);
    await page.getByLabel(`Message ${index + 1}`, { exact: true }).fill(content);
  }
  await page.getByRole("button", { name: "Add a message" }).click();
  await page.getByRole("button", { name: `Remove message ${conversation.length + 1}` }).click();
  await page.getByLabel("Knowledge base").selectOption("handbook");
  const sent = page.waitForResponse((response) => isSearch(response.request()));
  await page.getByRole("button", { name: "Search", exact: true }).click();
  const response = await sent;
  await page.locator("[data-testid=reply]").waitFor({ state: "attached" });
  const [shownBody, shownReply] = await readTexts(page, ["body", "reply"]);
  report.conversation = { body: response.request().postData(), shownBody, reply: await response.text(), shownReply };
  report.copies = {};
  for (const name of ["Copy as curl", "Copy as Python", "Copy as agent"]) {
    await page.getByRole("button", { name }).click();
    report.copies[name] = await page.evaluate(() => navigator.clipboard.readText());
  }
}

async function checkScreens(address) {
  for (const theme of ["light", "dark"]) {
    for (const width of [320, 1280]) {
      const context = await openContext({ colorScheme: theme, viewport: { width, height: 900 } });
      const page = await context.newPage();
      await signIn(page, keys.admin);
      await moveTo(page, address, '[data-column="1"] .hit');
      await checkScreen(page, "playground-compared", theme, width);
      await page.getByText("More settings").first().click();
      await checkScreen(page, "playground-settings", theme, width);
      await moveTo(page, `/search?messages=${encodeURIComponent(JSON.stringify(conversation))}&kb=handbook`, ".hit");
      await checkScreen(page, "playground-conversation", theme, width);
      await context.close();
    }
  }
}

const context = await openContext({ permissions: ["clipboard-read", "clipboard-write"], viewport: { width: 1280, height: 900 } });
const page = await context.newPage();
await signIn(page, keys.admin);
await runSettings(page);
await compare(page);
await markRelevant(page);
await converse(page);
await inspect(page, "playground");
await context.close();
const reading = await openContext();
const reader = await reading.newPage();
await signIn(reader, keys.reader);
await moveTo(reader, report.address, ".hit");
report.readerMarks = await reader.getByRole("button", { name: "Mark as relevant" }).count();
await reading.close();
await checkScreens(report.address);
await finish();
