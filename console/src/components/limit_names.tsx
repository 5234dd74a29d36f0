// Names and values of quotas.
import type { ComponentChildren } from "preact";
import { formatBytes, formatNumber, t, type TextKey } from "../i18n";

const LIMIT_NAMES: Record<string, TextKey> = {
  agents: "limit.agents",
  api_keys: "limit.api_keys",
  batch_files: "limit.batch_files",
  chats: "limit.chats",
  chunks: "limit.chunks",
  concurrent_ingestions: "limit.concurrent_ingestions",
  concurrent_searches: "limit.concurrent_searches",
  documents: "limit.documents",
  embedding_tokens_per_day: "limit.embedding_tokens_per_day",
  evaluations: "limit.evaluations",
  event_streams: "limit.event_streams",
  file_batches: "limit.file_batches",
  files: "limit.files",
  golden_items: "limit.golden_items",
  golden_sets: "limit.golden_sets",
  knowledge_bases: "limit.knowledge_bases",
  prompt_versions: "limit.prompt_versions",
  searches_per_second: "limit.searches_per_second",
  sql_views: "limit.sql_views",
  stored_bytes: "limit.stored_bytes",
  stored_responses: "limit.stored_responses",
  upload_bytes: "limit.upload_bytes",
  webhooks: "limit.webhooks",
};

export function formatLimit(name: string, value: number): string {
  return name.endsWith("_bytes") ? formatBytes(value) : formatNumber(value);
}

export function formatLimitName(name: string): ComponentChildren {
  const label = LIMIT_NAMES[name];
  return label ? t(label) : <code>{name}</code>;
}
