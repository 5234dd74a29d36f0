// An evaluation: progress, figures with intervals, the paired difference, and the queries that got worse or better.
import { useEffect, useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request } from "../api/client";
import { useResource } from "../api/resource";
import type { EvaluationOut, EvaluationResultList, EvaluationResultOut, QueryResultOut } from "../api/schema";
import { useTitle } from "../app";
import { ConfirmDialog } from "../components/dialog";
import { EvaluationState, FiguresTable, formatSetting } from "../components/evaluation_parts";
import { ScreenHead } from "../components/frame";
import { buildPlaygroundPath, GoldenQuery, readQuestion } from "../components/golden_query";
import { Pages } from "../components/pages";
import { DataTable, Fact, Facts, Section, Time, Warnings } from "../components/parts";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { formatNumber, formatScore, t, type TextKey } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { canEvaluate } from "../session";

const POLL_MILLISECONDS = 1000;
const CHANGES: Record<string, TextKey> = { worse: "evaluations.worse", better: "evaluations.better", equal: "evaluations.equal" };

export function EvaluationScreen({ evaluationId }: { evaluationId: string }) {
  useTitle(t("evaluations.evaluation"));
  const path = canEvaluate.value ? `/v1/evaluations/${encodeURIComponent(evaluationId)}` : null;
  const evaluation = useResource<EvaluationOut>(path);
  const isActive = evaluation.data?.state === "queued" || evaluation.data?.state === "running";
  useEffect(() => {
    if (!isActive) return;
    const timer = setInterval(evaluation.reload, POLL_MILLISECONDS);
    return () => clearInterval(timer);
  }, [isActive]);
  if (!path) {
    return (
      <>
        <ScreenHead title={t("evaluations.evaluation")} />
        <NoPermission>{t("golden.needsWriter")}</NoPermission>
      </>
    );
  }
  return (
    <>
      <ScreenHead
        title={t("evaluations.evaluation")}
        parents={[{ label: t("evaluations.title"), href: buildPath(["evaluations"]) }]}
        actions={evaluation.data && <Delete path={path} />}
      />
      <Loaded resource={evaluation}>{(data) => <Run evaluation={data} path={path} />}</Loaded>
    </>
  );
}

function Delete({ path }: { path: string }) {
  const [isAsking, setAsking] = useState(false);
  const action = useAction(async () => {
    await request(path, { method: "DELETE" });
    navigate(buildPath(["evaluations"]));
  });
  return (
    <>
      <button type="button" class="button" onClick={() => setAsking(true)}>
        {t("evaluations.delete")}
      </button>
      {isAsking && (
        <ConfirmDialog title={t("evaluations.delete")} label={t("evaluations.delete")} action={action} close={() => setAsking(false)}>
          <p>{t("evaluations.deleteWarning")}</p>
        </ConfirmDialog>
      )}
    </>
  );
}

function Run({ evaluation, path }: { evaluation: EvaluationOut; path: string }) {
  const { done, total } = evaluation.progress;
  return (
    <>
      <Facts>
        <Fact term={t("column.status")}>
          <EvaluationState state={evaluation.state} />
        </Fact>
        <Fact term={t("evaluations.set")}>
          <a href={buildPath(["golden-sets", evaluation.set])}>{evaluation.set}</a>
        </Fact>
        <Fact term={t("jobs.created")}>
          <Time value={evaluation.created_at} />
        </Fact>
        <Fact term={t("evaluations.searches")}>
          {formatNumber(done)} / {formatNumber(total)}
        </Fact>
        {evaluation.settings.map((setting, index) => (
          <Fact key={index} term={t("evaluations.setting", { number: index + 1 })}>
            <code>{formatSetting(setting)}</code>
          </Fact>
        ))}
      </Facts>
      {evaluation.finished_at === null && (
        <progress class="run-progress" max={total} value={done} aria-label={t("evaluations.searches")} />
      )}
      {evaluation.error && (
        <div class="notice bad" role="alert">
          {evaluation.error.message} <code>{evaluation.error.code}</code>
        </div>
      )}
      <Warnings warnings={evaluation.warnings} />
      {evaluation.figures.length > 0 && (
        <Section title={t("evaluations.figures")}>
          <p class="muted small">{t("evaluations.interval")}</p>
          <FiguresTable figures={evaluation.figures} />
        </Section>
      )}
      {evaluation.state === "done" && <Results evaluation={evaluation} path={path} />}
    </>
  );
}

function Results({ evaluation, path }: { evaluation: EvaluationOut; path: string }) {
  const { query } = location.value;
  const measures = evaluation.figures.map(({ measure }) => measure);
  const measure = query.get("measure") ?? "nDCG@10";
  const isPaired = evaluation.settings.length === 2;
  const change = isPaired ? (query.get("change") ?? "worse") : "";
  const chosen = { measure, change: change === "all" ? "" : change };
  const list = useResource<EvaluationResultList>(`${path}/results`, { ...chosen, limit: 20, cursor: query.get("cursor") });
  const choose = (changed: Record<string, string>) =>
    navigate(buildPath(["evaluations", evaluation.id], { measure, change, ...changed }));
  const filters = (
    <div class="actions">
      <Choice label={t("evaluations.measure")} value={measure} choices={measures.map((name) => [name, name])} choose={(value) => choose({ measure: value })} />
      {isPaired && (
        <Choice
          label={t("evaluations.change")}
          value={change}
          choices={[...Object.entries(CHANGES).map(([name, key]): [string, string] => [name, t(key)]), ["all", t("evaluations.all")]]}
          choose={(value) => choose({ change: value })}
        />
      )}
    </div>
  );
  return (
    <Section title={t("evaluations.queries")} actions={filters}>
      <Loaded resource={list}>
        {({ items, next_cursor }) =>
          items.length === 0 ? (
            <EmptyState title={t("evaluations.noQueries")} />
          ) : (
            <>
              <DataTable label={t("evaluations.queries")} head={<Head settings={evaluation.settings} />}>
                {items.map((item) => (
                  <Row key={item.item} item={item} measure={measure} settings={evaluation.settings} />
                ))}
              </DataTable>
              <Pages parts={["evaluations", evaluation.id]} query={{ measure, change }} nextCursor={next_cursor} />
            </>
          )
        }
      </Loaded>
    </Section>
  );
}

function Choice(props: { label: string; value: string; choices: [string, string][]; choose: (value: string) => void }) {
  return (
    <label class="inline-field">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.choose(event.currentTarget.value)}>
        {props.choices.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function Head({ settings }: { settings: unknown[] }) {
  return (
    <>
      <th scope="col">{t("golden.query")}</th>
      {settings.map((_, index) => (
        <th scope="col" key={index}>{t("evaluations.setting", { number: index + 1 })}</th>
      ))}
    </>
  );
}

function Row({ item, measure, settings }: { item: EvaluationResultOut; measure: string; settings: Record<string, unknown>[] }) {
  return (
    <tr>
      <th scope="row" class="wide">
        <GoldenQuery item={item} />
      </th>
      {settings.map((setting, index) => {
        const result = item.results[index];
        return (
          <td key={index}>
            {result && <Outcome result={result} measure={measure} />}
            {readQuestion(item) && (
              <a href={buildPlaygroundPath(item, setting)} aria-label={t("evaluations.openOne", { number: index + 1, query: readQuestion(item) })}>
                {t("evaluations.open")}
              </a>
            )}
          </td>
        );
      })}
    </tr>
  );
}

/** Value of the measure, and the ranks of what is relevant. */
function Outcome({ result, measure }: { result: QueryResultOut; measure: string }) {
  const score = result.scores[measure];
  const ranks = result.relevant.map(({ rank }) => (rank === null ? "–" : formatNumber(rank))).join(", ");
  return (
    <>
      {score === undefined ? "–" : formatScore(score)}
      <span class="sub">{t("evaluations.ranks", { ranks: ranks || "–" })}</span>
      {result.error && <span class="sub bad-text">{result.error}</span>}
      {result.warning_codes.length > 0 && <span class="sub">{result.warning_codes.join(", ")}</span>}
    </>
  );
}
