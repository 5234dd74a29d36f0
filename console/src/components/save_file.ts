// Save a reply of the API as a file.

// Browsers read the address of the file after the click.
const KEPT_MS = 60_000;

export function saveFile(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}
