// The reply of a search: results with retrievers, ranks and scores; timings; what was degraded; the reply as sent.
import type { SearchOut, SearchResultOut } from "../api/schema";
import { formatMilliseconds, formatNumber, formatScore, t, tn } from "../i18n";
import { buildPath } from "../router";
import { formatPlace } from "../screens/document";
import { Badge, Fact, Facts, Section, Warnings } from "./parts";
import { EmptyState } from "./states";

export function SearchReply({ data, text }: { data: SearchOut; text: string }) {
  return (
    <>
      <Section title={t("playground.results")} actions={<span class="muted">{tn("results.count", data.results.length)}</span>}>
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
                <Hit result={result} rank={index + 1} />
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
        <pre class="code" tabIndex={0} data-testid="reply">{text}</pre>
      </details>
    </>
  );
}

function Hit({ result, rank }: { result: SearchResultOut; rank: number }) {
  const { document } = result;
  const href = buildPath(["knowledge-bases", result.knowledge_base, "documents", document.id ?? ""], {
    chunk: result.chunk_id,
  });
  const label = document.title || document.source;
  return (
    <article class="hit">
      <header class="hit-head">
        <span class="hit-rank">{formatNumber(rank)}</span>
        {document.id ? <a href={href}>{label}</a> : <span>{label}</span>}
        <span class="muted">{formatPlace(result)}</span>
        <span class="hit-score" title={t("playground.score")}>
          {formatScore(result.score)}
        </span>
      </header>
      {result.section_titles.length > 0 && <p class="muted small">{result.section_titles.join(" › ")}</p>}
      <p class="text">{result.text}</p>
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
            <span class="track" aria-hidden="true">
              <span class="fill" style={{ width: `${(milliseconds / total) * 100}%` }} />
            </span>
            <span class="number">{formatMilliseconds(milliseconds)}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}
