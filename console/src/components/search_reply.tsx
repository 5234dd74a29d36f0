// The reply of a search: results with retrievers, ranks and scores; timings; what was degraded; the reply as sent.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { SearchOut, SearchResultOut } from "../api/schema";
import type { Reply } from "../api/client";
import type { SearchSetup } from "../api/search_setup";
import { formatMilliseconds, formatNumber, formatScore, t, tn } from "../i18n";
import { buildPath } from "../router";
import { formatPlace } from "../screens/document";
import { listWords, MarkedText } from "./marked_text";
import { Badge, Fact, Facts, Section, Warnings } from "./parts";
import { RelevanceButton } from "./relevance_button";
import { EmptyState } from "./states";

/** Ranks of the chunks in the other column; null without a comparison. */
type OtherRanks = Map<string | null, number> | null;

interface ReplyProps {
  reply: Reply<SearchOut>;
  setup: SearchSetup;
  testId: string;
  others: OtherRanks;
  isSecond: boolean;
}

export function SearchReply({ reply, setup, testId, others, isSecond }: ReplyProps) {
  const { data, text } = reply;
  const words = useMemo(() => listWords(data.queries), [reply]);
  return (
    <>
      <Section title={others ? t(isSecond ? "playground.resultsSecond" : "playground.resultsFirst") : t("playground.results")} actions={<span class="muted">{tn("results.count", data.results.length)}</span>}>
        <Warnings warnings={data.warnings} />
        {data.degraded.length > 0 && (
          <ul class="notices">
            {data.degraded.map(({ step, reason }) => (
              <li key={step}>
                <Badge tone="warn">{step}</Badge> <span>{reason}</span>
              </li>
            ))}
          </ul>
        )}
        {data.results.length === 0 ? (
          <EmptyState title={t("playground.none")} />
        ) : (
          <ol class="hits">
            {data.results.map((result, index) => (
              <li key={`${result.chunk_id}-${index}`}>
                <Hit result={result} rank={index + 1} words={words}>
                  <RankMark rank={index + 1} chunk={result.chunk_id} others={others} isSecond={isSecond} />
                  <RelevanceButton result={result} setup={setup} />
                </Hit>
              </li>
            ))}
          </ol>
        )}
      </Section>
      <Section title={t("playground.timings")}>
        <Timings timings={data.timings_ms} />
      </Section>
      <Section title={t("playground.how")}>
        <Facts>
          <Fact term={t("column.strategy")}>{data.strategy}</Fact>
          <Fact term={t("playground.queries")}>{data.queries.join(" · ")}</Fact>
          {data.explain?.knowledge_bases.map(({ knowledge_base, plan }) => (
            <Fact key={knowledge_base} term={knowledge_base}>
              {plan
                ? t("playground.plan", { chunks: plan.chunks, dense: plan.dense, lexical: plan.lexical })
                : "–"}
            </Fact>
          ))}
        </Facts>
      </Section>
      <details class="section">
        <summary>{t("playground.raw")}</summary>
        <pre class="code" tabIndex={0} data-testid={testId}>{text}</pre>
      </details>
    </>
  );
}

/** What the other column has done with a result: new here, lost there, or another rank. */
function RankMark({ rank, chunk, others, isSecond }: { rank: number; chunk: string | null } & Pick<ReplyProps, "others" | "isSecond">) {
  if (!others) return null;
  const other = others.get(chunk);
  if (other === undefined) return isSecond ? <Badge tone="good">{t("playground.new")}</Badge> : <Badge tone="bad">{t("playground.lost")}</Badge>;
  if (!isSecond || other === rank) return null;
  return <Badge tone={rank < other ? "good" : "warn"}>{t(rank < other ? "playground.up" : "playground.down", { from: other, to: rank })}</Badge>;
}

/** The score of each step that gave one. */
function Scores({ result }: { result: SearchResultOut }) {
  const given = Object.entries(result.scores).filter(([, score]) => score !== null) as [string, number][];
  if (given.length === 0) return null;
  return <p class="muted small">{given.map(([step, score]) => `${step} ${formatScore(score)}`).join(" · ")}</p>;
}

function Hit({ result, rank, words, children }: {
  result: SearchResultOut;
  rank: number;
  words: Set<string>;
  children: ComponentChildren;
}) {
  const { document } = result;
  const href = buildPath(["knowledge-bases", result.knowledge_base, "documents", document.id ?? ""], {
    chunk: result.chunk_id,
  });
  const label = document.title || document.source;
  return (
    <article class="hit" data-chunk={result.chunk_id ?? undefined}>
      <header class="hit-head">
        <span class="hit-rank">{formatNumber(rank)}</span>
        {document.id ? <a href={href}>{label}</a> : <span>{label}</span>}
        <span class="muted">{formatPlace(result)}</span>
        <span class="hit-score" title={t("playground.score")}>
          {formatScore(result.score)}
        </span>
      </header>
      {result.section_titles.length > 0 && <p class="muted small">{result.section_titles.join(" › ")}</p>}
      <p class="text">
        <MarkedText text={result.text} words={words} />
      </p>
      {result.path_names && result.path_names.length > 0 && (
        <p class="muted small">{t("playground.path", { names: result.path_names.join(" → ") })}</p>
      )}
      <Scores result={result} />
      <footer class="hit-foot">
        {result.ranks?.map(({ retriever, rank: place, score, query }) => (
          <Badge key={`${retriever}-${query}`}>
            {t("playground.rank", { retriever, rank: place, score: formatScore(score) })}
          </Badge>
        ))}
        {result.flags.map((flag) => (
          <Badge key={flag} tone="warn">
            {flag}
          </Badge>
        ))}
        <span class="muted small">{result.citation}</span>
        {children}
      </footer>
    </article>
  );
}

function Timings({ timings }: { timings: Record<string, number> }) {
  const total = Math.max(timings.total ?? 0, ...Object.values(timings), 0.001);
  return (
    <dl class="timings">
      {Object.entries(timings).map(([step, milliseconds]) => (
        <div key={step}>
          <dt>{step}</dt>
          <dd>
            <svg class="timing" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
              <rect class="timing-track" width={100} height={4} />
              <rect class="bar" width={Math.max((milliseconds / total) * 100, 0.5)} height={4} />
            </svg>
            <span class="number">{formatMilliseconds(milliseconds)}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}
