// The query or the conversation of an item of a golden set, and its link into the playground.
import type { GoldenItemMessageOut } from "../api/schema";
import { t } from "../i18n";
import { buildPath } from "../router";

export interface GoldenQueryParts {
  query: string | null;
  messages: GoldenItemMessageOut[] | null;
}

/** Text of the query, or of the newest message of the conversation; empty if the item was deleted. */
export const readQuestion = ({ query, messages }: GoldenQueryParts): string => query ?? messages?.at(-1)?.content ?? "";

export function GoldenQuery({ item }: { item: GoldenQueryParts }) {
  if (item.query !== null) return <p class="query-text">{item.query}</p>;
  if (item.messages === null) return <p class="muted">{t("evaluations.itemDeleted")}</p>;
  return (
    <ul class="relevant-list">
      {item.messages.map(({ role, content }, index) => (
        <li key={index}>
          <span class="muted small">{role}</span> <span class="query-text">{content}</span>
        </li>
      ))}
    </ul>
  );
}

/** Path of the playground with the question of an item, and the parts of a setting that the playground has. */
export function buildPlaygroundPath(item: GoldenQueryParts, setting: Record<string, unknown> = {}): string {
  const bases = setting.knowledge_bases;
  return buildPath(["search"], {
    q: readQuestion(item),
    kb: Array.isArray(bases) && bases.length === 1 ? String(bases[0]) : null,
    strategy: typeof setting.strategy === "string" ? setting.strategy : null,
    top_k: typeof setting.top_k === "number" ? setting.top_k : null,
  });
}
