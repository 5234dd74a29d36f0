// Requests to the API of the same origin. Every reply is JSON or problem+json.
import { ROOT, type Query } from "../router";
import { getKey, signOut } from "../session";
import type { Problem } from "./schema";

export interface FieldFault {
  loc: (string | number)[];
  msg: string;
}

/** An error reply of the API, or a request that got no reply (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
    /** Faults of the fields of a request, each with the place of its field. */
    readonly errors: FieldFault[] = [],
  ) {
    super(message);
  }
}

export interface Reply<T> {
  data: T;
  /** The body as the API sent it. */
  text: string;
  status: number;
  etag: string | null;
  /** Id of the deletion that a DELETE has started. */
  deletion: string | null;
}

export interface RequestOptions {
  method?: string;
  query?: Query;
  /** JSON text, sent byte by byte, or a form with files. */
  body?: string | FormData | Blob;
  /** Value of `Idempotency-Key`: the same request with the same key is done once. */
  idempotencyKey?: string;
  /** Value of `If-Match`: change the resource only if it is still this version. */
  ifMatch?: string;
  /** Value of `Last-Event-ID`: continue a stream after this event. */
  lastEventId?: string;
  /** Status of an error whose body is data, and no problem. */
  dataStatus?: number;
  signal?: AbortSignal;
}

export function buildUrl(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
  }
  return `${ROOT}${path}${search.size ? `?${search}` : ""}`;
}

export async function request<T>(path: string, options: RequestOptions = {}): Promise<Reply<T>> {
  const response = await send(path, options);
  const text = await readBody(response.text(), options);
  if (!response.ok && response.status !== options.dataStatus) throw readProblem(response, text);
  const data = (text ? JSON.parse(text) : null) as T;
  const { headers, status } = response;
  return { data, text, status, etag: headers.get("ETag"), deletion: headers.get("Carrel-Deletion-Id") };
}

/** Open a stream of server-sent events. */
export async function openStream(path: string, options: RequestOptions): Promise<ReadableStream<Uint8Array>> {
  const response = await send(path, options, "text/event-stream");
  if (!response.ok) throw readProblem(response, await readBody(response.text(), options));
  if (!response.body) throw new ApiError(0, "unreadable", "empty stream", null);
  return response.body;
}

/** Request a file or an image, which needs the key as every request does. */
export async function requestBlob(path: string, options: RequestOptions = {}): Promise<Blob> {
  const response = await send(path, options);
  if (!response.ok) throw readProblem(response, await readBody(response.text(), options));
  return readBody(response.blob(), options);
}

async function send(path: string, options: RequestOptions, accept = "application/json, */*"): Promise<Response> {
  const key = getKey();
  const headers: Record<string, string> = { Accept: accept };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  if (typeof options.body === "string") headers["Content-Type"] = "application/json";
  if (options.idempotencyKey !== undefined) headers["Idempotency-Key"] = options.idempotencyKey;
  if (options.ifMatch !== undefined) headers["If-Match"] = options.ifMatch;
  if (options.lastEventId !== undefined) headers["Last-Event-ID"] = options.lastEventId;
  const reply = fetch(buildUrl(path, options.query), {
    method: options.method ?? "GET",
    headers,
    body: options.body,
    signal: options.signal,
    credentials: "omit",
    referrerPolicy: "no-referrer",
  });
  const response = await readBody(reply, options);
  // A reply to an earlier key must not end the session of the present one.
  if (response.status === 401 && key !== null && key === getKey()) signOut("rejected");
  return response;
}

/** Await a part of a reply; a broken connection becomes an `ApiError`, unless the screen gave up the request. */
async function readBody<T>(part: Promise<T>, options: RequestOptions): Promise<T> {
  try {
    return await part;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", String(error), null);
  }
}

function readProblem(response: Response, text: string): ApiError {
  const requestId = response.headers.get("X-Request-Id");
  try {
    const problem = JSON.parse(text) as Problem;
    const code = problem.type.slice(problem.type.lastIndexOf(":") + 1);
    const faults = (problem.errors ?? []).map(({ loc = [], msg = "" }) => ({ loc, msg }));
    return new ApiError(response.status, code, problem.detail, problem.request_id || requestId, faults);
  } catch {
    return new ApiError(response.status, "unreadable", response.statusText, requestId);
  }
}
