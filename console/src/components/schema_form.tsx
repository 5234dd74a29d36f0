// Fields of a form made from a JSON schema. A value that is left out is not sent; a shape without a control is JSON.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { FieldFault } from "../api/client";
import type { Fields, JsonSchema } from "../api/json_schema";
import { t, type TextKey } from "../i18n";
import { CheckField, Field, SelectField, TextField } from "./fields";

/** Text of a JSON field that cannot be read. It keeps the form from being sent. */
export class UnreadableJson {
  constructor(readonly text: string) {}
}

export function hasUnreadable(value: unknown): boolean {
  if (value instanceof UnreadableJson) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnreadable);
}

interface Context {
  errors: FieldFault[];
  /** Titles of fields, by their path, such as `chunking.strategy`; the other fields have the names of the API. */
  titles?: Record<string, TextKey>;
}

interface PartProps extends Context {
  schema: JsonSchema;
  path: string[];
  value: unknown;
  change: (value: unknown) => void;
}

const LONG_TEXT = 301;
const SCALARS = new Set(["string", "number", "integer"]);

/** Whether a fault belongs to the field of a path or to a part of it. */
export function isFaultOf({ loc }: FieldFault, path: string[]): boolean {
  const place = loc[0] === "body" ? loc.slice(1) : loc;
  return path.every((part, index) => String(place[index]) === part);
}

/** One control for each property of an object. Objects inside get a group of their own, which can be folded. */
export function SchemaFields({ schema, value, change, path = [], ...context }: Context & {
  schema: JsonSchema;
  value: Fields;
  change: (value: Fields) => void;
  path?: string[];
}) {
  const entries = Object.entries(schema.properties ?? {});
  const isGroup = ([, part]: [string, JsonSchema]) => part.properties !== undefined;
  const draw = ([name, part]: [string, JsonSchema]) => (
    <SchemaPart
      key={name}
      {...context}
      schema={part}
      path={[...path, name]}
      value={value[name]}
      change={(changed) => change(replace(value, name, changed))}
    />
  );
  return (
    <>
      <div class="form-grid">{entries.filter((entry) => !isGroup(entry)).map(draw)}</div>
      {entries.filter(isGroup).map(draw)}
    </>
  );
}

function replace(value: Fields, name: string, changed: unknown): Fields {
  const result = { ...value };
  if (changed === undefined) delete result[name];
  else result[name] = changed;
  return result;
}

function SchemaPart(props: PartProps) {
  const { schema, path, value, change } = props;
  if (!schema.properties) return <SchemaControl {...props} />;
  const names = Object.keys(schema.properties);
  if (names.length === 0) return null;
  const { errors, titles } = props;
  const hasFault = errors.some((fault) => isFaultOf(fault, path));
  return (
    <details class="form-group" open={hasFault || path.length > 1 || undefined}>
      <summary>{describeName(path, titles)}</summary>
      {schema.description && <p class="muted small">{formatCode(schema.description)}</p>}
      <SchemaFields
        schema={schema}
        path={path}
        errors={errors}
        titles={titles}
        value={(value ?? {}) as Fields}
        change={(changed) => change(Object.keys(changed).length ? changed : undefined)}
      />
    </details>
  );
}

/** Show what stands between backticks in a description of the API as code. */
function formatCode(text: string | undefined): ComponentChildren {
  return text?.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}

function describeName(path: string[], titles: Context["titles"]): string {
  const title = titles?.[path.join(".")];
  return title ? t(title) : (path.at(-1) ?? "");
}

function SchemaControl({ schema, path, value, change, errors, titles }: PartProps) {
  const field = {
    label: describeName(path, titles),
    hint: formatCode(schema.description),
    error: errors.filter((fault) => isFaultOf(fault, path)).map(({ msg }) => msg).join(" ") || null,
  };
  const choices = listChoices(schema);
  if (choices) return <ChoiceField {...field} schema={schema} choices={choices} value={value} change={change} />;
  if (schema.uniqueItems && schema.items?.enum) return <CheckListField {...field} names={schema.items.enum} value={value} change={change} />;
  if (isTextList(schema, value)) return <LinesField {...field} schema={schema} value={value} change={change} />;
  if (isScalar(schema)) {
    return (
      <TextField
        {...field}
        rows={(schema.maxLength ?? 0) >= LONG_TEXT ? 3 : undefined}
        placeholder={schema.type === "string" && !schema.default ? undefined : describeDefault(schema)}
        value={value === undefined || value === null ? "" : String(value)}
        change={(text) => change(readScalar(schema, text))}
      />
    );
  }
  return <JsonField {...field} value={value} change={change} />;
}

const listMembers = (schema: JsonSchema): JsonSchema[] => schema.anyOf ?? [schema];

const isScalar = (schema: JsonSchema): boolean => listMembers(schema).every(({ type }) => SCALARS.has(type ?? ""));

/** Whether a schema is a list of texts, and the value too: a list with options in it is edited as JSON. */
function isTextList({ type, items }: JsonSchema, value: unknown): boolean {
  if (type !== "array" || items?.type !== "string") return false;
  return !Array.isArray(value) || value.every((item) => typeof item === "string");
}

function listChoices(schema: JsonSchema): unknown[] | null {
  if (schema.type === "boolean") return [true, false];
  return schema.enum ?? (schema.const === undefined ? null : [schema.const]);
}

function describeDefault(schema: JsonSchema): string {
  const value = schema.default;
  if (value === undefined || value === null) return t("form.default");
  return t("form.defaultValue", { value: describeChoice(value) });
}

const describeChoice = (value: unknown): string =>
  typeof value === "boolean" ? t(value ? "form.yes" : "form.no") : String(value);

/** Return a number if the schema wants one and the text is one. Other texts go to the API as they are. */
function readScalar(schema: JsonSchema, text: string): unknown {
  if (text === "") return undefined;
  const wantsNumber = listMembers(schema).some(({ type }) => type === "number" || type === "integer");
  return wantsNumber && text.trim() !== "" && /^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text;
}

interface ControlProps {
  label: string;
  hint: ComponentChildren;
  error: string | null;
  value: unknown;
  change: (value: unknown) => void;
}

function ChoiceField({ schema, choices, value, change, ...field }: ControlProps & { schema: JsonSchema; choices: unknown[] }) {
  const shown = value === undefined || value === null || choices.includes(value) ? choices : [...choices, value];
  return (
    <SelectField
      {...field}
      value={value === undefined || value === null ? "" : JSON.stringify(value)}
      change={(text) => change(text === "" ? undefined : JSON.parse(text))}
      choices={[
        { value: "", label: describeDefault(schema) },
        ...shown.map((choice) => ({ value: JSON.stringify(choice), label: describeChoice(choice) })),
      ]}
    />
  );
}

function LinesField({ schema, value, change, hint, ...field }: ControlProps & { schema: JsonSchema }) {
  const [text, setText] = useState(() => ((value ?? []) as string[]).join("\n"));
  const known = schema.items?.enum;
  const note = (
    <>
      {hint} {t("form.lines")} {known && known.length > 0 && t("form.known", { names: known.join(", ") })}
    </>
  );
  const edit = (edited: string) => {
    setText(edited);
    const lines = edited.split("\n").map((line) => line.trim()).filter(Boolean);
    change(lines.length ? lines : undefined);
  };
  return <TextField {...field} hint={note} rows={3} value={text} change={edit} />;
}

/** A choice of several names, whose order does not matter. */
function CheckListField({ label, hint, error, names, value, change }: ControlProps & { names: unknown[] }) {
  const chosen = (value ?? []) as unknown[];
  const toggle = (name: unknown, isChosen: boolean) =>
    change(isChosen ? [...chosen, name] : chosen.filter((other) => other !== name));
  return (
    <fieldset class="check-list">
      <legend>{label}</legend>
      {[...new Set([...names, ...chosen])].map((name) => (
        <CheckField
          key={String(name)}
          label={String(name)}
          checked={chosen.includes(name)}
          change={(isChosen) => toggle(name, isChosen)}
        />
      ))}
      <p class={error ? "field-note bad-text" : "field-note muted"}>{error ?? hint}</p>
    </fieldset>
  );
}

function JsonField({ value, change, error, ...field }: ControlProps) {
  const [text, setText] = useState(() => (value === undefined || value === null ? "" : JSON.stringify(value, null, 2)));
  const [fault, setFault] = useState<string | null>(null);
  const edit = (edited: string) => {
    setText(edited);
    setFault(null);
    if (edited.trim() === "") return change(undefined);
    try {
      change(JSON.parse(edited));
    } catch (failure) {
      setFault(t("form.notJson", { reason: String(failure) }));
      change(new UnreadableJson(edited));
    }
  };
  return (
    <Field {...field} error={fault ?? error}>
      {(control) => (
        <textarea
          {...control}
          class="code-field"
          rows={3}
          spellcheck={false}
          placeholder={t("form.json")}
          value={text}
          onInput={(event) => edit(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}
