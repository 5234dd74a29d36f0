// Files that a person chose: their sending, two at a time, and then the progress of their documents by events.
import { signal } from "@preact/signals";
import { ApiError, request } from "./client";
import type { ChosenFile } from "./file_entries";
import type { DocumentOut } from "./schema";
import { followEvents, type ServerEvent } from "./stream";
import { buildForm, createKey } from "./upload_body";

const MAX_UPLOADS = 2;
const isFinal = ({ status }: DocumentOut): boolean => status === "ready" || status === "failed";

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

  get document(): DocumentOut | null {
    return this.state.value.kind === "stored" ? this.state.value.document : null;
  }

  get hasFailed(): boolean {
    return this.state.value.kind === "rejected" || this.document?.status === "failed";
  }

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
  /** Why the progress of the documents is unknown; null while the stream goes on. */
  readonly streamError = signal<ApiError | null>(null);
  private readonly path: string;
  private readonly controller = new AbortController();
  private readonly addUpload = createLane(MAX_UPLOADS);
  private lastId = 0;
  private uploadsUnderWay = 0;
  /** Documents of events that came before the reply of their upload, by id. */
  private readonly early = new Map<string, DocumentOut>();
  /** Ends the stream of events; null while none is open. */
  private stream: AbortController | null = null;

  constructor(knowledgeBase: string) {
    this.path = `/v1/knowledge-bases/${encodeURIComponent(knowledgeBase)}`;
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
    const path = `${this.path}/documents/${encodeURIComponent(document.id)}/reindex`;
    const { data } = await request<DocumentOut>(path, { method: "POST", signal: this.controller.signal });
    item.state.value = { kind: "stored", document: pickNewer(data, item.document ?? undefined), isKnown: false };
    this.follow();
  }

  /** End all requests. What is stored goes on without the page. */
  close(): void {
    this.controller.abort();
  }

  private async upload(item: UploadItem, fields: Record<string, string>): Promise<void> {
    const { signal } = this.controller;
    if (signal.aborted) return;
    item.state.value = { kind: "sending" };
    this.uploadsUnderWay += 1;
    this.follow();
    const text = JSON.stringify(fields);
    const isRepeated = item.attempt?.fields === text;
    if (!item.attempt || !isRepeated) item.attempt = { fields: text, key: createKey() };
    const { key } = item.attempt;
    const body = buildForm(fields, item.file, `carrel-${key}`);
    try {
      const path = `${this.path}/documents`;
      const { data, status } = await request<DocumentOut>(path, { method: "POST", body, idempotencyKey: key, signal });
      const document = pickNewer(data, this.early.get(data.id));
      item.state.value = { kind: "stored", document, isKnown: status === 200 };
      // The reply may be that of the first attempt, with a state of long ago.
      if (isRepeated) await this.readAgain(item);
    } catch (error) {
      if (!signal.aborted) item.state.value = { kind: "rejected", error: readError(error) };
    }
    this.uploadsUnderWay -= 1;
    if (this.uploadsUnderWay === 0) this.early.clear();
    this.endStreamIfDone();
  }

  /** Follow all documents of the knowledge base by one stream, until none of the files is under way. */
  private follow(): void {
    if (this.stream || this.controller.signal.aborted) return;
    const stream = new AbortController();
    this.stream = stream;
    this.streamError.value = null;
    const signal = AbortSignal.any([stream.signal, this.controller.signal]);
    let hasStarted = false;
    const read = (event: ServerEvent) => {
      // A stream that is resumed has no gap, but the first one begins after the first uploads.
      if (!hasStarted) void this.catchUp();
      hasStarted = true;
      this.readEvent(event);
    };
    followEvents(`${this.path}/events`, { signal }, read).catch((error: unknown) => {
      this.streamError.value = readError(error);
      if (this.stream === stream) this.stream = null;
    });
  }

  private readEvent({ event, data }: { event: string; data: string }): void {
    if (event === "document") this.take(JSON.parse(data) as DocumentOut);
    if (event === "deletion") void this.catchUp();
    if (event === "deleted") for (const item of this.items.value) if (item.document) item.state.value = { kind: "deleted" };
    this.endStreamIfDone();
  }

  /** Read the documents that may have changed before the stream began, or that may be deleted. */
  private async catchUp(): Promise<void> {
    const running = this.items.value.filter(({ document }) => document && !isFinal(document));
    for (const item of running) await this.readAgain(item);
    this.endStreamIfDone();
  }

  private async readAgain(item: UploadItem): Promise<void> {
    const { signal } = this.controller;
    const path = `${this.path}/documents/${encodeURIComponent(item.document?.id ?? "")}`;
    try {
      this.take((await request<DocumentOut>(path, { signal })).data);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) item.state.value = { kind: "deleted" };
      else if (!signal.aborted) this.streamError.value = readError(error);
    }
  }

  private take(document: DocumentOut): void {
    // The same bytes in two files are one document.
    const items = this.items.value.filter((item) => item.document?.id === document.id);
    for (const item of items) {
      const state = item.state.value;
      if (state.kind === "stored") item.state.value = { ...state, document: pickNewer(state.document, document) };
    }
    if (items.length === 0 && this.uploadsUnderWay > 0) this.early.set(document.id, document);
  }

  private endStreamIfDone(): void {
    const isRunning = this.items.value.some(({ document }) => document && !isFinal(document));
    if (isRunning || this.uploadsUnderWay > 0) return;
    this.stream?.abort();
    this.stream = null;
  }
}

function pickNewer(known: DocumentOut, other: DocumentOut | undefined): DocumentOut {
  return other && other.updated_at >= known.updated_at ? other : known;
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
