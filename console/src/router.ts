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

export function navigate(path: string, options: { replace?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  const before = location.value.path;
  location.value = readLocation();
  if (!options.replace && location.value.path !== before) window.scrollTo(0, 0);
}

export function startRouter(): void {
  window.addEventListener("popstate", () => (location.value = readLocation()));
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
