// Paths of screens below the root path of the service, and navigation without a reload.
import { computed, signal } from "@preact/signals";

/** Path below which a proxy serves the service; empty without one. */
export const ROOT = document.documentElement.dataset.root ?? "";

export interface Location {
  path: string;
  query: URLSearchParams;
}

function readLocation(): Location {
  const { pathname, search } = window.location;
  const path = pathname.startsWith(ROOT) ? pathname.slice(ROOT.length) : pathname;
  return { path: path || "/", query: new URLSearchParams(search) };
}

export const location = signal<Location>(readLocation());

/** Decoded parts of the path; a part that is not valid UTF-8 stays as it is. */
export const pathParts = computed(() => location.value.path.split("/").filter(Boolean).map(decodePart));

export function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export type Query = Record<string, string | number | null | undefined>;

/** Return the path of a screen. Each part is encoded; empty query parameters are left out. */
export function buildPath(parts: string[], query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
  }
  const path = `${ROOT}/${parts.map(encodeURIComponent).join("/")}`;
  return search.size ? `${path}?${search}` : path;
}

/** Answers whether leaving the screen loses work; null if the screen has none. */
let losesWork: (() => boolean) | null = null;

/** What the person wanted to do instead, while the screen asks whether its work may be lost. */
export const pendingLeave = signal<(() => void) | null>(null);

/** Ask before the screen is left, if `check` answers that work would be lost. Returns the end of the guard. */
export function guardScreen(check: () => boolean): () => void {
  losesWork = check;
  const warn = (event: BeforeUnloadEvent) => check() && event.preventDefault();
  window.addEventListener("beforeunload", warn);
  return () => {
    losesWork = null;
    pendingLeave.value = null;
    window.removeEventListener("beforeunload", warn);
  };
}

/** Do what leaves the screen, after a question if work would be lost. */
export function leaveScreen(go: () => void): void {
  if (losesWork?.()) pendingLeave.value = go;
  else go();
}

export function navigate(path: string, options: { replace?: boolean } = {}): void {
  const isSameScreen = new URL(path, window.location.href).pathname === window.location.pathname;
  if (isSameScreen) moveTo(path, options);
  else leaveScreen(() => moveTo(path, options));
}

function moveTo(path: string, options: { replace?: boolean }): void {
  if (options.replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  const before = location.value.path;
  location.value = readLocation();
  if (!options.replace && location.value.path !== before) window.scrollTo(0, 0);
}

/** Follow the back button, after a question if work would be lost: until the answer, the address stays. */
function followHistory(): void {
  const target = window.location.pathname + window.location.search;
  const { path, query } = location.value;
  if (readLocation().path === path || !losesWork?.()) {
    location.value = readLocation();
    return;
  }
  history.pushState(null, "", `${ROOT}${path}${query.size ? `?${query}` : ""}`);
  pendingLeave.value = () => moveTo(target, {});
}

export function startRouter(): void {
  window.addEventListener("popstate", followHistory);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("data-external")) return;
    if (link.origin !== window.location.origin) return;
    if (link.hash && link.pathname === window.location.pathname) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}
