// Search playground: settings in one column or in two, the bodies that are sent, and the replies with scores and timings.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, request, type Reply } from "../api/client";
import type { SearchOut } from "../api/schema";
import {
  buildAddress,
  buildBinding,
  buildCurl,
  buildPython,
  buildSearch,
  hasQuestion,
  readSetup,
  type SearchColumn,
  type SearchSetup,
} from "../api/search_setup";
import { useTitle } from "../app";
import { CopyButton } from "../components/copy_button";
import { ScreenHead } from "../components/frame";
import { Section } from "../components/parts";
import { hasUnreadable } from "../components/schema_form";
import { SearchForm } from "../components/search_form";
import { SearchLines } from "../components/search_lines";
import { SearchReply } from "../components/search_reply";
import { ErrorState, LoadingState } from "../components/states";
import { t } from "../i18n";
import { location, navigate } from "../router";

interface Run {
  reply: Reply<SearchOut> | null;
  error: ApiError | null;
}

/** Send the search of a column. The errors of the API are results too. */
async function runColumn(setup: SearchSetup, column: SearchColumn, signal: AbortSignal): Promise<Run> {
  const { path, body } = buildSearch(setup, column);
  try {
    return { reply: await request<SearchOut>(path, { method: "POST", body, signal }), error: null };
  } catch (error) {
    return { reply: null, error: error instanceof ApiError ? error : new ApiError(0, "unreadable", String(error), null) };
  }
}

export function PlaygroundScreen() {
  useTitle(t("playground.title"));
  const { query: address } = location.value;
  const [setup, setSetup] = useState(() => readSetup(address));
  // What was searched, and the reply of each column; null while the requests run.
  const [searched, setSearched] = useState<SearchSetup | null>(null);
  const [replies, setReplies] = useState<Run[] | null>(null);
  const [count, setCount] = useState(0);
  const isRunning = searched !== null && replies === null;

  // The address has the settings of the last run, so that a link or "back" repeats the run.
  useEffect(() => {
    const wanted = readSetup(address);
    setSetup(wanted);
    setReplies(null);
    if (!hasQuestion(wanted)) return setSearched(null);
    const controller = new AbortController();
    setSearched(wanted);
    void Promise.all(wanted.columns.map((column) => runColumn(wanted, column, controller.signal))).then((done) => {
      if (!controller.signal.aborted) setReplies(done);
    });
    return () => controller.abort();
  }, [address.toString(), count]);

  const isUnreadable = setup.columns.some(({ more }) => hasUnreadable(more));
  const submit = () => {
    if (!hasQuestion(setup) || isUnreadable) return;
    const path = buildAddress(setup);
    if (path === window.location.pathname + window.location.search) setCount(count + 1);
    else navigate(path);
  };
  const errors = replies?.map(({ error }) => error) ?? [];
  return (
    <>
      <ScreenHead title={t("playground.title")} />
      <SearchForm setup={setup} change={setSetup} submit={submit} isRunning={isRunning} errors={errors} />
      {isUnreadable && (
        <p class="bad-text" role="alert">
          {t("form.unreadable")}
        </p>
      )}
      <div class="search-columns">
        {setup.columns.map((column, index) => (
          <SentRequest key={index} setup={setup} column={column} index={index} isCompared={setup.columns.length > 1} />
        ))}
      </div>
      {isRunning && <LoadingState />}
      {searched && replies && <Replies setup={searched} runs={replies} retry={() => setCount(count + 1)} />}
    </>
  );
}

/** Name of an element of a column, for the tests. */
const nameElement = (name: string, index: number): string => (index ? `${name}-${index + 1}` : name);

function SentRequest({ setup, column, index, isCompared }: {
  setup: SearchSetup;
  column: SearchColumn;
  index: number;
  isCompared: boolean;
}) {
  const search = buildSearch(setup, column);
  const binding = buildBinding(search, column);
  const title = isCompared ? t(index ? "playground.requestSecond" : "playground.requestFirst") : t("playground.request");
  return (
    <Section title={title}>
      <div class="actions">
        <CopyButton text={buildCurl(search)} label={t("playground.copyCurl")} />
        <CopyButton text={buildPython(search, column)} label={t("playground.copyPython")} />
        <CopyButton text={binding.body} label={t("playground.copyAgent")} />
      </div>
      {binding.left.length > 0 && <p class="muted small">{t("playground.notInBinding", { names: binding.left.join(", ") })}</p>}
      <pre class="code" tabIndex={0} data-testid={nameElement("body", index)}>{search.body}</pre>
      <p class="muted small">
        <code>POST {search.path}</code>
      </p>
    </Section>
  );
}

/** Return the rank of each chunk of a reply. */
function listRanks(run: Run | undefined): Map<string | null, number> | null {
  if (!run?.reply) return null;
  const ranks = new Map<string | null, number>();
  run.reply.data.results.forEach(({ chunk_id: chunk }, index) => ranks.has(chunk) || ranks.set(chunk, index + 1));
  return ranks;
}

function Replies({ setup, runs, retry }: { setup: SearchSetup; runs: Run[]; retry: () => void }) {
  const frame = useRef<HTMLDivElement>(null);
  const ranks = runs.map(listRanks);
  const isCompared = runs.length > 1;
  return (
    <div class={isCompared ? "search-replies compared" : "search-replies"} ref={frame}>
      {runs.map(({ reply, error }, index) => (
        <div key={index} class="search-reply" data-column={index}>
          {error && <ErrorState error={error} retry={retry} />}
          {reply && (
            <SearchReply
              reply={reply}
              setup={setup}
              testId={nameElement("reply", index)}
              others={isCompared ? (ranks[1 - index] ?? null) : null}
              isSecond={index > 0}
            />
          )}
        </div>
      ))}
      {isCompared && <SearchLines frame={frame} />}
    </div>
  );
}
