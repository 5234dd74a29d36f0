// Uploads and searches of each day as two rows of bars, with the same figures as a table for screen readers.
import type { UsageOut } from "../api/schema";
import { formatNumber, locale, t, type TextKey } from "../i18n";

const MAX_DAYS = 62;
const WIDTH = 10;
const HEIGHT = 48;

interface Day {
  day: string;
  uploads: number;
  searches: number;
}

/** Return every day of the range; days without usage have zeros. */
function fillDays(items: UsageOut["items"], from: string, to: string): Day[] {
  const known = new Map(items.flatMap((item) => ("day" in item ? [[item.day, item] as const] : [])));
  const days: Day[] = [];
  const end = Date.parse(to);
  for (let time = Date.parse(from); time <= end && days.length < MAX_DAYS; time += 86_400_000) {
    const day = new Date(time).toISOString().slice(0, 10);
    const item = known.get(day);
    days.push({ day, uploads: item?.uploads ?? 0, searches: item?.searches ?? 0 });
  }
  return days;
}

const formatDay = (day: string): string =>
  new Intl.DateTimeFormat(locale.value, { day: "numeric", month: "short", timeZone: "UTC" }).format(new Date(day));

export function UsageChart({ items, from, to }: { items: UsageOut["items"]; from: string; to: string }) {
  const days = fillDays(items, from, to);
  return (
    <div class="charts">
      <DayBars days={days} field="searches" label="overview.searchesPerDay" />
      <DayBars days={days} field="uploads" label="overview.uploadsPerDay" />
    </div>
  );
}

function DayBars({ days, field, label }: { days: Day[]; field: "uploads" | "searches"; label: TextKey }) {
  const highest = Math.max(1, ...days.map((day) => day[field]));
  const total = days.reduce((sum, day) => sum + day[field], 0);
  const first = days[0];
  const last = days.at(-1);
  return (
    <figure class="chart">
      <figcaption>
        <span>{t(label)}</span>
        <span class="muted">{t("overview.total", { count: total })}</span>
      </figcaption>
      <svg viewBox={`0 0 ${days.length * WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {days.map((day, index) => {
          const height = day[field] ? Math.max(2, (day[field] / highest) * HEIGHT) : 1;
          return (
            <rect key={day.day} class={day[field] ? "bar" : "bar none"} x={index * WIDTH + 1} y={HEIGHT - height} width={WIDTH - 2} height={height}>
              <title>{`${formatDay(day.day)}: ${formatNumber(day[field])}`}</title>
            </rect>
          );
        })}
      </svg>
      <div class="chart-ends muted small">
        <span>{first && formatDay(first.day)}</span>
        <span>{last && formatDay(last.day)}</span>
      </div>
    </figure>
  );
}
