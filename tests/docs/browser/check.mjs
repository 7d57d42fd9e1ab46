// Looks at each page of the built site as a reader does, and prints what is wrong:
//   node tests/docs/browser/check.mjs build/site [PAGE...]
// At 1280 and 390 px, light and dark: nothing is wider than the window, all pictures are there, no error, no request
// to another host; and no violation of axe. Exit code 1 if anything is wrong.
import { readFile, readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const [root, ...chosen] = process.argv.slice(2);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TYPES = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".json": "application/json" };
// Levels A and AA; what axe calls best practice is a matter of the theme.
const WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const VIEWS = [
  { width: 1280, height: 900, colorScheme: "light" },
  { width: 390, height: 844, colorScheme: "dark" },
];

const server = createServer(async (request, response) => {
  const name = decodeURIComponent(new URL(request.url, "http://site").pathname);
  const file = path.join(root, name.endsWith("/") ? `${name}index.html` : name);
  try {
    const body = await readFile(file);
    response.writeHead(200, { "content-type": TYPES[path.extname(file)] ?? "application/octet-stream" }).end(body);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const site = `http://127.0.0.1:${server.address().port}`;

const pages = (await readdir(root, { recursive: true }))
  .filter((name) => name.endsWith("index.html"))
  .map((name) => `/${name.slice(0, -"index.html".length)}`)
  .filter((name) => chosen.length === 0 || chosen.includes(name))
  .sort();
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const wrong = [];
for (const { width, height, colorScheme } of VIEWS) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme });
  const tab = await context.newPage();
  let here = "";
  const tell = (what) => wrong.push(`${here} at ${width} px, ${colorScheme}: ${what}`);
  tab.on("request", (request) => request.url().startsWith(site) || request.url().startsWith("data:") || tell(`asks ${request.url()}`));
  tab.on("console", (message) => message.type() === "error" && tell(`says ${message.text()}`));
  tab.on("pageerror", (error) => tell(`fails: ${error.message}`));
  for (here of pages) {
    await tab.goto(site + here, { waitUntil: "load" });
    const found = await tab.evaluate(() => ({
      width: document.documentElement.scrollWidth - window.innerWidth,
      pictures: [...document.images].filter((image) => !image.complete || image.naturalWidth === 0).map((image) => image.src),
    }));
    if (found.width > 0) tell(`is ${found.width} px too wide`);
    for (const picture of found.pictures) tell(`lacks ${picture}`);
    await tab.evaluate(axe);
    const { violations } = await tab.evaluate((tags) => window.axe.run(document, { runOnly: tags, resultTypes: ["violations"] }), WCAG);
    for (const { id, nodes } of violations) {
      const [{ target, failureSummary }] = nodes;
      tell(`${id} (${nodes.length} times, first ${target.join(" ")}): ${failureSummary.replaceAll(/\s+/g, " ")}`);
    }
  }
  await context.close();
}
await browser.close();
server.close();
console.log(wrong.join("\n"));
console.log(`${pages.length} pages, ${wrong.length} things wrong`);
process.exitCode = wrong.length > 0 || pages.length === 0 ? 1 : 0;
