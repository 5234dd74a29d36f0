// Figures of the queue, and sentences that say why jobs wait or fail.
import type { StatusOut } from "../api/schema";
import { formatAge, formatNumber, t } from "../i18n";
import { Figure } from "./parts";

export function QueueFigures({ status }: { status: StatusOut }) {
  const { jobs, workers } = status;
  return (
    <>
      <dl class="figures">
        <Figure label={t("overview.workers")} value={formatNumber(workers.alive)} tone={workers.alive ? undefined : "bad"} />
        <Figure label={t("overview.running")} value={formatNumber(jobs.running)} />
        <Figure label={t("overview.waiting")} value={formatNumber(jobs.waiting)} />
        <Figure label={t("overview.postponed")} value={formatNumber(jobs.postponed)} tone={jobs.postponed ? "warn" : undefined} />
        <Figure label={t("overview.failed")} value={formatNumber(jobs.failed_24h)} tone={jobs.failed_24h ? "bad" : undefined} />
      </dl>
      <Reasons status={status} />
    </>
  );
}

/** Sentences that say why jobs wait or fail. */
function Reasons({ status: { jobs, workers, open_circuits } }: { status: StatusOut }) {
  const reasons: string[] = [];
  if (jobs.oldest_waiting_since) reasons.push(t("overview.oldest", { age: formatAge(jobs.oldest_waiting_since) }));
  if (workers.alive === 0) reasons.push(t("overview.noWorker"));
  if (workers.restarting) reasons.push(workers.restarting);
  for (const outage of workers.outages) reasons.push(t("overview.outage", { code: outage }));
  for (const endpoint of open_circuits) reasons.push(t("overview.circuit", { endpoint }));
  if (jobs.postponed > 0) reasons.push(t("overview.postponedReason"));
  if (workers.parser_confinement && workers.parser_confinement.level !== "full") {
    reasons.push(t("overview.confinement", { level: workers.parser_confinement.level }));
  }
  if (reasons.length === 0 && jobs.failed_24h > 0) return null;
  if (reasons.length === 0) return <p class="muted">{t("overview.calm")}</p>;
  return (
    <ul class="notices">
      {reasons.map((reason) => (
        <li key={reason}>{reason}</li>
      ))}
    </ul>
  );
}
