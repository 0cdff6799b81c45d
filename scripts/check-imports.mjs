// Holds the import direction of the design: a folder imports from its own level or from levels below, never from above,
// and two folders of one level do not import each other. Run alone it prints what breaks the rule; the tests run it too.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** From the top of the house to the ground. Folders of packages/verlet/src. */
export const LEVELS = [
  ['cli'],
  ['trainer'],
  ['controller', 'workers'],
  ['algorithms', 'rewards', 'agents', 'rollout'],
  ['models', 'data'],
  ['protocol', 'config'],
];

/** Packages of this workspace that a package may import by name. */
const PACKAGES = {
  torch: [],
  verlet: ['@verlet/torch'],
  dashboard: ['verlet'],
};

const IMPORT = /(?:^|[\s;}])(?:import|export)\s+(?:[^'";]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/g;

/** @returns {string[]} the modules that a source text imports, comments left out */
export function importsOf(text) {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
  return [...code.matchAll(IMPORT)].map((match) => match[1] ?? match[2]);
}

const levelOf = (folder) => LEVELS.findIndex((level) => level.includes(folder));

/**
 * @param {{ file: string, text: string }[]} sources paths relative to the repository, with forward slashes
 * @returns {string[]} one sentence per broken rule
 */
export function checkImports(sources) {
  const problems = [];
  const siblings = new Map();
  for (const { file, text } of sources) {
    const [, packageName, folder] = /^packages\/([^/]+)\/src\/(?:([^/]+)\/)?/.exec(file) ?? [];
    if (!packageName) continue;
    if (packageName === 'verlet' && folder && levelOf(folder) < 0) {
      problems.push(`${file}: folder '${folder}' has no level; add it to LEVELS in scripts/check-imports.mjs`);
      continue;
    }
    for (const specifier of importsOf(text)) {
      if (!specifier.startsWith('.')) {
        const own = /^(@verlet\/[^/]+|verlet)(?:\/|$)/.exec(specifier)?.[1];
        if (own && !(PACKAGES[packageName] ?? []).includes(own))
          problems.push(`${file}: ${packageName} must not import ${own}`);
        continue;
      }
      const target = path.posix.join(path.posix.dirname(file), specifier);
      if (!target.startsWith(`packages/${packageName}/`)) {
        problems.push(`${file}: '${specifier}' reaches into another package; import it by name`);
        continue;
      }
      const to = /^packages\/verlet\/src\/([^/]+)\//.exec(target)?.[1];
      if (packageName !== 'verlet' || !folder || !to || to === folder) continue;
      if (levelOf(to) < levelOf(folder)) {
        problems.push(`${file}: '${folder}' must not import from '${to}', which stands above it`);
      } else if (levelOf(to) === levelOf(folder)) {
        siblings.set(`${folder} ${to}`, file);
      }
    }
  }
  for (const [pair, file] of siblings) {
    const [from, to] = pair.split(' ');
    const back = siblings.get(`${to} ${from}`);
    if (back && from < to) problems.push(`'${from}' and '${to}' import each other: ${file} and ${back}`);
  }
  return problems;
}

export function readSources(root) {
  const sources = [];
  for (const name of readdirSync(path.join(root, 'packages'))) {
    const folder = path.join(root, 'packages', name, 'src');
    let entries = [];
    try {
      entries = readdirSync(folder, { recursive: true });
    } catch {
      continue;
    }
    for (const entry of entries) {
      // Tests may look at a part from above.
      if (!/\.tsx?$/.test(entry) || /\.test\.tsx?$/.test(entry)) continue;
      const file = path.join(folder, entry);
      sources.push({ file: path.relative(root, file).replaceAll(path.sep, '/'), text: readFileSync(file, 'utf8') });
    }
  }
  return sources;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const sources = readSources(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
  const problems = checkImports(sources);
  for (const problem of problems) console.error(problem);
  console.log(`imports: ${sources.length} files, ${problems.length} problems`);
  process.exitCode = problems.length ? 1 : 0;
}
