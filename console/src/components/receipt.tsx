// The receipt of a deletion, followed until nothing is left.
import { useEffect } from "preact/hooks";
import { useResource } from "../api/resource";
import type { DeletionOut } from "../api/schema";
import { formatBytes, formatNumber, t, tn } from "../i18n";
import { Badge, Fact, Facts, Section, Time } from "./parts";
import { Loaded } from "./states";

const POLL_MS = 1_000;

/** Number of rows and objects that are left; null before they were counted. */
function countRemaining({ remaining }: DeletionOut): number | null {
  return remaining && Object.values(remaining).reduce((sum, count) => sum + count, 0);
}

export function Receipt({ id }: { id: string }) {
  const receipt = useResource<DeletionOut>(`/v1/deletions/${encodeURIComponent(id)}`);
  const isUnfinished = receipt.data?.finished_at === null;
  const { reload } = receipt;
  useEffect(() => {
    if (!isUnfinished) return;
    const timer = setInterval(reload, POLL_MS);
    return () => clearInterval(timer);
  }, [isUnfinished, reload]);
  return (
    <Section title={t("receipt.title")}>
      <Loaded resource={receipt}>{(data) => <ReceiptFacts receipt={data} />}</Loaded>
    </Section>
  );
}

/** Whether contents are still being removed, or how much is left. */
export function ReceiptBadge({ receipt }: { receipt: DeletionOut }) {
  if (receipt.finished_at === null) return <Badge tone="warn">{t("receipt.running")}</Badge>;
  const remaining = countRemaining(receipt);
  return <Badge tone={remaining === 0 ? "good" : "bad"}>{t("receipt.left", { count: remaining ?? 0 })}</Badge>;
}

function ReceiptFacts({ receipt }: { receipt: DeletionOut }) {
  return (
    <div class="receipt" data-testid="receipt">
      <Facts>
        <Fact term={t("column.status")}>
          <span role="status">
            <ReceiptBadge receipt={receipt} />
          </span>
        </Fact>
        <Fact term={t("receipt.deleted")}>
          {tn("documents.count", receipt.documents)}, {tn("chunks.count", receipt.chunks)}, {formatBytes(receipt.bytes)}
        </Fact>
        <Fact term={t("receipt.requested")}>
          <Time value={receipt.requested_at} />
        </Fact>
        {receipt.finished_at && (
          <Fact term={t("receipt.finished")}>
            <Time value={receipt.finished_at} />
          </Fact>
        )}
        {receipt.retained.length > 0 && <Fact term={t("receipt.retained")}>{receipt.retained.join(", ")}</Fact>}
        <Fact term={t("receipt.id")}>
          <code>{receipt.id}</code>
        </Fact>
      </Facts>
      {receipt.remaining && (
        <details>
          <summary>{t("receipt.tables")}</summary>
          <ul class="small">
            {Object.entries(receipt.remaining).map(([table, count]) => (
              <li key={table}>
                <code>{table}</code> {formatNumber(count)}
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}
