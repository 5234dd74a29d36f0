// Parts of the screens of evaluations: the state, the figures with intervals, and the differences.
import type { EvaluationOut, FigureOut, IntervalOut } from "../api/schema";
import { formatScore, formatSigned, t, type TextKey } from "../i18n";
import { Badge, DataTable, type Tone } from "./parts";

const STATES: Record<EvaluationOut["state"], [TextKey, Tone]> = {
  queued: ["evaluationState.queued", "neutral"],
  running: ["evaluationState.running", "neutral"],
  done: ["evaluationState.done", "good"],
  failed: ["evaluationState.failed", "bad"],
};

export function EvaluationState({ state }: { state: EvaluationOut["state"] }) {
  const [label, tone] = STATES[state];
  return <Badge tone={tone}>{t(label)}</Badge>;
}

/** Return a setting on one line. */
export const formatSetting = (setting: Record<string, unknown>): string => JSON.stringify(setting);

function formatRange({ low, high }: IntervalOut, format: (value: number) => string): string {
  return t("evaluations.range", { low: format(low), high: format(high) });
}

/** Table of measures: the mean of each setting with its interval, and the paired difference. */
export function FiguresTable({ figures }: { figures: FigureOut[] }) {
  const first = figures[0];
  const head = (
    <>
      <th scope="col">{t("evaluations.measure")}</th>
      {first?.values.map((_, index) => (
        <th scope="col" key={index} class="number">{t("evaluations.setting", { number: index + 1 })}</th>
      ))}
      {first?.difference && <th scope="col" class="number">{t("evaluations.difference")}</th>}
      {first?.difference && <th scope="col" class="number">{t("evaluations.counts")}</th>}
    </>
  );
  return (
    <DataTable label={t("evaluations.figures")} head={head}>
      {figures.map(({ measure, values, difference }) => (
        <tr key={measure}>
          <th scope="row">{measure}</th>
          {values.map((value, index) => (
            <td key={index} class="number">
              {formatScore(value.mean)}
              <span class="sub">{formatRange(value, formatScore)}</span>
            </td>
          ))}
          {difference && (
            <td class="number">
              {formatSigned(difference.mean)} {difference.significant && <Badge tone={difference.mean < 0 ? "bad" : "good"}>{t("evaluations.significant")}</Badge>}
              <span class="sub">{formatRange(difference, formatSigned)}</span>
            </td>
          )}
          {difference && (
            <td class="number">
              {t("evaluations.countsOf", { better: difference.better, worse: difference.worse, equal: difference.equal })}
            </td>
          )}
        </tr>
      ))}
    </DataTable>
  );
}
