import { homedir } from 'node:os';
import { join } from 'node:path';

/** `~` and `~/x` as the home folder, because config files reach us without a shell in between. */
export function expandHome(path: string): string {
  if (path === '~') return homedir();
  return path.startsWith('~/') ? join(homedir(), path.slice(2)) : path;
}
