import { pathToFileURL } from 'node:url';

let reader: Promise<unknown> | undefined;

/**
 * Imports a module of the user's, in TypeScript or JavaScript; types are stripped on every supported Node version. What the file
 * imports are the modules of this process: an `import ... from 'verlet'` in a reward must not load libtorch a second time.
 */
export async function importModule(path: string): Promise<Record<string, unknown>> {
  if (/\.[cm]?ts$/.test(path)) {
    reader ??= import('tsx/esm/api').then(({ register }) => register());
    await reader;
  }
  return (await import(pathToFileURL(path).href)) as Record<string, unknown>;
}
