// How well a file can be read: the quality report of a preview, what was not read, and the warnings.
import type { PreviewOut } from "../api/schema";
import { formatNumber, formatPercent, t, tn } from "../i18n";
import { Badge, Fact, Facts, Warnings } from "./parts";

export function PreviewQuality({ preview }: { preview: PreviewOut }) {
  const { quality, loss } = preview;
  return (
    <>
      <Facts>
        <Fact term={t("document.mediaType")}>{preview.media_type}</Fact>
        {preview.title && <Fact term={t("upload.titleOf")}>{preview.title}</Fact>}
        {preview.page_count !== null && <Fact term={t("column.pages")}>{formatNumber(preview.page_count)}</Fact>}
        <Fact term={t("preview.text")}>
          {t("preview.characters", { count: quality.characters })}, {tn("tokens.count", quality.tokens)}
        </Fact>
        <Fact term={t("preview.tables")}>{formatNumber(quality.tables)}</Fact>
        <Fact term={t("preview.images")}>{formatNumber(quality.images)}</Fact>
        <Fact term={t("preview.garbled")}>{formatPercent(quality.garbled_ratio)}</Fact>
        {preview.page_count !== null && (
          <>
            <Fact term={t("preview.emptyPages")}>{formatPages(quality.empty_pages)}</Fact>
            <Fact term={t("preview.scans")}>{formatPages(quality.suspected_scans)}</Fact>
          </>
        )}
        <Fact term={t("preview.leftOut")}>
          {t("preview.words", { count: loss.words_left_out, share: formatPercent(loss.left_out_share) })}
        </Fact>
        {Object.entries(loss.counts).map(([code, count]) => (
          <Fact key={code} term={t("preview.notRead")}>
            <Badge tone="warn">{code}</Badge> {formatNumber(count)}
          </Fact>
        ))}
      </Facts>
      <Warnings warnings={preview.warnings} />
    </>
  );
}

const formatPages = (pages: number[]): string => (pages.length ? pages.map(formatNumber).join(", ") : t("preview.noPages"));
