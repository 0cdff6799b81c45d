// A digest of what the addon is compiled from. The build writes it down; loading compares, since an addon of other sources than
// the code around it computes wrong numbers without a word.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** @param {string} packageFolder */
export function sourceDigest(packageFolder) {
  const hash = createHash('sha256');
  const sources = readdirSync(path.join(packageFolder, 'native'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
    .sort();
  for (const file of [path.join(packageFolder, 'CMakeLists.txt'), ...sources]) {
    hash.update(path.relative(packageFolder, file)).update('\0').update(readFileSync(file)).update('\0');
  }
  return hash.digest('hex');
}
