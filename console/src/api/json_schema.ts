// JSON schemas of the API: those of /openapi.json and the option schemas of /v1/capabilities.
import type { CapabilitiesOut } from "./schema";

export interface JsonSchema {
  type?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  items?: JsonSchema;
  uniqueItems?: boolean;
  properties?: Record<string, JsonSchema>;
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  maxLength?: number;
}

export type Fields = Record<string, unknown>;

export interface ApiDocument {
  components: { schemas: Record<string, JsonSchema> };
}

const MAX_DEPTH = 8;

/** Return a schema whose references are replaced by what they name, and whose union with null is the rest of the union. */
export function resolveSchema(schema: JsonSchema, named: Record<string, JsonSchema>, depth = 0): JsonSchema {
  if (depth > MAX_DEPTH) return {};
  const known = { ...named, ...schema.$defs };
  const resolve = (part: JsonSchema) => resolveSchema(part, known, depth + 1);
  if (schema.$ref !== undefined) {
    const { $ref, ...own } = schema;
    return { ...resolve(known[$ref.slice($ref.lastIndexOf("/") + 1)] ?? {}), ...own };
  }
  const resolved: JsonSchema = { ...schema };
  const members = (schema.anyOf ?? schema.oneOf)?.map(resolve).filter(({ type }) => type !== "null");
  if (members) {
    delete resolved.anyOf;
    delete resolved.oneOf;
    const [single, ...others] = members.flatMap((member) => member.anyOf ?? [member]);
    if (single && others.length === 0) return { ...single, ...resolved };
    resolved.anyOf = members.flatMap((member) => member.anyOf ?? [member]);
  }
  if (schema.items) resolved.items = resolve(schema.items);
  if (schema.properties) {
    resolved.properties = Object.fromEntries(Object.entries(schema.properties).map(([name, part]) => [name, resolve(part)]));
  }
  return resolved;
}

/** Return a schema of /openapi.json by its name. */
export function findSchema(document: ApiDocument, name: string): JsonSchema {
  const { schemas } = document.components;
  return resolveSchema(schemas[name] ?? {}, schemas);
}

type Patch = (schema: JsonSchema) => JsonSchema;

/** Return a schema in which `patch` has changed the property at a path; a path that does not exist changes nothing. */
export function patchProperty(schema: JsonSchema, path: string[], patch: Patch): JsonSchema {
  const [first, ...rest] = path;
  if (first === undefined) return patch(schema);
  const part = schema.properties?.[first];
  if (!part) return schema;
  return { ...schema, properties: { ...schema.properties, [first]: patchProperty(part, rest, patch) } };
}

const offer = (names: string[]): Patch => (schema) => ({ ...schema, enum: names });

const readText = (value: unknown, path: string[]): unknown =>
  path.reduce<unknown>((part, name) => (part as Fields | undefined)?.[name], value);

/** Return the options of the chosen component, or of the default one. */
function describeOptions(components: CapabilitiesOut["strategies"], chosen: unknown, isNested = false): Patch {
  const component = components.find(({ name }) => name === chosen) ?? components.find((item) => item.default);
  return (schema) => {
    const whole = resolveSchema((component?.options ?? {}) as JsonSchema, {});
    const options = isNested ? whole.properties?.options : whole;
    return { ...schema, properties: options?.properties, description: component?.description ?? schema.description };
  };
}

/** Put the names and options of /v1/capabilities into a schema of settings: `value` says which options are of interest. */
export function addCapabilities(schema: JsonSchema, capabilities: CapabilitiesOut, value: Fields): JsonSchema {
  const { chunkers, strategies, extractors, transformers, embedding_models: models, languages } = capabilities;
  const listNames = (components: { name: string }[]) => components.map(({ name }) => name);
  const patches: [string[], Patch][] = [
    [["language"], offer(languages)],
    [["embedding", "model"], offer(models.map(({ model }) => model))],
    [["chunking", "strategy"], offer(listNames(chunkers))],
    [["chunking", "options"], describeOptions(chunkers, readText(value, ["chunking", "strategy"]), true)],
    [["graph", "extractors"], (part) => ({ ...part, items: { type: "string", enum: listNames(extractors) } })],
  ];
  for (const parent of [["retrieval"], []]) {
    const strategy = readText(value, [...parent, "strategy"]);
    patches.push(
      [[...parent, "strategy"], offer(listNames(strategies))],
      [[...parent, "strategy_options"], describeOptions(strategies, strategy)],
      [[...parent, "transformers"], (part) => ({ ...part, items: { type: "string", enum: listNames(transformers) } })],
    );
  }
  return patches.reduce((patched, [path, patch]) => patchProperty(patched, path, patch), schema);
}

/** Return the fields that differ from before; a field that was cleared is null. */
export function listChanges(before: Fields, after: Fields): Fields {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const changed = [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return Object.fromEntries(changed.map((name) => [name, after[name] ?? null]));
}

/** Return an object without its fields that are null. */
export function dropNulls(value: object): Fields {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== null));
}
