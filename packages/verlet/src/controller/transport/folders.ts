/** Folders that live as long as a controller. A killed controller leaves its folders behind; the next one removes them. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

const name = /^verlet-ranks-(\d+)-/;

/** A new folder that only this user can enter, named after this process. */
export function makeFolder(root: string): string {
  removeStale(root);
  return mkdtempSync(path.join(root, `verlet-ranks-${process.pid}-`));
}

function removeStale(root: string): void {
  for (const entry of readdirSync(root)) {
    const pid = Number(name.exec(entry)?.[1]);
    if (!pid) continue;
    try {
      process.kill(pid, 0);
    } catch (error) {
      // EPERM: it lives, as another user's.
      if ((error as NodeJS.ErrnoException).code === 'ESRCH')
        rmSync(path.join(root, entry), { recursive: true, force: true });
    }
  }
}
