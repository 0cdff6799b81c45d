#!/usr/bin/env node
// Writes src/generated/ops.ts: a typed wrapper for each operator in operators.txt, from the schemas of the built addon.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const { native } = await import(pathToFileURL(join(here, '../dist/load.js')).href);
const names = readFileSync(join(here, 'operators.txt'), 'utf8')
  .split('\n')
  .map((line) => line.trim())
  .filter((line) => line && !line.startsWith('#'));
const reserved = new Set(['var', 'function', 'default', 'in', 'new', 'delete', 'with', 'dtype']);

const types = {
  T: 'Tensor',
  i: 'number',
  f: 'number',
  b: 'boolean',
  S: 'number | boolean',
  s: 'string',
  d: 'string',
  I: 'readonly number[]',
  F: 'readonly number[]',
  B: 'readonly boolean[]',
  L: 'readonly Tensor[]',
  O: 'readonly (Tensor | null)[]',
};
const puts = {
  T: 'putTensor',
  i: 'putNumber',
  f: 'putNumber',
  b: 'putFlag',
  S: 'putScalar',
  s: 'putString',
  d: 'putString',
  I: 'putNumbers',
  F: 'putNumbers',
  B: 'putFlags',
  L: 'putTensors',
  O: 'putTensors',
};
const returned = { T: 'Tensor', L: 'Tensor[]', i: 'number', f: 'number', S: 'number', b: 'boolean' };

const camel = (name) => {
  const word = name.replace(/_+([a-z0-9])/g, (_, letter) => letter.toUpperCase());
  return reserved.has(word) ? `${word}_` : word;
};

function wrapper(full) {
  const info = native.resolve(full);
  const name = full
    .replace(/^aten::/, '')
    .replace('::', '_')
    .replace('.', '_');
  const dtypes = new Set([...info.schema.matchAll(/ScalarType\??\s+(\w+)/g)].map((match) => match[1]));
  const parameters = [];
  const lines = [];
  let fixed = 0;
  info.arguments.forEach((argument, k) => {
    if (argument.kind === 'g' || argument.kind === '?') return;
    const isDType = argument.kind === 'i' && dtypes.has(argument.name);
    const id = camel(argument.name === 'self' ? 'self' : argument.name);
    const type = isDType ? 'DType' : types[argument.kind];
    const put = isDType ? 'putDType' : puts[argument.kind];
    const omittable = argument.hasDefault || argument.optional;
    parameters.push(`${id}${omittable ? '?' : ''}: ${type}${argument.optional ? ' | null' : ''}`);
    const nullable = argument.optional && argument.kind !== 'T';
    const write = nullable ? `${id} === null ? putFlag(false) : (putFlag(true), ${put}(${id}))` : `${put}(${id})`;
    if (omittable) lines.push(`  if (${id} !== undefined) {\n    provided += ${2 ** k};\n    ${write};\n  }`);
    else {
      fixed += 2 ** k;
      lines.push(`  ${write};`);
    }
  });
  // A required argument after an optional one cannot be optional in TypeScript's eyes.
  for (let k = parameters.length - 1, seen = false; k >= 0; k--) {
    if (!parameters[k].includes('?:')) seen = true;
    else if (seen) parameters[k] = `${parameters[k].replace('?:', ':')} | undefined`;
  }
  const kinds = info.returns.map((kind, k) => (info.aliases[k] >= 0 ? '-' : kind)).join('');
  const aliasName = (k) => camel(info.arguments[info.aliases[k]].name);
  const values = info.returns.map((kind, k) => (info.aliases[k] >= 0 ? 'Tensor' : returned[kind]));
  const type = values.length === 0 ? 'void' : values.length === 1 ? values[0] : `[${values.join(', ')}]`;
  let tail;
  if (info.singleTensor) tail = '  return callTensor(handle, provided);';
  else if (kinds.replace(/-/g, '') === '')
    tail = `  callVoid(handle, provided);${values.length === 0 ? '' : values.length === 1 ? `\n  return ${aliasName(0)};` : `\n  return [${values.map((_, k) => aliasName(k)).join(', ')}];`}`;
  else if (values.length === 1) tail = `  return callMany(handle, provided, '${kinds}')[0] as ${type};`;
  else if (!kinds.includes('-')) tail = `  return callMany(handle, provided, '${kinds}') as ${type};`;
  else
    tail = `  const made = callMany(handle, provided, '${kinds}') as Tensor[];\n  return [${(() => {
      let next = 0;
      return values.map((_, k) => (info.aliases[k] >= 0 ? aliasName(k) : `made[${next++}]!`)).join(', ');
    })()}];`;
  const body = lines.some((line) => line.includes('provided +='))
    ? `  let provided = ${fixed};`
    : `  const provided = ${fixed};`;
  return `/** \`${info.schema}\` */\nexport function ${name}(${parameters.join(', ')}): ${type} {\n  const handle = (handle_${name} ??= resolve('${full}'));\n  begin();\n${body}\n${lines.join('\n')}\n${tail}\n}\nlet handle_${name}: number | undefined;\n`;
}

const head = `// Made by scripts/generate-ops.mjs from libtorch's own schemas; do not edit.\nimport { begin, callMany, callTensor, callVoid, putDType, putFlag, putFlags, putNumber, putNumbers, putScalar, putString, putTensor, putTensors, resolve } from '../door.js';\nimport type { DType } from '../dtype.js';\nimport type { Tensor } from '../tensor.js';\n`;
const parts = [];
for (const full of names) {
  try {
    parts.push(wrapper(full));
  } catch (error) {
    console.error(`left out: ${full}: ${error.message}`);
  }
}
writeFileSync(join(here, '../src/generated/ops.ts'), `${head}\n${parts.join('\n')}`);
console.log(`${parts.length} wrappers written`);
