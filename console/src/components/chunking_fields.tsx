// Fields of a chunking, made from the schemas of the chunkers in the capabilities of the service.
import type { FieldFault } from "../api/client";
import { resolveSchema, type Fields, type JsonSchema } from "../api/json_schema";
import type { Chunking } from "../api/preview";
import type { ComponentOut } from "../api/schema";
import { t } from "../i18n";
import { SelectField } from "./fields";
import { isFaultOf, SchemaFields } from "./schema_form";

interface FieldsProps {
  legend: string;
  /** Name of the choice that names no chunker. */
  none: string;
  chunkers: ComponentOut[];
  value: Chunking | null;
  errors: FieldFault[];
  change: (value: Chunking | null) => void;
}

export function ChunkingFields({ legend, none, chunkers, value, errors, change }: FieldsProps) {
  const chunker = chunkers.find(({ name }) => name === value?.strategy);
  const fault = errors.find((error) => isFaultOf(error, ["chunking", "strategy"]));
  return (
    <fieldset class="chunking-fields">
      <legend>{legend}</legend>
      <SelectField
        label={t("preview.chunker")}
        hint={chunker?.description}
        error={fault?.msg}
        value={value?.strategy ?? ""}
        change={(strategy) => change(strategy ? { ...keepSizes(value), strategy } : null)}
        choices={[{ value: "", label: none }, ...listChoices(chunkers, value)]}
      />
      {value && chunker && (
        <SchemaFields
          key={chunker.name}
          schema={resolveSchema(chunker.options as JsonSchema, {})}
          path={["chunking"]}
          errors={errors}
          titles={{ "chunking.max_tokens": "preview.maxTokens", "chunking.overlap_tokens": "preview.overlap", "chunking.options": "preview.options" }}
          value={value}
          change={(fields) => change({ ...fields, strategy: value.strategy })}
        />
      )}
    </fieldset>
  );
}

/** Sizes stay when the chunker changes; its options do not, because the next chunker has others. */
function keepSizes(value: Chunking | null): Fields {
  if (!value) return {};
  return Object.fromEntries(Object.entries(value).filter(([name]) => name === "max_tokens" || name === "overlap_tokens"));
}

/** A chunker of the address that the service does not have stays visible; the API then says what it knows. */
function listChoices(chunkers: ComponentOut[], value: Chunking | null) {
  const names = chunkers.map(({ name }) => name);
  const all = value && !names.includes(value.strategy) ? [...names, value.strategy] : names;
  return all.map((name) => ({ value: name, label: name }));
}
