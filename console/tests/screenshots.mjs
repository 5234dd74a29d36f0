// Take the screenshots of the documentation. Input besides that of common.mjs: directory, and shots, a list of
// {name, path, selector, top}. A picture begins at the element `top`, or at the head of the page.
import { join } from "node:path";
import { finish, moveTo, openContext, order, signIn } from "./common.mjs";

const context = await openContext({ colorScheme: "light", viewport: { width: 1280, height: 800 } });
const page = await context.newPage();
await signIn(page, order.keys.admin);
for (const { name, path, selector, top } of order.shots) {
  await moveTo(page, path, selector);
  if (top) await page.locator(top).first().evaluate((element) => element.scrollIntoView({ block: "start" }));
  await page.screenshot({ path: join(order.directory, `${name}.png`) });
}
await context.close();
await finish();
