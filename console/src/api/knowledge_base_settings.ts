// Settings of a knowledge base as a form edits them, and the bodies that change them.
import type { TextKey } from "../i18n";
import { dropNulls, listChanges, type Fields, type JsonSchema } from "./json_schema";
import type { KnowledgeBaseOut } from "./schema";

export const SETTING_TITLES: Record<string, TextKey> = {
  name: "column.name",
  title: "column.title",
  description: "settings.description",
  kind: "settings.kind",
  language: "settings.language",
  embedding: "documents.embedding",
  chunking: "documents.chunking",
  retrieval: "settings.retrieval",
  routing: "settings.routing",
  graph: "settings.graph",
  enrichment: "settings.enrichment",
  metadata_filter: "settings.metadataFilter",
  source: "settings.source",
};

// The kinds that search a source, in the order of their schemas in the union of the API.
const SOURCE_KINDS = ["http", "agent_search", "pgvector"];
const DOCUMENT_FIELDS = ["embedding", "chunking", "graph", "metadata_filter", "enrichment"];

/** Leave out what a kind of knowledge base does not have, and choose the fields of its source. */
export function fitToKind(schema: JsonSchema, kind: unknown): JsonSchema {
  const position = SOURCE_KINDS.indexOf(String(kind));
  const properties = { ...schema.properties };
  if (position < 0) {
    delete properties.source;
    return { ...schema, properties };
  }
  for (const name of DOCUMENT_FIELDS) delete properties[name];
  const source = properties.source;
  if (source?.anyOf?.[position]) properties.source = { ...source.anyOf[position], description: source.description };
  return { ...schema, properties };
}

/** Return the body of a new knowledge base: what its kind does not have is not sent. */
export function buildNewBody(value: Fields): Fields {
  const kind = value.kind ?? "documents";
  const rejected = kind === "documents" ? ["source"] : DOCUMENT_FIELDS;
  return Object.fromEntries(Object.entries(value).filter(([name]) => !rejected.includes(name)));
}

/** Return the settings that PATCH can change. */
export function readSettings(item: KnowledgeBaseOut): Fields {
  const settings: Fields = {
    title: item.title === item.name ? null : item.title,
    description: item.description,
    retrieval: dropNulls(item.retrieval),
    routing: item.routing,
    graph: item.graph,
    metadata_filter: Object.keys(item.metadata_filter).length ? item.metadata_filter : null,
    enrichment: dropNulls(item.enrichment),
    source: item.source ? dropNulls(item.source) : null,
  };
  return buildNewBody({ ...dropNulls(settings), kind: item.kind });
}

/** Return the body of a PATCH: changed settings only. Of `retrieval` only what differs; the others are replaced whole. */
export function buildChangeBody(before: Fields, after: Fields): Fields {
  const changes = listChanges(before, after);
  if ("retrieval" in changes) changes.retrieval = listRetrievalChanges(before, after);
  for (const name of ["routing", "graph", "metadata_filter", "enrichment"]) {
    if (name in changes) changes[name] = changes[name] ?? {};
  }
  return changes;
}

function listRetrievalChanges(before: Fields, after: Fields): Fields {
  const retrieval = (after.retrieval ?? {}) as Fields;
  const changes = listChanges((before.retrieval ?? {}) as Fields, retrieval);
  // A strategy and its options change together.
  if ("strategy_options" in changes || "strategy" in changes) {
    changes.strategy = retrieval.strategy ?? null;
    changes.strategy_options = retrieval.strategy_options ?? null;
  }
  return changes;
}
