import { register as registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

let reader: Promise<unknown> | undefined;

/**
 * Imports a module of the user's, in TypeScript or JavaScript; types are stripped on every supported Node version. What the file
 * imports are the modules of this process: an `import ... from 'verlet'` in a reward must not load libtorch a second time.
 */
export async function importModule(path: string): Promise<Record<string, unknown>> {
  if (/\.[cm]?ts$/.test(path)) {
    reader ??= import('tsx/esm/api').then(({ register }) => {
      register();
      registerHooks(`data:text/javascript,${encodeURIComponent(asModules)}`);
    });
    await reader;
  }
  return (await import(pathToFileURL(path).href)) as Record<string, unknown>;
}

/**
 * A folder whose package.json does not say `"type": "module"`, or that has none, makes its .ts files CommonJS to Node, which then
 * fails over their imports and exports. Files that have any are taken for modules wherever they are. It runs in Node's thread of
 * hooks, hence as text.
 */
const asModules = String.raw`
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
export async function load(url, context, next) {
  if (context.format === 'module' || !/^file:.*\.ts(\?|$)/.test(url)) return next(url, context);
  const text = await readFile(fileURLToPath(url.replace(/[?#].*/, '')), 'utf8');
  return next(url, /^\s*(import|export)\b/m.test(text) ? { ...context, format: 'module' } : context);
}`;
