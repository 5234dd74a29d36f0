// Files that a person chose: their sending, two at a time, and then the progress of their documents by events.
import { signal } from "@preact/signals";
import { ApiError, request } from "./client";
import type { ChosenFile } from "./file_entries";
import type { DocumentOut } from "./schema";
import { followEvents } from "./stream";
import { buildForm, createKey } from "./upload_body";

const MAX_UPLOADS = 2;
// Browsers open six connections to an origin. Uploads and streams leave two for the other requests of the page.
const MAX_STREAMS = 2;
const FINAL_EVENTS = ["ready", "failed", "deleted"];

export type UploadState =
  | { kind: "chosen" }
  | { kind: "waiting" }
  | { kind: "sending" }
  | { kind: "rejected"; error: ApiError }
  | { kind: "stored"; document: DocumentOut; isKnown: boolean }
  | { kind: "deleted" };

/** Fields that all uploads get. */
export interface CommonFields {
  /** JSON object as text; empty for none. */
  metadata: string;
  /** Whether the path is the `external_id`, so that a later upload of the path replaces the document. */
  pathIsId: boolean;
}

export class UploadItem {
  readonly title = signal("");
  readonly state = signal<UploadState>({ kind: "chosen" });
  /** Fields of the last attempt and its key; an attempt with the same fields has the same key. */
  attempt: { fields: string; key: string } | null = null;

  constructor(
    readonly id: number,
    readonly file: File,
    readonly path: string,
  ) {}

  get isUnsent(): boolean {
    return ["chosen", "waiting", "sending", "rejected"].includes(this.state.value.kind);
  }
}

/** Run tasks, at most `limit` at a time, in the order in which they were added. */
function createLane(limit: number): (task: () => Promise<void>) => void {
  const tasks: (() => Promise<void>)[] = [];
  let running = 0;
  const runNext = () => {
    const task = running < limit ? tasks.shift() : undefined;
    if (!task) return;
    running += 1;
    void task().finally(() => {
      running -= 1;
      runNext();
    });
  };
  return (task) => {
    tasks.push(task);
    runNext();
  };
}

export class UploadQueue {
  readonly items = signal<UploadItem[]>([]);
  private readonly path: string;
  private readonly controller = new AbortController();
  private readonly addUpload = createLane(MAX_UPLOADS);
  private readonly addStream = createLane(MAX_STREAMS);
  private lastId = 0;

  constructor(knowledgeBase: string) {
    this.path = `/v1/knowledge-bases/${encodeURIComponent(knowledgeBase)}/documents`;
  }

  /** Add files, and return how many were left out because the same file is in the list already. */
  add(files: ChosenFile[]): number {
    const name = (path: string, { size, lastModified }: File) => JSON.stringify([path, size, lastModified]);
    const known = new Set(this.items.value.map(({ path, file }) => name(path, file)));
    const fresh = files.filter(({ path, file }) => !known.has(name(path, file)));
    this.items.value = [...this.items.value, ...fresh.map(({ path, file }) => new UploadItem(++this.lastId, file, path))];
    return files.length - fresh.length;
  }

  remove(item: UploadItem): void {
    this.items.value = this.items.value.filter((other) => other !== item);
  }

  /** Send all files that were not sent yet. */
  sendAll(common: CommonFields): void {
    for (const item of this.items.value) if (item.state.value.kind === "chosen") this.send(item, common);
  }

  /** Send all files again that were rejected. */
  resendAll(common: CommonFields): void {
    for (const item of this.items.value) if (item.state.value.kind === "rejected") this.send(item, common);
  }

  /** Send a file, or send it again after it was rejected. */
  send(item: UploadItem, common: CommonFields): void {
    item.state.value = { kind: "waiting" };
    this.addUpload(() => this.upload(item, buildFields(item, common)));
  }

  /** Ingest the stored original of a failed document again. */
  async reingest(item: UploadItem, document: DocumentOut): Promise<void> {
    const path = `${this.path}/${encodeURIComponent(document.id)}/reindex`;
    const { data } = await request<DocumentOut>(path, { method: "POST", signal: this.controller.signal });
    item.state.value = { kind: "stored", document: data, isKnown: false };
    this.follow(item, data.id);
  }

  /** End all requests. What is stored goes on without the page. */
  close(): void {
    this.controller.abort();
  }

  private async upload(item: UploadItem, fields: Record<string, string>): Promise<void> {
    const { signal } = this.controller;
    if (signal.aborted) return;
    item.state.value = { kind: "sending" };
    const text = JSON.stringify(fields);
    if (item.attempt?.fields !== text) item.attempt = { fields: text, key: createKey() };
    const { key } = item.attempt;
    const body = buildForm(fields, item.file, `carrel-${key}`);
    try {
      const reply = await request<DocumentOut>(this.path, { method: "POST", body, idempotencyKey: key, signal });
      item.state.value = { kind: "stored", document: reply.data, isKnown: reply.status === 200 };
      if (!FINAL_EVENTS.includes(reply.data.status)) this.follow(item, reply.data.id);
    } catch (error) {
      if (!signal.aborted) item.state.value = { kind: "rejected", error: readError(error) };
    }
  }

  private follow(item: UploadItem, documentId: string): void {
    this.addStream(() => this.followDocument(item, documentId));
  }

  private async followDocument(item: UploadItem, documentId: string): Promise<void> {
    const end = new AbortController();
    const signal = AbortSignal.any([end.signal, this.controller.signal]);
    const show = ({ event, data }: { event: string; data: string }) => {
      const { value: state } = item.state;
      if (event === "deleted") item.state.value = { kind: "deleted" };
      else if (state.kind === "stored") item.state.value = { ...state, document: JSON.parse(data) as DocumentOut };
      if (FINAL_EVENTS.includes(event)) end.abort();
    };
    try {
      await followEvents(`${this.path}/${encodeURIComponent(documentId)}/events`, { signal }, show);
    } catch (error) {
      const isGone = error instanceof ApiError && error.status === 404;
      if (isGone) item.state.value = { kind: "deleted" };
    }
  }
}

function buildFields(item: UploadItem, { metadata, pathIsId }: CommonFields): Record<string, string> {
  const fields: Record<string, string> = {};
  if (item.title.value.trim()) fields.title = item.title.value.trim();
  if (metadata.trim()) fields.metadata = metadata;
  if (pathIsId) fields.external_id = item.path;
  return fields;
}

function readError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, "unreadable", String(error), null);
}
