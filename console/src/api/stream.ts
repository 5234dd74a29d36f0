// Server-sent events by `fetch`, which can send the key in a header.
import { ApiError, openStream, type RequestOptions } from "./client";

export interface ServerEvent {
  id: string | null;
  event: string;
  data: string;
}

const PAUSE_MS = 2_000;

/** Call `onEvent` for each event of a reply, until the reply ends. */
export async function readEvents(path: string, options: RequestOptions, onEvent: (event: ServerEvent) => void): Promise<void> {
  const stream = await openStream(path, options);
  const reader = stream.pipeThrough<string>(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event) onEvent(event);
    }
  }
}

/** Follow a stream until `signal` aborts. A broken connection is opened again after the last event that came. */
export async function followEvents(
  path: string,
  options: RequestOptions & { signal: AbortSignal },
  onEvent: (event: ServerEvent) => void,
): Promise<void> {
  let lastEventId: string | undefined;
  while (!options.signal.aborted) {
    try {
      await readEvents(path, { ...options, lastEventId }, (event) => {
        lastEventId = event.id ?? lastEventId;
        onEvent(event);
      });
    } catch (error) {
      if (options.signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

function parseEvent(block: string): ServerEvent | null {
  const event: ServerEvent = { id: null, event: "message", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    if (name === "event") event.event = value;
    if (name === "id") event.id = value;
  }
  event.data = data.join("\n");
  return data.length ? event : null;
}
