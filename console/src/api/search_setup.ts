// Settings of the playground: in the address, as bodies of searches, and as text to copy.
import { buildPath, type Query } from "../router";
import { buildUrl } from "./client";
import type { Fields } from "./json_schema";

export interface SearchMessage {
  role: string;
  content: string;
}

/** Settings of one column. `more` has every other field of the body. */
export interface SearchColumn {
  knowledgeBase: string;
  strategy: string;
  topK: string;
  more: Fields;
}

export interface SearchSetup {
  query: string;
  /** Conversation in place of the question; null without one. */
  messages: SearchMessage[] | null;
  /** One column, or two that are compared. */
  columns: SearchColumn[];
}

export interface BuiltSearch {
  path: string;
  body: string;
  fields: Fields;
}

function readJson(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null; // Another address than the console has made.
  }
}

function readMessages(text: string | null): SearchMessage[] | null {
  const given = readJson(text);
  if (!Array.isArray(given)) return null;
  return given.map((message: Partial<SearchMessage> | null) => ({
    role: String(message?.role ?? ""),
    content: String(message?.content ?? ""),
  }));
}

function readColumn(address: URLSearchParams, suffix: string): SearchColumn {
  const more = readJson(address.get(`more${suffix}`));
  return {
    knowledgeBase: address.get(`kb${suffix}`) ?? "",
    strategy: address.get(`strategy${suffix}`) ?? "",
    topK: address.get(`top_k${suffix}`) ?? "",
    more: typeof more === "object" && more !== null && !Array.isArray(more) ? (more as Fields) : {},
  };
}

export function readSetup(address: URLSearchParams): SearchSetup {
  const columns = [readColumn(address, "")];
  if (address.has("compare")) columns.push(readColumn(address, "_2"));
  return { query: address.get("q") ?? "", messages: readMessages(address.get("messages")), columns };
}

/** Return the address of the playground with these settings. */
export function buildAddress({ query, messages, columns }: SearchSetup): string {
  const parameters: Query = messages ? { messages: JSON.stringify(messages) } : { q: query };
  columns.forEach(({ knowledgeBase, strategy, topK, more }, index) => {
    const suffix = index ? "_2" : "";
    if (index) parameters.compare = 1;
    parameters[`kb${suffix}`] = knowledgeBase;
    parameters[`strategy${suffix}`] = strategy;
    parameters[`top_k${suffix}`] = topK;
    if (Object.keys(more).length) parameters[`more${suffix}`] = JSON.stringify(more);
  });
  return buildPath(["search"], parameters);
}

export const hasQuestion = ({ query, messages }: SearchSetup): boolean =>
  messages ? messages.some(({ content }) => content.trim() !== "") : query.trim() !== "";

/** Return the path and the body of a search: the body that is shown is the body that is sent. */
export function buildSearch({ query, messages }: SearchSetup, column: SearchColumn): BuiltSearch {
  const fields: Fields = messages ? { messages } : { query };
  if (column.topK !== "") fields.top_k = /^-?\d+$/.test(column.topK) ? Number(column.topK) : column.topK;
  if (column.strategy) fields.strategy = column.strategy;
  Object.assign(fields, column.more);
  fields.explain ??= true;
  const name = column.knowledgeBase;
  return {
    path: name ? `/v1/knowledge-bases/${encodeURIComponent(name)}/search` : "/v1/search",
    body: JSON.stringify(fields, null, 2),
    fields,
  };
}

/** Return a text as one word of a POSIX shell. */
const quoteForShell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export function buildCurl({ path, body }: BuiltSearch): string {
  const url = `${window.location.origin}${buildUrl(path)}`;
  return [
    `curl ${quoteForShell(url)}`,
    `  -H "Authorization: Bearer $CARREL_API_KEY"`,
    `  -H 'Content-Type: application/json'`,
    `  -d ${quoteForShell(body)}`,
  ].join(" \\\n");
}

/** Return a value of JSON as a literal of Python. */
function formatForPython(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(formatForPython).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const entries = Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}: ${formatForPython(part)}`);
  return `{${entries.join(", ")}}`;
}

/** Return a program that sends the search with the Python client. */
export function buildPython({ fields }: BuiltSearch, { knowledgeBase }: SearchColumn): string {
  const options = knowledgeBase ? { ...fields, knowledge_base: knowledgeBase } : fields;
  return [
    "import os",
    "",
    "from carrel_client import Client",
    "",
    `with Client(${JSON.stringify(`${window.location.origin}${buildUrl("")}`)}, os.environ["CARREL_API_KEY"]) as client:`,
    "    reply = client.search(",
    ...Object.entries(options).map(([name, value]) => `        ${name}=${formatForPython(value)},`),
    "    )",
    "",
  ].join("\n");
}

const BINDING_FIELDS = new Set([
  ...["knowledge_bases", "strategy", "strategy_options", "transformers", "conversation", "filter", "top_k"],
  ...["score_threshold", "timeout_seconds", "combine", "collapse", "rerank"],
]);
const QUESTION_FIELDS = new Set(["query", "queries", "messages", "explain"]);

/** Return the settings as the body of `PUT /v1/agents/{id}`, and the names of those that a binding does not have. */
export function buildBinding({ fields }: BuiltSearch, { knowledgeBase }: SearchColumn): { body: string; left: string[] } {
  const kept = Object.entries(fields).filter(([name]) => BINDING_FIELDS.has(name));
  const binding: Fields = { ...(knowledgeBase ? { knowledge_bases: [knowledgeBase] } : {}), ...Object.fromEntries(kept) };
  const left = Object.keys(fields).filter((name) => !BINDING_FIELDS.has(name) && !QUESTION_FIELDS.has(name));
  return { body: JSON.stringify(binding, null, 2), left };
}
