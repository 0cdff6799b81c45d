import { existsSync } from 'node:fs';
import path from 'node:path';
import { importModule } from '../config/import-module.js';

/**
 * Loads what a YAML `class_name` points at: `./weather.js#WeatherTool` (relative to the file that names it),
 * `package/module#export`, or `./weather.js` for its default export.
 */
export async function loadExport(reference: string, fromFile: string): Promise<unknown> {
  const [specifier = '', exportName = 'default'] = reference.split('#');
  const module = await loadModule(specifier, fromFile);
  if (!(exportName in module)) {
    throw new Error(`${fromFile}: ${specifier} has no export ${exportName}; it has: ${Object.keys(module).join(', ')}`);
  }
  return module[exportName];
}

export async function loadModule(specifier: string, fromFile: string): Promise<Record<string, unknown>> {
  const isPath = specifier.startsWith('.') || path.isAbsolute(specifier);
  const file = path.resolve(path.dirname(fromFile), specifier);
  if (isPath && !existsSync(file)) throw new Error(`${fromFile} names ${specifier}: there is no file ${file}`);
  try {
    return isPath ? await importModule(file) : await import(specifier);
  } catch (error) {
    throw new Error(`${fromFile}: cannot load ${specifier}: ${(error as Error).message}`, { cause: error });
  }
}

/** An export that is a class is constructed, a function is called, anything else is taken as it is. */
export async function instantiate(exported: unknown, ...args: unknown[]): Promise<unknown> {
  if (typeof exported !== 'function') return exported;
  const isClass = /^class\b/.test(Function.prototype.toString.call(exported));
  return isClass ? Reflect.construct(exported, args) : await exported(...args);
}
