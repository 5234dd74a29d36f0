// The answer of a chat model as it arrives: question, text, citations and sources, each a link to its page.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import type { AnswerOut, AnswerSourceOut, Problem } from "../api/schema";
import { readEvents, type ServerEvent } from "../api/stream";
import { formatMilliseconds, t } from "../i18n";
import { buildPath } from "../router";
import { Badge, Fact, Facts, Section, Warnings } from "./parts";
import { EmptyState, ErrorState } from "./states";

type Answer = Partial<AnswerOut> & { text: string };

interface State {
  answer: Answer;
  error: ApiError | null;
  isRunning: boolean;
}

/** Send the request once, and show its events. */
export function AnswerStream({ body }: { body: string }) {
  const [state, setState] = useState<State>({ answer: { text: "" }, error: null, isRunning: true });
  const [controller] = useState(() => new AbortController());
  useEffect(() => {
    const { signal } = controller;
    const end = (error: ApiError | null) => setState((before) => ({ ...before, error: before.error ?? error, isRunning: false }));
    const take = (event: ServerEvent) => {
      if (!signal.aborted) setState((before) => addEvent(before, event));
    };
    readEvents("/v1/answer", { method: "POST", body, signal }, take).then(
      () => end(null),
      (failure: unknown) => {
        if (signal.aborted) return end(null);
        end(failure instanceof ApiError ? failure : new ApiError(0, "unreachable", String(failure), null));
      },
    );
    return () => controller.abort();
  }, []);
  const { answer, error, isRunning } = state;
  const stop = isRunning && (
    <button type="button" class="button" onClick={() => controller.abort()}>
      {t("answer.stop")}
    </button>
  );
  return (
    <Section title={t("answer.title")} actions={stop}>
      <p class="muted small">
        <code>POST /v1/answer</code>
      </p>
      <pre class="code" tabIndex={0} data-testid="answer-body">{body}</pre>
      <p role="status" class={isRunning ? "muted" : "hidden"}>
        {isRunning && t("answer.running")}
      </p>
      {answer.question !== undefined && <Question answer={answer} />}
      {(answer.text || answer.abstained !== undefined) && <AnswerText answer={answer} />}
      {answer.citations && <Citations answer={answer} />}
      {answer.sources && <Sources sources={answer.sources} />}
      {error && <ErrorState error={error} />}
      {answer.timings_ms && <Ending answer={answer} />}
    </Section>
  );
}

function addEvent(state: State, { event, data }: ServerEvent): State {
  const fields = JSON.parse(data) as Answer & Problem;
  if (event === "error") {
    const code = fields.type.slice(fields.type.lastIndexOf(":") + 1);
    return { ...state, error: new ApiError(fields.status, code, fields.detail, fields.request_id) };
  }
  const { answer } = state;
  if (event === "token") return { ...state, answer: { ...answer, text: answer.text + fields.text } };
  return { ...state, answer: { ...answer, ...fields, text: answer.text } };
}

/** Return the address of the page that a source stands on. */
function buildSourcePath(source: AnswerSourceOut): string | null {
  const { document, knowledge_base: knowledgeBase, chunk_id: chunk } = source;
  if (!document.id) return null;
  return buildPath(["knowledge-bases", knowledgeBase, "documents", document.id], { chunk });
}

function SourceLink({ source, children }: { source: AnswerSourceOut | undefined; children: ComponentChildren }) {
  const path = source && buildSourcePath(source);
  return path ? <a href={path}>{children}</a> : <>{children}</>;
}

function Question({ answer }: { answer: Answer }) {
  return (
    <Facts>
      <Fact term={t("answer.question")}>{answer.question}</Fact>
      <Fact term={t("playground.queries")}>{answer.queries?.join(" · ")}</Fact>
      <Fact term={t("column.strategy")}>{answer.strategy}</Fact>
    </Facts>
  );
}

/** The text, in which each number in brackets is a link to its source. */
function AnswerText({ answer }: { answer: Answer }) {
  if (answer.abstained) return <EmptyState title={t("answer.abstained")} />;
  const find = (number: string) => answer.sources?.find((source) => String(source.number) === number);
  return (
    <p class="text answer-text" data-testid="answer">
      {answer.text.split(/(\[\d+\])/).map((part, index) => {
        const source = index % 2 ? find(part.slice(1, -1)) : undefined;
        return source ? <SourceLink key={index} source={source}>{part}</SourceLink> : part;
      })}
    </p>
  );
}

function Citations({ answer }: { answer: Answer }) {
  if (!answer.citations?.length) return null;
  return (
    <div>
      <h3>{t("answer.citations")}</h3>
      <ul class="citations">
        {answer.citations.map((citation) => (
          <li key={citation.document.id ?? citation.citation}>
            <SourceLink source={answer.sources?.find(({ number }) => number === citation.sources[0])}>{citation.citation}</SourceLink>{" "}
            <span class="muted small">
              {citation.sources.map((number) => `[${number}]`).join(" ")} {citation.knowledge_base}
            </span>{" "}
            <Badge>{citation.method}</Badge>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Sources({ sources }: { sources: AnswerSourceOut[] }) {
  if (sources.length === 0) return null;
  return (
    <details>
      <summary>{t("answer.sources", { count: sources.length })}</summary>
      <ol class="hits">
        {sources.map((source) => (
          <li key={source.number} class="hit">
            <span>
              [{source.number}] <SourceLink source={source}>{source.citation}</SourceLink>
            </span>
            <p class="text">{source.text}</p>
          </li>
        ))}
      </ol>
    </details>
  );
}

function Ending({ answer }: { answer: Answer }) {
  const { warnings = [], usage, timings_ms: timings = {} } = answer;
  return (
    <>
      <Warnings warnings={warnings} />
      <Facts>
        <Fact term={t("answer.tokens")}>
          {t("answer.usage", { read: usage?.prompt_tokens ?? 0, written: usage?.completion_tokens ?? 0 })}
        </Fact>
        <Fact term={t("playground.timings")}>
          {Object.entries(timings).map(([step, duration]) => `${step} ${formatMilliseconds(duration)}`).join(", ")}
        </Fact>
      </Facts>
    </>
  );
}
