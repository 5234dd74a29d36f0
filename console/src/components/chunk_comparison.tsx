// Two chunkings of a file in figures: number of chunks, their sizes, and how many chunks both have.
import { countSizes, listRanges, measureChunks, nameRange } from "../api/preview";
import type { PreviewOut } from "../api/schema";
import { formatNumber, t } from "../i18n";
import { DataTable } from "./parts";

const BARS = 20;
const WIDTH = 10;
const HEIGHT = 48;

interface ComparisonProps {
  names: [string, string];
  previews: [PreviewOut, PreviewOut];
}

export function ChunkComparison({ names, previews }: ComparisonProps) {
  const sizes = previews.map(({ chunks }) => measureChunks(chunks));
  const largest = Math.max(...sizes.map((size) => size.largest));
  const ranges = listRanges(previews[1]);
  const shared = previews[0].chunks.filter((chunk) => ranges.has(nameRange(chunk))).length;
  const isCut = previews.some(({ chunks, total_chunks: total }) => chunks.length < total);
  const rows: [string, number[]][] = [
    [t("column.chunks"), previews.map(({ total_chunks: total }) => total)],
    [t("preview.smallest"), sizes.map(({ smallest }) => smallest)],
    [t("preview.median"), sizes.map(({ median }) => median)],
    [t("preview.largest"), sizes.map((size) => size.largest)],
    [t("preview.sum"), sizes.map(({ sum }) => sum)],
    [t("preview.inBoth"), [shared, shared]],
  ];
  return (
    <>
      <DataTable label={t("preview.comparison")} head={<Head names={names} />}>
        {rows.map(([label, values]) => (
          <tr key={label}>
            <th scope="row">{label}</th>
            {values.map((value, index) => (
              <td key={index} class="number">
                {formatNumber(value)}
              </td>
            ))}
          </tr>
        ))}
      </DataTable>
      {isCut && <p class="muted small">{t("preview.cut")}</p>}
      <div class="charts">
        {previews.map((preview, index) => (
          <SizeBars key={index} name={names[index] ?? ""} preview={preview} largest={largest} />
        ))}
      </div>
    </>
  );
}

function Head({ names }: { names: [string, string] }) {
  return (
    <>
      <th scope="col">{t("preview.figure")}</th>
      {names.map((name, index) => (
        <th key={index} scope="col" class="number">
          {name}
        </th>
      ))}
    </>
  );
}

/** Chunks by size. Both charts have the same sizes, so that they can be compared; the table has the figures. */
function SizeBars({ name, preview, largest }: { name: string; preview: PreviewOut; largest: number }) {
  const counts = countSizes(preview.chunks, largest, BARS);
  const highest = Math.max(1, ...counts);
  return (
    <figure class="chart">
      <figcaption>
        <span>{t("preview.sizesOf", { name })}</span>
      </figcaption>
      <svg viewBox={`0 0 ${BARS * WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {counts.map((count, index) => {
          const height = count ? Math.max(2, (count / highest) * HEIGHT) : 1;
          return <rect key={index} class={count ? "bar" : "bar none"} x={index * WIDTH + 1} y={HEIGHT - height} width={WIDTH - 2} height={height} />;
        })}
      </svg>
      <div class="chart-ends muted small">
        <span>{formatNumber(0)}</span>
        <span>{t("preview.upTo", { count: largest })}</span>
      </div>
    </figure>
  );
}
