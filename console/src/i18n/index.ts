// Texts in the chosen language, and numbers, sizes, dates and durations by `Intl`.
import { computed, signal } from "@preact/signals";
import de from "./de.json";
import en from "./en.json";

export type TextKey = keyof typeof en;
export type Language = "en" | "de";
type PluralKey<K> = K extends `${infer Base}.one` ? Base : never;

const CATALOGS: Record<Language, Record<TextKey, string>> = { en, de };
const STORED_LANGUAGE = "carrel.language";

function detectLanguage(): Language {
  const stored = readPreference(STORED_LANGUAGE);
  if (stored === "en" || stored === "de") return stored;
  return navigator.language.toLowerCase().startsWith("de") ? "de" : "en";
}

/** Read a preference of the person, never a key; a browser may forbid the storage. */
export function readPreference(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function writePreference(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // The preference then holds until the page is closed.
  }
}

export const language = signal<Language>(detectLanguage());

export function chooseLanguage(chosen: Language): void {
  writePreference(STORED_LANGUAGE, chosen);
  language.value = chosen;
}

type Values = Record<string, string | number>;

/** Return a text; `{name}` is replaced by the value of that name. */
export function t(key: TextKey, values: Values = {}): string {
  const text: string = CATALOGS[language.value][key] ?? key;
  return text.replace(/\{(\w+)\}/g, (placeholder, name: string) => {
    const value = values[name];
    return value === undefined ? placeholder : typeof value === "number" ? formatNumber(value) : value;
  });
}

/** Return the text for a number: `key.one` or `key.other`, with `{count}`. */
export function tn(key: PluralKey<TextKey>, count: number, values: Values = {}): string {
  const form = new Intl.PluralRules(language.value).select(count) === "one" ? "one" : "other";
  return t(`${key}.${form}` as TextKey, { ...values, count });
}

/** Locale of numbers and dates: the browser's own of the chosen language, such as en-GB, else the language. */
export const locale = computed(
  () => navigator.languages.find((name) => name.toLowerCase().startsWith(language.value)) ?? language.value,
);

const formats = computed(() => ({
  number: new Intl.NumberFormat(locale.value),
  score: new Intl.NumberFormat(locale.value, { minimumFractionDigits: 3, maximumFractionDigits: 3 }),
  percent: new Intl.NumberFormat(locale.value, { style: "percent", maximumFractionDigits: 1 }),
  signed: new Intl.NumberFormat(locale.value, { signDisplay: "exceptZero", minimumFractionDigits: 3, maximumFractionDigits: 3 }),
  dateTime: new Intl.DateTimeFormat(locale.value, { dateStyle: "medium", timeStyle: "short" }),
  relative: new Intl.RelativeTimeFormat(locale.value, { numeric: "auto" }),
}));

export const formatNumber = (value: number): string => formats.value.number.format(value);
export const formatScore = (value: number): string => formats.value.score.format(value);
export const formatPercent = (share: number): string => formats.value.percent.format(share);
export const formatSigned = (value: number): string => formats.value.signed.format(value);
export const formatTime = (time: string): string => formats.value.dateTime.format(new Date(time));

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

/** Return a time relative to now, such as "5 minutes ago". */
export function formatAge(time: string): string {
  const seconds = Math.min(0, Math.round((new Date(time).getTime() - Date.now()) / 1000));
  const [unit, length] = UNITS.find(([, size]) => -seconds >= size) ?? ["second", 1];
  return formats.value.relative.format(Math.ceil(seconds / length), unit);
}

const SIZES = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"] as const;

export function formatBytes(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(SIZES.length - 1, Math.floor(Math.log10(bytes) / 3));
  return new Intl.NumberFormat(locale.value, {
    style: "unit",
    unit: SIZES[power],
    unitDisplay: power ? "short" : "long",
    maximumFractionDigits: power ? 1 : 0,
  }).format(bytes / 1000 ** power);
}

export function formatMilliseconds(milliseconds: number): string {
  return new Intl.NumberFormat(locale.value, {
    style: "unit",
    unit: "millisecond",
    maximumFractionDigits: milliseconds < 10 ? 1 : 0,
  }).format(milliseconds);
}

/** Return a duration in its two largest units, such as "23 hours, 5 minutes". */
export function formatDuration(seconds: number): string {
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "day"],
    [Math.floor(seconds / 3600) % 24, "hour"],
    [Math.floor(seconds / 60) % 60, "minute"],
    [Math.floor(seconds) % 60, "second"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  const shown = first < 0 ? parts.slice(-1) : parts.slice(first, first + 2);
  return shown
    .map(([count, unit]) => new Intl.NumberFormat(locale.value, { style: "unit", unit, unitDisplay: "long" }).format(count))
    .join(", ");
}
