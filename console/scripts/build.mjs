// Build the bundle into app/api/console/static: files with a hash in their names, and manifest.json.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(root, "../app/api/console/static");
const MAX_GZIP_BYTES = 120 * 1024;

const result = await build({
  absWorkingDir: root,
  entryPoints: { console: "src/main.tsx" },
  outdir: target,
  bundle: true,
  charset: "utf8",
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  minify: true,
  target: ["es2022", "chrome110", "firefox110", "safari16.4"],
  write: false,
});

const files = new Map();
for (const { path, contents } of result.outputFiles) files.set(path.endsWith(".css") ? "style" : "script", contents);
files.set("icon", await readFile(join(root, "src/icon.svg")));

const extensions = { script: "js", style: "css", icon: "svg" };
const manifest = { page: {}, files: {} };
await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
let gzipBytes = 0;
for (const kind of ["icon", "script", "style"]) {
  const contents = files.get(kind);
  const digest = createHash("sha256").update(contents).digest("hex");
  const name = `${kind === "icon" ? "icon" : "console"}-${digest.slice(0, 12)}.${extensions[kind]}`;
  manifest.page[kind] = name;
  manifest.files[name] = { bytes: contents.length, sha256: digest };
  gzipBytes += gzipSync(contents, { level: 9 }).length;
  await writeFile(join(target, name), contents);
}
await writeFile(join(target, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`);
console.log(`${Object.keys(manifest.files).length} files, ${gzipBytes} bytes with gzip`);
if (gzipBytes > MAX_GZIP_BYTES) {
  console.error(`The bundle is larger than ${MAX_GZIP_BYTES} bytes with gzip.`);
  process.exit(1);
}
