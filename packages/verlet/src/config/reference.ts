// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { z } from 'zod';
import { type Alias, aliasesOf } from './aliases/index.js';
import { UserError } from './errors.js';
import { metaOf } from './field.js';
import { scalar } from './render.js';
import { type ConfigKind, schemas } from './schema/index.js';
import { childrenOf, leavesOf, nearestKeys, placeOf } from './tree.js';
import { typeText } from './type-text.js';

/** Everything that is generated from the schema: the reference page, commented YAML files, explanations, JSON Schema. */

const TITLES: Record<ConfigKind, { command: string; file: string }> = {
  ppo: { command: 'verlet train', file: 'ppo_trainer.yaml' },
  sft: { command: 'verlet sft', file: 'sft_trainer.yaml' },
  generation: { command: 'verlet generate', file: 'generation.yaml' },
  evaluation: { command: 'verlet eval', file: 'evaluation.yaml' },
};

export const jsonSchemaOf = (kind: ConfigKind): unknown =>
  z.toJSONSchema(schemas[kind], { io: 'input', unrepresentable: 'any' });

/** `docs/reference/config.md`. */
export function renderReference(): string {
  const kinds = Object.keys(schemas) as ConfigKind[];
  return `${[
    '# Configuration keys',
    '',
    'This page is generated from the schema by `node scripts/generate-config-reference.mjs`; a test holds it up to date.',
    '',
    "Names and defaults are verl's. Where a default differs, the last column says so. Defaults with `${...}` follow another",
    'key. `???` must be given. Keys under "no effect" are accepted so that command lines written for verl load as they are;',
    'those that a run sets are listed in one line at its start. `verlet config --explain KEY` prints the same in a terminal.',
    '',
    ...kinds.map(
      (kind) =>
        `- [\`${TITLES[kind].command}\`](#${anchor(TITLES[kind].command)}) (${TITLES[kind].file}): ${metaOf(schemas[kind]).description.split(':')[0]}`,
    ),
    '- [Other names that are understood](#other-names-that-are-understood)',
    '',
    ...kinds.flatMap(renderKind),
    ...renderAliases(),
  ].join('\n')}\n`;
}

function renderKind(kind: ConfigKind): string[] {
  const lines = [`## ${TITLES[kind].command}`, ''];
  const visit = (schema: z.ZodType, path: string[]): void => {
    const children = Object.entries(childrenOf(schema) ?? {});
    const leaves = children.filter(([, child]) => childrenOf(child) === null);
    const groups = children.filter(([, child]) => childrenOf(child) !== null);
    if (path.length > 0) lines.push(`### ${path.join('.')}`, '', metaOf(schema).description, '');
    const active = leaves.filter(([, child]) => metaOf(child).inert === undefined);
    if (active.length > 0) {
      lines.push('| key | takes | default | meaning |', '| --- | --- | --- | --- |');
      for (const [name, child] of active) {
        const meta = metaOf(child);
        const differs = meta.differs === undefined ? '' : ` (${meta.differs})`;
        lines.push(
          `| \`${name}\` | ${cell(typeText(child))} | \`${cell(scalar(meta.default))}\` | ${cell(meta.description + differs)} |`,
        );
      }
      lines.push('');
    }
    const idle = leaves.filter(([, child]) => metaOf(child).inert !== undefined);
    if (idle.length > 0) {
      lines.push(
        `No effect: ${idle.map(([name, child]) => `\`${name}\` (${cell(metaOf(child).inert!)})`).join(', ')}.`,
        '',
      );
    }
    for (const [name, child] of groups) visit(child, [...path, name]);
  };
  visit(schemas[kind], []);
  return lines;
}

function renderAliases(): string[] {
  const lines = [
    '## Other names that are understood',
    '',
    'A run that uses one of them prints what it was taken for.',
    '',
  ];
  const all = [
    ...new Map(
      Object.values(aliasesOf)
        .flat()
        .map((alias) => [alias.from, alias]),
    ).values(),
  ];
  for (const family of [...new Set(all.map((alias) => alias.family))]) {
    lines.push(`### ${family}`, '', '| written | taken for |', '| --- | --- |');
    for (const alias of all.filter((candidate) => candidate.family === family)) {
      lines.push(`| \`${alias.from}\` | ${cell(aliasText(alias))} |`);
    }
    lines.push('');
  }
  lines.pop();
  return lines;
}

/** Some names translate only certain values; the first value that says something stands for all. */
function aliasText(alias: Alias): string {
  const results = ['x', true, 0].map((value) => alias.apply(value, '*'));
  const telling = results.find((result) => result !== null && 'set' in result && result.set.length > 0) ?? results[0];
  if (telling && 'set' in telling && telling.set.length > 0)
    return telling.set.map(([key]) => `\`${key}\``).join(' and ');
  return telling && 'ignored' in telling ? `no effect: ${telling.ignored}` : 'counts together with the keys around it';
}

/** A commented YAML file with every key and its default. */
export function renderTemplate(kind: ConfigKind): string {
  const lines = [
    `# ${TITLES[kind].file}: all keys of \`${TITLES[kind].command}\` with their defaults. Keep only what you change.`,
  ];
  const visit = (schema: z.ZodType, depth: number): void => {
    for (const [name, child] of Object.entries(childrenOf(schema) ?? {})) {
      const meta = metaOf(child);
      const pad = '  '.repeat(depth);
      if (depth === 0) lines.push('');
      const note = meta.inert === undefined ? '' : ` No effect here: ${meta.inert}.`;
      lines.push(`${pad}# ${meta.description}${note}`);
      if (childrenOf(child) === null) {
        lines.push(`${pad}${scalar(name)}: ${scalar(meta.default)}`);
      } else {
        lines.push(`${pad}${name}:`);
        visit(child, depth + 1);
      }
    }
  };
  visit(schemas[kind], 0);
  return `${lines.join('\n')}\n`;
}

/** `ppo_megatron_trainer.yaml`: the Megatron keys, each with what takes its place, over `ppo_trainer`. */
export function renderMegatronTemplate(): string {
  const lines = [
    '# ppo_megatron_trainer.yaml: what Megatron keys mean here. They are accepted; the comment says what takes their place.',
    'defaults:',
    '  - ppo_trainer',
    '  - _self_',
    '',
  ];
  const roles: [string[], string[]][] = [
    [
      ['actor_rollout_ref', 'actor'],
      ['strategy', 'megatron'],
    ],
    [
      ['actor_rollout_ref', 'ref'],
      ['strategy', 'megatron'],
    ],
    [['critic'], ['strategy', 'megatron']],
  ];
  const open: string[] = [];
  for (const [role, keys] of roles) {
    for (const [depth, name] of role.entries()) {
      if (open[depth] === name) continue;
      open.splice(depth, open.length, name);
      lines.push(`${'  '.repeat(depth)}${name}:`);
    }
    const pad = '  '.repeat(role.length);
    for (const key of keys) {
      const { schema } = placeOf(schemas.ppo, [...role, key])!;
      if (key === 'strategy') lines.push(`${pad}strategy: megatron`);
      else lines.push(`${pad}${key}:`, ...megatronLines(schema, role.join('.'), `${pad}  `));
    }
  }
  return `${lines.join('\n')}\n`;
}

function megatronLines(schema: z.ZodType, role: string, pad: string): string[] {
  const declared = Object.entries(childrenOf(schema) ?? {}).flatMap(([name, child]) => [
    `${pad}# ${metaOf(child).description} Here: ${metaOf(child).inert}.`,
    `${pad}${name}: ${scalar(metaOf(child).default)}`,
  ]);
  const renamed = aliasesOf.ppo
    .filter(({ from }) => from.startsWith(`${role}.megatron.`))
    .map((alias) => `${pad}# ${alias.from.slice(`${role}.megatron.`.length)}: here ${aliasText(alias)}`);
  return [...declared, ...renamed];
}

/** What a key, or each key of a group, means. */
export function renderExplanation(kind: ConfigKind, key: string): string {
  const path = key.split('.').filter((segment) => segment !== '');
  const place = placeOf(schemas[kind], path);
  if (place === null) {
    const near = nearestKeys(schemas[kind], path);
    throw new UserError(`there is no key ${key}${near.length > 0 ? `; did you mean ${near.join(' or ')}?` : ''}`, {
      exitCode: 2,
    });
  }
  const known = path.slice(0, place.depth);
  const blocks = leavesOf(place.schema, known).map(({ path: leaf, schema }) => {
    const meta = metaOf(schema);
    const lines = [
      leaf.join('.'),
      `  ${meta.description}`,
      `  takes ${typeText(schema)}; default ${scalar(meta.default)}`,
    ];
    if (meta.inert !== undefined) lines.push(`  no effect here: ${meta.inert}`);
    if (meta.differs !== undefined) lines.push(`  ${meta.differs}`);
    return lines.join('\n');
  });
  const heading = childrenOf(place.schema) === null ? [] : [metaOf(place.schema).description];
  return [...heading, ...blocks].join('\n\n');
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const anchor = (title: string): string => title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');
