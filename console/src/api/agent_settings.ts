// Settings of an agent's binding as a form edits them, and the bodies that change them.
import type { TextKey } from "../i18n";
import { dropNulls, listChanges, patchProperty, type Fields, type JsonSchema } from "./json_schema";
import type { AgentBindingOut, KnowledgeBaseOut } from "./schema";

export const BINDING_TITLES: Record<string, TextKey> = {
  knowledge_bases: "knowledgeBases.title",
  strategy: "column.strategy",
};

/** Offer the knowledge bases of the key by name, before the other settings. */
export function offerKnowledgeBases(schema: JsonSchema, bases: KnowledgeBaseOut[]): JsonSchema {
  const items: JsonSchema = { type: "string", enum: bases.map(({ name }) => name) };
  const offered = patchProperty(schema, ["knowledge_bases"], (part) => ({ ...part, items, uniqueItems: true }));
  const { knowledge_bases: first, ...others } = offered.properties ?? {};
  return { ...offered, properties: first ? { knowledge_bases: first, ...others } : others };
}

/** Return the settings of a binding, with names of knowledge bases in place of their ids. */
export function readBinding(binding: AgentBindingOut, bases: KnowledgeBaseOut[]): Fields {
  const { id: _id, agent_id: _agent, created_at: _created, updated_at: _updated, ...settings } = binding;
  const names = new Map(bases.map(({ id, name }) => [id, name]));
  const options = Object.keys(settings.strategy_options).length ? settings.strategy_options : null;
  const knowledgeBases = settings.knowledge_bases.map((id) => names.get(id) ?? id);
  return dropNulls({ ...settings, strategy_options: options, knowledge_bases: knowledgeBases });
}

/** Return the body of a PATCH: only what differs. A strategy and its options change together. */
export function buildBindingChanges(before: Fields, after: Fields): Fields {
  const changes = listChanges(before, after);
  if ("knowledge_bases" in changes) changes.knowledge_bases ??= [];
  if ("strategy" in changes || "strategy_options" in changes) {
    changes.strategy = after.strategy ?? null;
    changes.strategy_options = after.strategy_options ?? {};
  }
  return changes;
}
