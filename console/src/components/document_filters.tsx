// The filters of a list of documents. The API checks what a person types; the address has what it accepted.
import { useEffect, useState } from "preact/hooks";
import { ApiError, request } from "../api/client";
import { t, type TextKey } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { SelectField, TextField } from "./fields";
import { formatStatus, STATUSES } from "./parts";

const TEXT_FILTERS = { external_id: "documents.externalId", user_id: "documents.userId", chat_id: "documents.chatId", agent_id: "documents.agentId" } as const satisfies Record<string, TextKey>;
const TEXT_NAMES = Object.keys(TEXT_FILTERS) as (keyof typeof TEXT_FILTERS)[];
const FILTER_NAMES = ["status", "level", ...TEXT_NAMES, "filter"] as const;
const PAUSE_MS = 300;

export type DocumentFilters = Record<(typeof FILTER_NAMES)[number], string>;

/** Return the filters of the address; a filter that is not set is empty. */
export function readFilters(): DocumentFilters {
  const { query } = location.value;
  return Object.fromEntries(FILTER_NAMES.map((name) => [name, query.get(name) ?? ""])) as DocumentFilters;
}

export function DocumentFilterFields({ path, parts }: { path: string; parts: string[] }) {
  const applied = readFilters();
  const address = JSON.stringify(applied);
  const [draft, setDraft] = useState(applied);
  useEffect(() => setDraft(applied), [address]);
  const error = useCheck(path, draft, address, parts);
  const change = (name: keyof DocumentFilters) => (value: string) => setDraft((before) => ({ ...before, [name]: value }));
  const findFault = (name: string) => error?.errors.find(({ loc }) => loc.includes(name))?.msg ?? null;
  const hasPlace = FILTER_NAMES.some((name) => findFault(name) !== null);
  const isOpen = [...TEXT_NAMES, "level" as const].some((name) => applied[name]);
  return (
    <form class="document-filters" aria-label={t("documents.filters")} onSubmit={(event) => event.preventDefault()}>
      <SelectField
        label={t("documents.status")}
        value={draft.status}
        change={change("status")}
        error={findFault("status")}
        choices={[{ value: "", label: t("documents.anyStatus") }, ...STATUSES.map((value) => ({ value, label: formatStatus(value) }))]}
      />
      <TextField
        label={t("documents.filter")}
        value={draft.filter}
        change={change("filter")}
        rows={2}
        placeholder={'{"$media_type": "application/pdf"}'}
        hint={t("documents.filterHint")}
        error={findFault("filter")}
      />
      <details open={isOpen}>
        <summary>{t("documents.moreFilters")}</summary>
        <div class="document-filters-more">
          {TEXT_NAMES.map((name) => (
            <TextField key={name} label={t(TEXT_FILTERS[name])} value={draft[name]} change={change(name)} error={findFault(name)} />
          ))}
          <SelectField
            label={t("documents.level")}
            value={draft.level}
            change={change("level")}
            error={findFault("level")}
            choices={[{ value: "", label: t("documents.anyStatus") }, { value: "shared", label: t("documents.levelShared") }]}
          />
        </div>
      </details>
      <p role="status" class={error && !hasPlace ? "bad-text" : "hidden"}>
        {!hasPlace && error?.message}
      </p>
    </form>
  );
}

/** Ask the API about a draft after a pause; put it into the address if the API accepts it. */
function useCheck(path: string, draft: DocumentFilters, address: string, parts: string[]): ApiError | null {
  const [error, setError] = useState<ApiError | null>(null);
  const text = JSON.stringify(draft);
  useEffect(() => {
    const controller = new AbortController();
    const check = async () => {
      try {
        await request(path, { query: { ...draft, limit: 1 }, signal: controller.signal });
        if (controller.signal.aborted) return;
        setError(null);
        if (text !== address) navigate(buildPath(parts, draft), { replace: true });
      } catch (failure) {
        if (!controller.signal.aborted && failure instanceof ApiError) setError(failure);
      }
    };
    const isEmpty = Object.values(draft).every((value) => value === "");
    if (isEmpty && text === address) {
      setError(null);
      return;
    }
    const timer = setTimeout(check, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [text, path]);
  return error;
}
