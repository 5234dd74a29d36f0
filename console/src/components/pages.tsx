// Links to the next page of a list and back to its first page. The address has the cursor, so "back" works.
import { t } from "../i18n";
import { buildPath, location, type Query } from "../router";

export function Pages(props: { parts: string[]; query?: Query; nextCursor: string | null | undefined }) {
  const isFirst = !location.value.query.get("cursor");
  if (isFirst && !props.nextCursor) return null;
  return (
    <nav class="pages" aria-label={t("pages.label")}>
      {!isFirst && <a href={buildPath(props.parts, props.query)}>{t("pages.first")}</a>}
      {props.nextCursor && (
        <a href={buildPath(props.parts, { ...props.query, cursor: props.nextCursor })}>{t("pages.next")}</a>
      )}
    </nav>
  );
}
