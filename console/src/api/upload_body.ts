// The body of an upload. The same file with the same fields makes the same bytes, as a retry with the same
// `Idempotency-Key` needs. A `FormData` would get another boundary each time.

const LINE_END = "\r\n";

/** Return a random key for a write. `crypto.randomUUID` is missing on pages without TLS. */
export function createKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Build a form with text fields and a file. The file is read while it is sent. */
export function buildForm(fields: Record<string, string>, file: File, boundary: string): Blob {
  const parts: BlobPart[] = [];
  for (const [name, value] of Object.entries(fields)) {
    parts.push(`--${boundary}${LINE_END}Content-Disposition: form-data; name="${name}"${LINE_END}${LINE_END}${value}${LINE_END}`);
  }
  const type = file.type || "application/octet-stream";
  parts.push(
    `--${boundary}${LINE_END}Content-Disposition: form-data; name="file"; filename="${escapeName(file.name)}"${LINE_END}`,
    `Content-Type: ${type}${LINE_END}${LINE_END}`,
    file,
    `${LINE_END}--${boundary}--${LINE_END}`,
  );
  return new Blob(parts, { type: `multipart/form-data; boundary=${boundary}` });
}

/** Escape a file name as browsers do (WHATWG HTML, multipart/form-data). */
function escapeName(name: string): string {
  return name.replaceAll("\n", "%0A").replaceAll("\r", "%0D").replaceAll('"', "%22");
}
