// Files of a drop or of a file field, with their paths below the chosen folder.

export interface ChosenFile {
  file: File;
  /** Path below the folder that was chosen, or the name of the file. */
  path: string;
}

export function readFileField(field: HTMLInputElement): ChosenFile[] {
  return [...(field.files ?? [])].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
}

/** Return the files of a drop. Folders are read with all folders below them. */
export async function readDrop(transfer: DataTransfer): Promise<ChosenFile[]> {
  // The items are only readable during the event, so all entries are taken before the first pause.
  const items = [...transfer.items].filter(({ kind }) => kind === "file");
  const taken = items.map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const found = taken.map(({ entry, file }) => (entry ? readEntry(entry) : file ? [{ file, path: file.name }] : []));
  return (await Promise.all(found)).flat();
}

async function readEntry(entry: FileSystemEntry): Promise<ChosenFile[]> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ file, path: entry.fullPath.replace(/^\//, "") }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const files: ChosenFile[] = [];
  for (;;) {
    // A reader returns a part of the folder at a time, and nothing at its end.
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (part.length === 0) return files;
    for (const child of part) files.push(...(await readEntry(child)));
  }
}
