// A table of documents of which only the rows in view exist. Further pages load while the person scrolls.
import { useEffect, useRef, useState } from "preact/hooks";
import type { CursorList } from "../api/cursor_list";
import type { DocumentOut } from "../api/schema";
import { formatBytes, formatNumber, t, tn } from "../i18n";
import { buildPath } from "../router";
import { Badge, StatusBadge, Time } from "./parts";

const ROW_REMS = 3;
const EXTRA_ROWS = 10;
const POLL_MS = 2_000;
const FIRST_ROWS = 40;

const getRowHeight = () => ROW_REMS * parseFloat(getComputedStyle(document.documentElement).fontSize);
const isUnfinished = ({ status }: DocumentOut) => status !== "ready" && status !== "failed";

export interface Ticks {
  ids: ReadonlySet<string>;
  toggle: (id: string) => void;
}

/** Follow which rows of a scrolled frame are in view. */
function useWindow() {
  const frame = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ first: 0, last: FIRST_ROWS });
  const measure = () => {
    if (!frame.current) return;
    const { scrollTop, clientHeight } = frame.current;
    const first = Math.max(0, Math.floor(scrollTop / getRowHeight()) - EXTRA_ROWS);
    const last = Math.ceil((scrollTop + clientHeight) / getRowHeight()) + EXTRA_ROWS;
    setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
  };
  useEffect(() => {
    measure();
    window.addEventListener("resize", measure);
    return () => window.removeEventListener("resize", measure);
  }, []);
  return { frame, range, measure };
}

export function DocumentTable(props: {
  list: CursorList<DocumentOut>;
  items: DocumentOut[];
  total: number | null;
  parts: string[];
  ticks: Ticks | null;
}) {
  const { list, items, ticks } = props;
  const { frame, range, measure } = useWindow();
  const last = Math.min(range.last, items.length);
  const first = Math.min(range.first, last);
  const shown = items.slice(first, last);
  const columns = ticks ? 7 : 6;
  useEffect(() => {
    if (list.hasMore && !list.error && range.last + EXTRA_ROWS >= items.length) list.loadMore();
  }, [range.last, items.length, list.hasMore, list.error]);
  const refresh = useRef(() => {});
  refresh.current = () => list.refresh(first, last - 1);
  const isWaiting = shown.some(isUnfinished);
  useEffect(() => {
    if (!isWaiting) return;
    const timer = setInterval(() => refresh.current(), POLL_MS);
    return () => clearInterval(timer);
  }, [isWaiting]);
  return (
    <div ref={frame} class="table-frame virtual" tabIndex={0} role="region" aria-label={t("documents.title")} onScroll={measure}>
      <table aria-rowcount={props.total === null ? -1 : props.total + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {ticks && <th scope="col" class="tick">{t("documents.tick")}</th>}
            <Head />
          </tr>
        </thead>
        <tbody>
          <Gap rows={first} columns={columns} />
          {shown.map((item, index) => (
            <Row key={item.id} item={item} position={first + index} parts={props.parts} ticks={ticks} />
          ))}
          <Gap rows={items.length - last} columns={columns} />
        </tbody>
      </table>
    </div>
  );
}

/** Room for rows that are not in view. Its height is an attribute, because the policy forbids inline styles. */
function Gap({ rows, columns }: { rows: number; columns: number }) {
  if (rows <= 0) return null;
  return (
    <tr class="gap" aria-hidden="true">
      <td colSpan={columns} {...{ height: Math.round(rows * getRowHeight()) }} />
    </tr>
  );
}

function Head() {
  return (
    <>
      <th scope="col" class="name">{t("column.document")}</th>
      <th scope="col">{t("column.status")}</th>
      <th scope="col" class="number">{t("column.pages")}</th>
      <th scope="col" class="number">{t("column.chunks")}</th>
      <th scope="col" class="number">{t("column.size")}</th>
      <th scope="col" class="time">{t("column.changed")}</th>
    </>
  );
}

function Row({ item, position, parts, ticks }: { item: DocumentOut; position: number; parts: string[]; ticks: Ticks | null }) {
  const name = item.title || item.source;
  return (
    <tr aria-rowindex={position + 2}>
      {ticks && (
        <td class="tick">
          <input type="checkbox" aria-label={t("documents.tickOne", { name })} checked={ticks.ids.has(item.id)} onChange={() => ticks.toggle(item.id)} />
        </td>
      )}
      <th scope="row" title={name}>
        <a href={buildPath([...parts, "documents", item.id])}>{name}</a>
        {item.title !== item.source && <span class="sub">{item.source}</span>}
      </th>
      <td>
        <StatusBadge status={item.status} />{" "}
        {item.warnings.length > 0 && <Badge tone="warn">{tn("warnings.count", item.warnings.length)}</Badge>}
        <StatusNote item={item} />
      </td>
      <td class="number">{item.page_count === null ? "–" : formatNumber(item.page_count)}</td>
      <td class="number">{formatNumber(item.chunk_count)}</td>
      <td class="number">{formatBytes(item.bytes)}</td>
      <td>
        <Time value={item.updated_at} />
      </td>
    </tr>
  );
}

/** Reason of a failure, or what a document waits for. */
export function StatusNote({ item }: { item: DocumentOut }) {
  if (item.error) return <span class="sub bad-text">{String(item.error.message ?? item.error.code)}</span>;
  const { waiting_for: waitingFor, done, total } = item.progress ?? {};
  if (typeof waitingFor === "string") return <span class="sub">{t("documents.waitingFor", { what: waitingFor })}</span>;
  if (typeof done === "number" && typeof total === "number") {
    return <span class="sub">{t("documents.progress", { done, total })}</span>;
  }
  return null;
}
