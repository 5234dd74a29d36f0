// A form of settings: fields made from a schema, the request that it sends, and what the API says about it.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request, type ApiError, type Reply } from "../api/client";
import { addCapabilities, findSchema, type ApiDocument, type Fields, type JsonSchema } from "../api/json_schema";
import { useResource } from "../api/resource";
import type { CapabilitiesOut } from "../api/schema";
import { t, type TextKey } from "../i18n";
import { LeaveQuestion } from "./leave_question";
import { Section } from "./parts";
import { hasUnreadable, SchemaFields } from "./schema_form";
import { ErrorState, LoadingState } from "./states";

interface FormProps<T> {
  /** Name of the schema of the body in /openapi.json. */
  schemaName: string;
  /** Changes the schema for the values so far, for example leaves out what a kind does not have. */
  adjust?: (schema: JsonSchema, value: Fields) => JsonSchema;
  initial: Fields;
  method: "POST" | "PUT" | "PATCH";
  path: string | ((value: Fields) => string);
  ifMatch?: string | null;
  buildBody: (value: Fields) => Fields;
  /** Whether a body without fields can be sent. */
  canBeEmpty?: boolean;
  label: string;
  titles?: Record<string, TextKey>;
  done: (reply: Reply<T>) => void;
  /** Load the object again, after somebody else has changed it. */
  loadAgain?: () => void;
  children?: ComponentChildren;
}

/** Load the schemas of the API, then show the form. */
export function SettingsForm<T>(props: FormProps<T>) {
  const document = useResource<ApiDocument>("/openapi.json");
  const capabilities = useResource<CapabilitiesOut>("/v1/capabilities");
  const error = document.error ?? capabilities.error;
  if (error) return <ErrorState error={error} retry={document.error ? document.reload : capabilities.reload} />;
  if (!document.data || !capabilities.data) return <LoadingState />;
  const schema = findSchema(document.data, props.schemaName);
  return <LoadedForm {...props} schema={schema} capabilities={capabilities.data} />;
}

function LoadedForm<T>(props: FormProps<T> & { schema: JsonSchema; capabilities: CapabilitiesOut }) {
  const [value, setValue] = useState<Fields>(props.initial);
  const adjusted = props.adjust ? props.adjust(props.schema, value) : props.schema;
  const schema = addCapabilities(adjusted, props.capabilities, value);
  const fields = props.buildBody(value);
  // A body that the person writes takes the place of the fields.
  const [ownBody, setOwnBody] = useState<string | null>(null);
  const body = ownBody ?? JSON.stringify(fields, null, 2);
  const path = typeof props.path === "string" ? props.path : props.path(value);
  const isSaved = useRef(false);
  const action = useAction(async () => {
    const ifMatch = props.ifMatch ?? undefined;
    const reply = await request<T>(path, { method: props.method, body, ifMatch });
    isSaved.current = true;
    props.done(reply);
  });
  const isOwn = ownBody !== null;
  const isUnreadable = !isOwn && hasUnreadable(fields);
  const isEmpty = !isOwn && !props.canBeEmpty && Object.keys(fields).length === 0;
  const losesWork = () => !isSaved.current && (isOwn || JSON.stringify(value) !== JSON.stringify(props.initial));
  return (
    <form
      class="settings-form"
      onSubmit={(event) => {
        event.preventDefault();
        void action.run();
      }}
    >
      {props.children}
      <LeaveQuestion losesWork={losesWork}>
        <p>{t("form.leave")}</p>
      </LeaveQuestion>
      <fieldset class="plain" disabled={isOwn}>
        <SchemaFields schema={schema} value={value} change={setValue} errors={action.error?.errors ?? []} titles={props.titles} />
      </fieldset>
      <Section
        title={t("form.request")}
        actions={
          <button type="button" class="button" disabled={isUnreadable} onClick={() => setOwnBody(isOwn ? null : body)}>
            {t(isOwn ? "form.useFields" : "form.editBody")}
          </button>
        }
      >
        <p class="muted small">
          <code>
            {props.method} {path}
          </code>
        </p>
        {isOwn ? (
          <textarea
            class="code-field"
            rows={12}
            spellcheck={false}
            aria-label={t("form.body")}
            value={ownBody}
            onInput={(event) => setOwnBody(event.currentTarget.value)}
          />
        ) : (
          <pre class="code" tabIndex={0} data-testid="body">{isUnreadable ? t("form.unreadable") : body}</pre>
        )}
      </Section>
      {action.error && <Failure error={action.error} loadAgain={props.loadAgain} />}
      <div class="actions">
        <button type="submit" class="button primary" disabled={action.isBusy || isUnreadable || isEmpty}>
          {props.label}
        </button>
        {isEmpty && <span class="muted">{t("form.unchanged")}</span>}
      </div>
    </form>
  );
}

function Failure({ error, loadAgain }: { error: ApiError; loadAgain?: () => void }) {
  const isStale = error.status === 412;
  return (
    <div class="notice bad" role="alert">
      <p>{isStale ? t("form.changedMeanwhile") : error.message || t("state.unreachable")}</p>
      {isStale && <p class="small">{error.message}</p>}
      {isStale && loadAgain && (
        <button type="button" class="button" onClick={loadAgain}>
          {t("form.loadAgain")}
        </button>
      )}
    </div>
  );
}
