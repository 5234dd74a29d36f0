// Small parts of screens: badges, facts, figures, warnings.
import type { ComponentChildren } from "preact";
import type { DocumentOut, WarningOut } from "../api/schema";
import { formatTime, t, type TextKey } from "../i18n";

export type Tone = "neutral" | "good" | "warn" | "bad";

export function Badge({ tone = "neutral", children }: { tone?: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

type Status = DocumentOut["status"];
const STATUS_NAMES: Record<Status, [TextKey, Tone]> = {
  queued: ["status.queued", "neutral"],
  parsing: ["status.parsing", "neutral"],
  chunking: ["status.chunking", "neutral"],
  embedding: ["status.embedding", "neutral"],
  ready: ["status.ready", "good"],
  failed: ["status.failed", "bad"],
};
export const STATUSES = Object.keys(STATUS_NAMES) as Status[];

export const formatStatus = (status: Status): string => t(STATUS_NAMES[status][0]);

export function StatusBadge({ status }: { status: Status }) {
  return <Badge tone={STATUS_NAMES[status][1]}>{formatStatus(status)}</Badge>;
}

export function Time({ value }: { value: string }) {
  return (
    <time dateTime={value} title={value}>
      {formatTime(value)}
    </time>
  );
}

/** A list of terms and their values. */
export function Facts({ children }: { children: ComponentChildren }) {
  return <dl class="facts">{children}</dl>;
}

export function Fact({ term, children }: { term: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function Figure({ label, value, tone }: { label: string; value: string; tone?: Tone }) {
  return (
    <div class={`figure ${tone ?? ""}`}>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </div>
  );
}

export function Warnings({ warnings }: { warnings: WarningOut[] }) {
  if (warnings.length === 0) return null;
  return (
    <ul class="notices">
      {warnings.map(({ code, message }) => (
        <li key={code}>
          <Badge tone="warn">{code}</Badge> <span>{message}</span>
        </li>
      ))}
    </ul>
  );
}

export function Section({ title, actions, children }: { title: string; actions?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="section">
      <div class="section-head">
        <h2>{title}</h2>
        {actions}
      </div>
      {children}
    </section>
  );
}

/** A table that scrolls inside its frame on narrow screens. */
export function DataTable({ label, head, children }: { label: string; head: ComponentChildren; children: ComponentChildren }) {
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>{head}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
