// Drive the screens of agents: bind, test conversation, answer with citations, change, delete. Without a model: the error.
import { checkEverywhere, finish, inspect, moveTo, openContext, order, report, settle, signIn } from "./common.mjs";

const { url, keys, agent } = order;
const path = `/agents/${encodeURIComponent(agent)}`;

/** Wait for the next request of a method, and return its body, its If-Match and its reply. */
async function sendBy(page, method, act) {
  const sent = page.waitForRequest((request) => request.method() === method);
  await act();
  const request = await sent;
  const reply = await request.response();
  const text = method === "DELETE" ? "" : await reply.text();
  return { body: request.postData(), ifMatch: await request.headerValue("if-match"), status: reply.status(), text };
}

async function bind(page) {
  await page.getByRole("link", { name: "Agents" }).click();
  await page.getByText("No agent has a binding").waitFor();
  await checkEverywhere(page, "agents-none");
  await page.getByLabel("Id of the agent").fill(agent);
  await page.keyboard.press("Enter");
  await page.getByText("This agent has no binding").waitFor();
  await page.getByLabel("handbook").focus();
  await page.keyboard.press("Space");
  await page.getByLabel("citations").selectOption("prefix");
  const shown = await page.getByTestId("body").textContent();
  report.bound = { shown, ...(await sendBy(page, "PUT", () => page.getByRole("button", { name: "Bind the agent" }).click())) };
  await page.getByText("Saved.").waitFor();
}

async function talk(page) {
  await page.getByLabel("Message 1").fill("What does the transporter cost?");
  await page.getByRole("button", { name: "Add a message" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.tagName === "TEXTAREA");
  await page.keyboard.type("And the deposit of the transporter?");
  await page.getByText("Request", { exact: true }).first().click();
  const shownBody = await page.getByTestId("agent-body").textContent();
  const sent = await sendBy(page, "POST", () => page.getByRole("button", { name: "Search as the agent" }).click());
  await page.getByTestId("agent-reply").waitFor();
  report.talk = { ...sent, shownBody, shownReply: await page.getByTestId("agent-reply").textContent() };
  report.address = new URL(page.url()).searchParams.get("messages");
}

async function readAnswer(page) {
  const sent = page.waitForRequest((request) => request.url().endsWith("/v1/answer"));
  await page.getByRole("button", { name: "Answer" }).click();
  report.answerBody = [(await sent).postData(), await page.getByTestId("answer-body").textContent()];
  await page.getByText(/\d+ read, \d+ written/).waitFor();
  report.answer = await page.getByTestId("answer").innerText();
  await checkEverywhere(page, "agent-answer");
  const link = page.locator(".citations a").first();
  report.sameLink = (await link.getAttribute("href")) === (await page.getByTestId("answer").getByRole("link").first().getAttribute("href"));
  await link.focus();
  await page.keyboard.press("Enter");
  await page.locator(".chunk.chosen").first().waitFor();
  report.cited = await page.locator(".chunk.chosen").first().innerText();
}

async function change(page) {
  await moveTo(page, path, "[data-testid=body]");
  await page.getByLabel("top_k", { exact: true }).last().fill("1");
  report.changed = await sendBy(page, "PATCH", () => page.getByRole("button", { name: "Save" }).click());
  await page.getByText("Saved.").waitFor();
  await settle(page);
  await page.getByRole("button", { name: "Edit as JSON" }).click();
  await page.getByLabel("Body of the request").fill('{"max_top_k": 0}');
  report.refused = await sendBy(page, "PATCH", () => page.getByRole("button", { name: "Save" }).click());
  await page.getByRole("alert").waitFor();
  await checkEverywhere(page, "agent-json");
  await page.getByRole("button", { name: "Delete the binding" }).click();
  const dialog = page.getByRole("dialog");
  report.deleted = await sendBy(page, "DELETE", () => dialog.getByRole("button", { name: "Delete the binding" }).click());
  await page.getByText("This agent has no binding").waitFor();
  await inspect(page, "agent");
}

async function checkReader() {
  const context = await openContext();
  const page = await context.newPage();
  await signIn(page, keys.reader);
  await moveTo(page, path);
  report.reader = await page.evaluate(() => document.querySelector("main").innerText);
  await page.getByLabel("Message 1").fill("transporter");
  await page.getByLabel("Message 1").press("Tab");
  await page.getByRole("button", { name: "Search as the agent" }).press("Enter");
  report.readerReply = JSON.parse(await page.getByTestId("agent-reply").textContent());
  await context.close();
}

async function checkWithoutModel(page) {
  await moveTo(page, path);
  await page.getByLabel("Message 1").fill("transporter");
  const sent = page.waitForRequest((request) => request.url().endsWith("/v1/answer"));
  await page.getByRole("button", { name: "Answer" }).click();
  report.problem = await (await (await sent).response()).json();
  await page.getByRole("alert").waitFor();
  report.alert = await page.getByRole("alert").innerText();
  await checkEverywhere(page, "agent-no-model");
}

const context = await openContext();
const page = await context.newPage();
page.setDefaultTimeout(60_000);
await signIn(page, keys.admin);
if (order.hasModel) {
  await bind(page);
  await talk(page);
  await readAnswer(page);
  await change(page);
  await checkReader();
} else {
  await checkWithoutModel(page);
}
await context.close();
await finish();
