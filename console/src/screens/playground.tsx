// Search playground: one set of settings, the body that is sent, and the reply with scores and timings.
import { useEffect, useState } from "preact/hooks";
import { ApiError, buildUrl, request } from "../api/client";
import type { CapabilitiesOut, KnowledgeBaseList, SearchOut } from "../api/schema";
import { useResource } from "../api/resource";
import { useTitle } from "../app";
import { CopyButton } from "../components/copy_button";
import { ScreenHead } from "../components/frame";
import { Section } from "../components/parts";
import { SearchReply } from "../components/search_reply";
import { ErrorState, LoadingState } from "../components/states";
import { t } from "../i18n";
import { buildPath, location, navigate } from "../router";

interface Settings {
  query: string;
  knowledgeBase: string;
  strategy: string;
  topK: string;
}

function readSettings(query: URLSearchParams): Settings {
  return {
    query: query.get("q") ?? "",
    knowledgeBase: query.get("kb") ?? "",
    strategy: query.get("strategy") ?? "",
    topK: query.get("top_k") ?? "",
  };
}

/** Return the path and the body of a search: the body that is shown is the body that is sent. */
function buildSearch(settings: Settings): { path: string; body: string } {
  const fields: Record<string, unknown> = { query: settings.query };
  if (settings.topK !== "") fields.top_k = Number(settings.topK);
  if (settings.strategy) fields.strategy = settings.strategy;
  fields.explain = true;
  const name = settings.knowledgeBase;
  return {
    path: name ? `/v1/knowledge-bases/${encodeURIComponent(name)}/search` : "/v1/search",
    body: JSON.stringify(fields, null, 2),
  };
}

/** Return a text as one word of a POSIX shell. */
const quoteForShell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function buildCurl({ path, body }: { path: string; body: string }): string {
  const url = `${window.location.origin}${buildUrl(path)}`;
  return [
    `curl ${quoteForShell(url)}`,
    `  -H "Authorization: Bearer $CARREL_API_KEY"`,
    `  -H 'Content-Type: application/json'`,
    `  -d ${quoteForShell(body)}`,
  ].join(" \\\n");
}

interface Run {
  reply: { data: SearchOut; text: string } | null;
  error: ApiError | null;
  isLoading: boolean;
}

export function PlaygroundScreen() {
  useTitle(t("playground.title"));
  const { query: address } = location.value;
  const [settings, setSettings] = useState(() => readSettings(address));
  const [run, setRun] = useState<Run>({ reply: null, error: null, isLoading: false });
  const [runs, setRuns] = useState(0);
  const search = buildSearch(settings);

  // The address has the settings of the last run, so that a link or "back" repeats the run.
  useEffect(() => {
    const wanted = readSettings(address);
    setSettings(wanted);
    if (!wanted.query.trim()) return setRun({ reply: null, error: null, isLoading: false });
    const controller = new AbortController();
    const { path, body } = buildSearch(wanted);
    setRun({ reply: null, error: null, isLoading: true });
    request<SearchOut>(path, { method: "POST", body, signal: controller.signal }).then(
      (reply) => setRun({ reply, error: null, isLoading: false }),
      (error: unknown) => {
        if (controller.signal.aborted) return;
        const shown = error instanceof ApiError ? error : new ApiError(0, "unreadable", String(error), null);
        setRun({ reply: null, error: shown, isLoading: false });
      },
    );
    return () => controller.abort();
  }, [address.toString(), runs]);

  const submit = () => {
    if (!settings.query.trim()) return;
    const { query: q, knowledgeBase: kb, strategy, topK: top_k } = settings;
    const path = buildPath(["search"], { q, kb, strategy, top_k });
    if (path === window.location.pathname + window.location.search) setRuns(runs + 1);
    else navigate(path);
  };
  return (
    <>
      <ScreenHead title={t("playground.title")} />
      <SearchForm settings={settings} change={setSettings} submit={submit} isRunning={run.isLoading} />
      <Section title={t("playground.request")} actions={<CopyButton text={buildCurl(search)} label={t("playground.copyCurl")} />}>
        <pre class="code" tabIndex={0} data-testid="body">{search.body}</pre>
        <p class="muted small">
          <code>POST {search.path}</code>
        </p>
      </Section>
      {run.isLoading && <LoadingState />}
      {run.error && <ErrorState error={run.error} retry={() => setRuns(runs + 1)} />}
      {run.reply && <SearchReply data={run.reply.data} text={run.reply.text} />}
    </>
  );
}

function SearchForm(props: {
  settings: Settings;
  change: (settings: Settings) => void;
  submit: () => void;
  isRunning: boolean;
}) {
  const { settings, change } = props;
  const bases = useResource<KnowledgeBaseList>("/v1/knowledge-bases", { limit: 200 });
  const capabilities = useResource<CapabilitiesOut>("/v1/capabilities");
  const names = bases.data?.items.map(({ name }) => name) ?? [];
  if (settings.knowledgeBase && !names.includes(settings.knowledgeBase)) names.push(settings.knowledgeBase);
  const strategies = capabilities.data?.strategies.map(({ name }) => name) ?? [];
  if (settings.strategy && !strategies.includes(settings.strategy)) strategies.push(settings.strategy);
  const submitOnEnter = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      props.submit();
    }
  };
  return (
    <form
      class="search-form"
      onSubmit={(event) => {
        event.preventDefault();
        props.submit();
      }}
    >
      <label class="field">
        <span>{t("playground.question")}</span>
        <textarea
          rows={2}
          value={settings.query}
          required
          onInput={(event) => change({ ...settings, query: event.currentTarget.value })}
          onKeyDown={submitOnEnter}
        />
      </label>
      <div class="fields">
        <label class="field">
          <span>{t("playground.knowledgeBase")}</span>
          <select value={settings.knowledgeBase} onChange={(event) => change({ ...settings, knowledgeBase: event.currentTarget.value })}>
            <option value="">{t("playground.routed")}</option>
            {names.map((name) => (
              <option key={name} value={name}>{name}</option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>{t("column.strategy")}</span>
          <select value={settings.strategy} onChange={(event) => change({ ...settings, strategy: event.currentTarget.value })}>
            <option value="">{t("playground.default")}</option>
            {strategies.map((name) => (
              <option key={name} value={name}>{name}</option>
            ))}
          </select>
        </label>
        <label class="field narrow">
          <span>top_k</span>
          <input
            type="number"
            min={1}
            max={capabilities.data?.limits.top_k ?? 500}
            value={settings.topK}
            placeholder={t("playground.default")}
            onInput={(event) => change({ ...settings, topK: event.currentTarget.value })}
          />
        </label>
        <button type="submit" class="button primary" disabled={props.isRunning}>
          {t("playground.run")}
        </button>
      </div>
    </form>
  );
}
