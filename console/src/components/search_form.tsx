// Form of the playground: a question or a conversation, and the settings of one column or of two.
import type { ApiError } from "../api/client";
import { addCapabilities, findSchema, type ApiDocument, type JsonSchema } from "../api/json_schema";
import { useResource } from "../api/resource";
import type { CapabilitiesOut, KnowledgeBaseList } from "../api/schema";
import type { SearchColumn, SearchMessage, SearchSetup } from "../api/search_setup";
import { t } from "../i18n";
import { SelectField, TextField } from "./fields";
import { SchemaFields } from "./schema_form";

const ROLES = ["user", "assistant", "system", "tool", "customer", "agent"];
const OWN_CONTROLS = new Set(["query", "messages", "strategy", "top_k"]);

interface FormProps {
  setup: SearchSetup;
  change: (setup: SearchSetup) => void;
  submit: () => void;
  isRunning: boolean;
  /** Errors of the last run, by column. */
  errors: (ApiError | null)[];
}

export function SearchForm({ setup, change, submit, isRunning, errors }: FormProps) {
  const { columns } = setup;
  const [first] = columns;
  const setColumn = (index: number, changed: SearchColumn) =>
    change({ ...setup, columns: columns.map((column, place) => (place === index ? changed : column)) });
  const isCompared = columns.length > 1;
  const compare = () => change({ ...setup, columns: isCompared || !first ? columns.slice(0, 1) : [first, { ...first }] });
  return (
    <form
      class="search-form"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <QuestionFields setup={setup} change={change} submit={submit} />
      <div class="search-columns">
        {columns.map((column, index) => (
          <ColumnFields
            key={index}
            title={isCompared ? t(index ? "playground.second" : "playground.first") : null}
            column={column}
            change={(changed) => setColumn(index, changed)}
            error={errors[index] ?? null}
          />
        ))}
      </div>
      <div class="actions">
        <button type="submit" class="button primary" disabled={isRunning}>
          {t("playground.run")}
        </button>
        <button type="button" class="button" aria-pressed={isCompared} onClick={compare}>
          {t(isCompared ? "playground.endCompare" : "playground.compare")}
        </button>
      </div>
    </form>
  );
}

function QuestionFields({ setup, change, submit }: Pick<FormProps, "setup" | "change" | "submit">) {
  const { query, messages } = setup;
  const choose = (kind: string) => {
    if (kind === "messages") return change({ ...setup, messages: [{ role: "user", content: query }] });
    change({ ...setup, query: query || (messages?.at(-1)?.content ?? ""), messages: null });
  };
  const submitOnEnter = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  };
  return (
    <>
      <div class="search-kind">
        <SelectField
          label={t("playground.kind")}
          value={messages ? "messages" : "query"}
          change={choose}
          choices={[
            { value: "query", label: t("playground.oneQuestion") },
            { value: "messages", label: t("playground.conversation") },
          ]}
        />
      </div>
      {messages ? (
        <MessageFields messages={messages} change={(changed) => change({ ...setup, messages: changed })} />
      ) : (
        <label class="field">
          <span>{t("playground.question")}</span>
          <textarea
            rows={2}
            value={query}
            required
            onInput={(event) => change({ ...setup, query: event.currentTarget.value })}
            onKeyDown={submitOnEnter}
          />
        </label>
      )}
    </>
  );
}

function MessageFields({ messages, change }: { messages: SearchMessage[]; change: (messages: SearchMessage[]) => void }) {
  const set = (index: number, changed: SearchMessage) =>
    change(messages.map((message, place) => (place === index ? changed : message)));
  const remove = (index: number) => change(messages.filter((_, place) => place !== index));
  return (
    <>
      <ol class="messages">
        {messages.map((message, index) => (
          <li key={index}>
            <SelectField
              label={t("agents.role")}
              value={message.role}
              change={(role) => set(index, { ...message, role })}
              choices={[...new Set([...ROLES, message.role])].map((role) => ({ value: role, label: role }))}
            />
            <TextField
              label={t("agents.message", { number: index + 1 })}
              rows={2}
              value={message.content}
              change={(content) => set(index, { ...message, content })}
            />
            {messages.length > 1 && (
              <button type="button" class="button" aria-label={t("agents.removeOne", { number: index + 1 })} onClick={() => remove(index)}>
                {t("agents.remove")}
              </button>
            )}
          </li>
        ))}
      </ol>
      <div>
        <button type="button" class="button" onClick={() => change([...messages, { role: "user", content: "" }])}>
          {t("agents.add")}
        </button>
      </div>
    </>
  );
}

interface ColumnProps {
  title: string | null;
  column: SearchColumn;
  change: (column: SearchColumn) => void;
  error: ApiError | null;
}

function ColumnFields({ title, column, change, error }: ColumnProps) {
  const bases = useResource<KnowledgeBaseList>("/v1/knowledge-bases", { limit: 200 });
  const capabilities = useResource<CapabilitiesOut>("/v1/capabilities");
  const names = bases.data?.items.map(({ name }) => name) ?? [];
  const strategies = capabilities.data?.strategies.map(({ name }) => name) ?? [];
  const list = (offered: string[], chosen: string, none: string) => [
    { value: "", label: none },
    ...[...new Set([...offered, ...(chosen ? [chosen] : [])])].map((name) => ({ value: name, label: name })),
  ];
  return (
    <fieldset class="plain search-column">
      {title && <legend>{title}</legend>}
      <div class="fields">
        <SelectField
          label={t("playground.knowledgeBase")}
          value={column.knowledgeBase}
          change={(knowledgeBase) => change({ ...column, knowledgeBase })}
          choices={list(names, column.knowledgeBase, t("playground.routed"))}
        />
        <SelectField
          label={t("column.strategy")}
          value={column.strategy}
          change={(strategy) => change({ ...column, strategy })}
          choices={list(strategies, column.strategy, t("playground.default"))}
        />
        <TextField
          label="top_k"
          value={column.topK}
          change={(topK) => change({ ...column, topK })}
          placeholder={t("playground.default")}
        />
      </div>
      {capabilities.data && <MoreFields column={column} change={change} error={error} capabilities={capabilities.data} />}
    </fieldset>
  );
}

/** Return the schema of a search without the fields that have controls of their own. */
function leaveOwnControls(schema: JsonSchema): JsonSchema {
  const kept = Object.entries(schema.properties ?? {}).filter(([name]) => !OWN_CONTROLS.has(name));
  return { ...schema, properties: Object.fromEntries(kept) };
}

/** All other fields of the request, made from the schema of the API, with what the API says about each. */
function MoreFields({ column, change, error, capabilities }: Omit<ColumnProps, "title"> & { capabilities: CapabilitiesOut }) {
  const document = useResource<ApiDocument>("/openapi.json");
  if (!document.data) return null;
  const name = column.knowledgeBase ? "KnowledgeBaseSearchRequest" : "MultiSearchRequest";
  const whole = addCapabilities(findSchema(document.data, name), capabilities, { strategy: column.strategy });
  const count = Object.keys(column.more).length;
  return (
    <details>
      <summary>{count ? t("playground.moreSet", { count }) : t("playground.more")}</summary>
      <SchemaFields
        schema={leaveOwnControls(whole)}
        value={column.more}
        change={(more) => change({ ...column, more })}
        errors={error?.errors ?? []}
      />
    </details>
  );
}
