import { existsSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * Loads what a YAML `class_name` points at: `./weather.js#WeatherTool` (relative to the file that names it),
 * `package/module#export`, or `./weather.js` for its default export.
 */
export async function loadExport(reference: string, fromFile: string): Promise<unknown> {
  const [specifier = '', exportName = 'default'] = reference.split('#');
  const isPath = specifier.startsWith('.') || path.isAbsolute(specifier);
  const file = path.resolve(path.dirname(fromFile), specifier);
  if (isPath && !existsSync(file)) throw new Error(`${fromFile}: class_name ${reference}: there is no file ${file}`);
  let module: Record<string, unknown>;
  try {
    module = await import(isPath ? pathToFileURL(file).href : specifier);
  } catch (error) {
    throw new Error(`${fromFile}: cannot load class_name ${reference}: ${(error as Error).message}`, { cause: error });
  }
  if (!(exportName in module)) {
    throw new Error(`${fromFile}: ${specifier} has no export ${exportName}; it has: ${Object.keys(module).join(', ')}`);
  }
  return module[exportName];
}

/** An export that is a class is constructed, a function is called, anything else is taken as it is. */
export async function instantiate(exported: unknown, ...args: unknown[]): Promise<unknown> {
  if (typeof exported !== 'function') return exported;
  const isClass = /^class\b/.test(Function.prototype.toString.call(exported));
  return isClass ? Reflect.construct(exported, args) : await exported(...args);
}
