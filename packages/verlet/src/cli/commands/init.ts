import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { UserError } from '../../config/errors.js';
import { type CommandInvocation, type CommandModule, EXIT } from '../command.js';
import { version } from '../frame.js';

const template = fileURLToPath(new URL('../../../templates/project/', import.meta.url));

export const command: CommandModule = {
  name: 'init',
  summary: 'Start a project: reward, tool, configuration, test',

  configure(command: Command) {
    command
      .argument('[folder]', 'where to; it is made when it is not there', '.')
      .option('--name <name>', 'name of the project (default: that of the folder)')
      .addHelpText(
        'after',
        `
Example:
  verlet init my-agent && cd my-agent && npm install && npm test

Files that are there already are never replaced: if one is in the way, nothing is written.`,
      );
  },

  async run({ args, options, io }: CommandInvocation) {
    const folder = path.resolve(args[0] ?? '.');
    const name = packageName((options.name as string | undefined) ?? path.basename(folder));
    const files = await filesIn(template);
    const taken = files.map(targetName).filter((file) => existsSync(path.join(folder, file)));
    if (taken.length > 0)
      throw new UserError(`${folder} has ${taken.join(', ')} already; nothing was written. Name another folder`, {
        exitCode: EXIT.usage,
      });
    for (const file of files) {
      const target = path.join(folder, targetName(file));
      await mkdir(path.dirname(target), { recursive: true });
      if (!/\.(json|md|yaml)$/.test(file)) await copyFile(path.join(template, file), target);
      else {
        const text = await readFile(path.join(template, file), 'utf8');
        const values: Record<string, string> = { name, ...dependencies() };
        await writeFile(
          target,
          text.replaceAll(/\{\{(\w+)\}\}/g, (whole, key: string) => values[key] ?? whole),
        );
      }
    }
    const inside = path.relative(process.cwd(), folder);
    io.print(
      [
        `${name} in ${folder}`,
        ...files.map((file) => `  ${targetName(file)}`),
        '',
        'next:',
        ...(inside === '' ? [] : [`  cd ${inside.startsWith('..') ? folder : inside}`]),
        '  npm install && npm test',
        '  npm run make && npm run sft && npm run train',
      ].join('\n'),
    );
    return EXIT.ok;
  },
};

/** Packages that were installed are named by version; those of a checkout by their folders. */
function dependencies(): { verlet: string; torch: string } {
  const own = fileURLToPath(new URL('../../../', import.meta.url)).replace(/[\\/]$/, '');
  if (own.split(path.sep).includes('node_modules')) return { verlet: version(), torch: version() };
  return { verlet: `file:${own}`, torch: `file:${path.join(path.dirname(own), 'torch')}` };
}

/** npm leaves out files named .gitignore when it packs. */
const targetName = (file: string): string => (file === 'gitignore' ? '.gitignore' : file);

async function filesIn(folder: string, prefix = ''): Promise<string[]> {
  const files: string[] = [];
  for (const entry of await readdir(path.join(folder, prefix), { withFileTypes: true })) {
    const name = path.join(prefix, entry.name);
    if (entry.isDirectory()) files.push(...(await filesIn(folder, name)));
    else files.push(name);
  }
  return files.sort();
}

function packageName(wanted: string): string {
  const name = wanted
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[._-]+|-+$/g, '');
  if (name === '')
    throw new UserError(`${JSON.stringify(wanted)} gives no name for a package; use --name`, { exitCode: EXIT.usage });
  return name;
}
