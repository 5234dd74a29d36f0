// Receipts of deletions, newest first, and one receipt in detail.
import { useResource } from "../api/resource";
import type { DeletionList, DeletionOut } from "../api/schema";
import { useTitle } from "../app";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { DataTable, Time } from "../components/parts";
import { Receipt, ReceiptBadge } from "../components/receipt";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { formatNumber, t, type TextKey } from "../i18n";
import { buildPath, location } from "../router";
import { isAdmin } from "../session";

const KINDS: Record<DeletionOut["kind"], TextKey> = {
  document: "column.document",
  documents: "column.documents",
  knowledge_base: "deletions.knowledgeBase",
  tenant: "overview.tenant",
};

export function DeletionsScreen({ deletionId }: { deletionId: string | undefined }) {
  useTitle(t("deletions.title"));
  if (deletionId !== undefined) {
    const parents = [{ label: t("deletions.title"), href: buildPath(["deletions"]) }];
    return (
      <>
        <ScreenHead title={t("deletions.single")} parents={parents} />
        <Receipt id={deletionId} />
      </>
    );
  }
  return (
    <>
      <ScreenHead title={t("deletions.title")} note={t("deletions.note")} />
      {isAdmin.value ? <Deletions /> : <NoPermission>{t("deletions.needsAdmin")}</NoPermission>}
    </>
  );
}

function Deletions() {
  const list = useResource<DeletionList>("/v1/deletions", { cursor: location.value.query.get("cursor") });
  return (
    <Loaded resource={list}>
      {({ items, next_cursor: nextCursor }) =>
        items.length === 0 ? (
          <EmptyState title={t("deletions.empty")} />
        ) : (
          <>
            <DataTable label={t("deletions.title")} head={<Head />}>
              {items.map((receipt) => (
                <Row key={receipt.id} receipt={receipt} />
              ))}
            </DataTable>
            <Pages parts={["deletions"]} nextCursor={nextCursor} />
          </>
        )
      }
    </Loaded>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("deletions.receipt")}</th>
      <th scope="col">{t("deletions.kind")}</th>
      <th scope="col" class="number">{t("column.documents")}</th>
      <th scope="col" class="number">{t("column.chunks")}</th>
      <th scope="col">{t("receipt.requested")}</th>
      <th scope="col">{t("column.status")}</th>
    </>
  );
}

function Row({ receipt }: { receipt: DeletionOut }) {
  return (
    <tr>
      <th scope="row">
        <a href={buildPath(["deletions", receipt.id])}>
          <code>{receipt.id}</code>
        </a>
      </th>
      <td>
        {t(KINDS[receipt.kind])}
        {receipt.object && (
          <span class="sub">
            <code>{receipt.object}</code>
          </span>
        )}
      </td>
      <td class="number">{formatNumber(receipt.documents)}</td>
      <td class="number">{formatNumber(receipt.chunks)}</td>
      <td>
        <Time value={receipt.requested_at} />
      </td>
      <td>
        <ReceiptBadge receipt={receipt} />
      </td>
    </tr>
  );
}
