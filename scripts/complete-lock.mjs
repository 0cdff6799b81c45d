// npm leaves a platform's optional package out of package-lock.json when the registry did not answer for it (a partial mirror,
// say), and `npm ci` then refuses the lock. This names them all, at the versions their parents pin; npm skips those of other
// platforms without fetching them. Run after adding a dependency: node scripts/complete-lock.mjs   (--check only looks)
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const SYSTEMS = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32'];
const PROCESSORS = ['arm64', 'arm', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64'];

/** The entry for a package such as @rolldown/binding-linux-arm64-musl; undefined when the name tells no platform. */
export function platformEntry(name, version) {
  const words = name.split(/[/-]/);
  const os = words.find((word) => SYSTEMS.includes(word));
  const cpu = words.find((word) => PROCESSORS.includes(word));
  if (!cpu || !/^\d+\.\d+\.\d+/.test(version)) return undefined;
  const libc = words.includes('musl') ? 'musl' : words.includes('gnu') ? 'glibc' : undefined;
  return { version, cpu: [cpu], ...(libc && { libc: [libc] }), optional: true, ...(os && { os: [os] }) };
}

/** @returns {{ lock: object, added: string[], unknown: string[] }} a new lock; the given one is left alone */
export function completeLock(lock) {
  const packages = { ...lock.packages };
  const added = [];
  const unknown = [];
  for (const [parent, { optionalDependencies = {} }] of Object.entries(lock.packages)) {
    for (const [name, version] of Object.entries(optionalDependencies)) {
      const place = `node_modules/${name}`;
      if (packages[place] || packages[`${parent}/${place}`]) continue;
      const entry = platformEntry(name, version);
      if (entry) {
        packages[place] = entry;
        added.push(`${name}@${version}`);
      } else {
        unknown.push(`${name}@${version} of ${parent}`);
      }
    }
  }
  const sorted = Object.fromEntries(Object.entries(packages).sort(([a], [b]) => a.localeCompare(b, 'en')));
  return { lock: { ...lock, packages: sorted }, added, unknown };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const file = path.join(path.dirname(path.dirname(fileURLToPath(import.meta.url))), 'package-lock.json');
  const { lock, added, unknown } = completeLock(JSON.parse(readFileSync(file, 'utf8')));
  const isCheck = process.argv.includes('--check');
  if (added.length && !isCheck) writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
  for (const name of unknown)
    console.error(`package-lock.json: left out, and its platform is not in its name: ${name}`);
  for (const name of added) console.log(`package-lock.json: ${isCheck ? 'lacks' : 'added'} ${name}`);
  if (isCheck && added.length) console.error('Run: node scripts/complete-lock.mjs');
  process.exitCode = unknown.length || (isCheck && added.length) ? 1 : 0;
}
