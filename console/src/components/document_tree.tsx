// The tree of a document: nested lists whose branches open and close, linked with the list of chunks.
import { useEffect, useState } from "preact/hooks";
import { useResource } from "../api/resource";
import type { DocumentTreeOut, TreeNodeOut } from "../api/schema";
import { t } from "../i18n";
import { buildPath } from "../router";
import { Section } from "./parts";
import { EmptyState, Loaded } from "./states";

/** Children that are listed at first, and with each click on "more". */
const STEP = 100;
const TITLE_CHARACTERS = 90;

export interface TreeChoice {
  parts: string[];
  /** Node whose chunks are listed. */
  node: string | null;
  /** Chosen chunk, and the nodes from the root to its own. */
  chunk: string | null;
  chunkNodes: string[];
}

export function DocumentTree({ path, choice }: { path: string; choice: TreeChoice }) {
  const tree = useResource<DocumentTreeOut>(`${path}/tree`);
  const all = choice.node && <a href={buildPath(choice.parts, { chunk: choice.chunk })}>{t("document.allChunks")}</a>;
  return (
    <Section title={t("document.tree")} actions={all}>
      <Loaded resource={tree}>
        {({ root }) =>
          root === null ? (
            <EmptyState title={t("document.noTree")} />
          ) : (
            <div class="document-tree">
              <Branches nodes={[root]} choice={choice} opened={findAncestors(root, choice.node)} />
            </div>
          )
        }
      </Loaded>
    </Section>
  );
}

/** Return the ids of the nodes from the root to a node; empty without it. */
function findAncestors(root: TreeNodeOut, id: string | null): string[] {
  if (id === null) return [];
  const parents = new Map<string, string | null>();
  const pending = [root];
  for (let node = pending.pop(); node; node = pending.pop()) {
    parents.set(node.id, node.parent_id);
    pending.push(...node.children);
  }
  const found: string[] = [];
  for (let at: string | null = parents.has(id) ? id : null; at !== null; at = parents.get(at) ?? null) found.push(at);
  return found;
}

function Branches({ nodes, choice, opened }: { nodes: TreeNodeOut[]; choice: TreeChoice; opened: string[] }) {
  const isOnWay = ({ id }: TreeNodeOut) => opened.includes(id) || choice.chunkNodes.includes(id);
  const [shown, setShown] = useState(STEP);
  const count = Math.max(shown, nodes.findIndex(isOnWay) + 1);
  return (
    <ul>
      {nodes.slice(0, count).map((node) => (
        <Branch key={node.id} node={node} choice={choice} opened={opened} isOnWay={isOnWay(node)} />
      ))}
      {nodes.length > count && (
        <li>
          <button type="button" class="button" onClick={() => setShown(count + STEP)}>
            {t("document.moreNodes", { count: nodes.length - count })}
          </button>
        </li>
      )}
    </ul>
  );
}

function Branch(props: { node: TreeNodeOut; choice: TreeChoice; opened: string[]; isOnWay: boolean }) {
  const { node, choice, opened, isOnWay } = props;
  const [isOpen, setOpen] = useState(isOnWay || node.depth === 0);
  useEffect(() => {
    if (isOnWay) setOpen(true);
  }, [isOnWay, choice.node, choice.chunk]);
  const title = formatNode(node);
  const isOfChunk = choice.chunkNodes.at(-1) === node.id;
  return (
    <li>
      <div class={isOfChunk ? "node of-chunk" : "node"}>
        {node.children.length > 0 ? (
          <button
            type="button"
            class="node-toggle"
            aria-expanded={isOpen}
            aria-label={t("document.branch", { title })}
            onClick={() => setOpen(!isOpen)}
          />
        ) : (
          <span class="node-toggle" />
        )}
        <a
          href={buildPath(choice.parts, { chunk: choice.chunk, node: node.id })}
          aria-current={choice.node === node.id ? "true" : undefined}
        >
          {title}
        </a>
        {isOfChunk && <span class="small">{t("document.nodeOfChunk")}</span>}
      </div>
      {isOpen && node.children.length > 0 && <Branches nodes={node.children} choice={choice} opened={opened} />}
    </li>
  );
}

function formatNode(node: TreeNodeOut): string {
  const text = (node.title || node.text || "").trim();
  if (!text) return node.block ?? node.kind;
  return text.length > TITLE_CHARACTERS ? `${text.slice(0, TITLE_CHARACTERS)}…` : text;
}
