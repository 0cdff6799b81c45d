import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { Box } from './box.js';
import { bubblewrapCommand, bubblewrapGraceMs } from './bubblewrap/command.js';
import { type BubblewrapProbe, probeBubblewrap } from './bubblewrap/probe.js';
import { type Engine, resolveLimits, runProgram } from './engine.js';
import { BoxPool } from './pool.js';
import { RemoteRunner, type RemoteSandboxOptions } from './remote.js';
import type {
  Language,
  LevelDescription,
  Limits,
  Program,
  Sandbox,
  SandboxDescription,
  SandboxLevel,
} from './types.js';
import { SandboxUnavailableError } from './types.js';
import { pyodideCommand, quickjsCommand } from './wasm/command.js';

export interface SandboxOptions {
  /** `auto` takes the strongest level that works here: bubblewrap, then wasm. A `remote` service is used only when given. */
  level?: 'auto' | SandboxLevel;
  remote?: RemoteSandboxOptions;
  /** Boxes at one time; the number of cores if not given. */
  size?: number;
  /** A box is replaced after this many programs. */
  programsPerBox?: number;
  limits?: Partial<Limits>;
  /** The Python to use inside bubblewrap; else `VERLET_SANDBOX_PYTHON`, /usr/bin/python3, python3. */
  python?: string;
}

const languages: Language[] = ['python', 'javascript'];

/** Says which level each language would get here, and why not a stronger one. Starts (and ends) a real box to find out. */
export async function describeSandbox(options: SandboxOptions = {}): Promise<SandboxDescription> {
  return (await survey(options)).description;
}

/**
 * @example
 * const sandbox = await createSandbox();
 * const { status, stdout } = await sandbox.run({ language: 'python', code: 'print(input()[::-1])', stdin: 'abc' });
 * await sandbox.close();
 */
export async function createSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const defaults = resolveLimits(options.limits);
  const { description, probe } = await survey(options);
  if (languages.every((language) => description[language].level === 'none')) throw refusal(description, languages);
  const remote = options.remote && description.python.level === 'remote' ? new RemoteRunner(options.remote) : undefined;
  const pools: BoxPool[] = [];
  const engines = new Map<string, Engine>();

  const engineFor = (language: Language): Engine => {
    const { level } = description[language];
    const key = level === 'bubblewrap' ? level : `${level}-${language}`;
    const known = engines.get(key);
    if (known) return known;
    if (level === 'none') throw refusal(description, [language]);
    const start = starter(level, language, probe, defaults);
    const size = options.size ?? availableParallelism();
    const pool = { size, programsPerBox: options.programsPerBox ?? 500, start };
    const engine = { programs: new BoxPool(pool), checkers: new BoxPool(pool) };
    pools.push(engine.programs, engine.checkers);
    engines.set(key, engine);
    return engine;
  };

  const run = async (program: Program) => {
    if (!languages.includes(program.language)) {
      throw new TypeError(
        `no sandbox for language ${JSON.stringify(program.language)}; known: ${languages.join(', ')}`,
      );
    }
    const limits = resolveLimits(defaults, program.limits);
    return remote ? remote.run(program, limits) : runProgram(engineFor(program.language), program, limits);
  };
  return {
    run,
    runBatch: (programs) => Promise.all(programs.map(run)),
    describe: () => description,
    close: async () => {
      await Promise.all(pools.map((pool) => pool.close()));
    },
  };
}

function starter(level: SandboxLevel, language: Language, probe: BubblewrapProbe | undefined, limits: Limits) {
  if (level === 'bubblewrap' && probe?.options) {
    const command = bubblewrapCommand(probe.options);
    return () => Box.start(command, { graceMs: bubblewrapGraceMs });
  }
  if (language === 'python') return () => Box.start(pyodideCommand(limits.memoryMb), { graceMs: 0 });
  // QuickJS looks at the clock between its own instructions; one long native call is ended from outside.
  return () => Box.start(quickjsCommand(), { graceMs: 1_500 });
}

async function survey(options: SandboxOptions): Promise<{ description: SandboxDescription; probe?: BubblewrapProbe }> {
  const level = options.level ?? 'auto';
  if (level === 'remote' || (level === 'auto' && options.remote)) {
    if (!options.remote?.url) throw new TypeError("sandbox level 'remote' needs remote.url");
    const detail = `external service ${options.remote.url}; its isolation is the service's own promise`;
    const remote: LevelDescription = { level: 'remote', detail, reasons: [] };
    return { description: { python: remote, javascript: remote } };
  }
  const probe = level === 'wasm' ? undefined : await probeBubblewrap({ python: options.python });
  const describeOne = (language: Language): LevelDescription => {
    const reasons = probe ? [...probe.reasons] : ['bubblewrap was not asked for'];
    if (probe?.options && (language === 'python' || probe.runsNode)) {
      const user = probe.options.uid === undefined ? 'a user namespace' : `uid ${probe.options.uid}`;
      const runtime = language === 'python' ? probe.options.python : probe.options.node;
      const slow = language === 'javascript' && probe.slowNode ? `; one Node start per program: ${probe.slowNode}` : '';
      const detail = `${probe.version}, ${runtime}, in ${user}, no network, no files of yours${slow}`;
      return { level: 'bubblewrap', detail, reasons };
    }
    const library = language === 'python' ? 'pyodide' : 'quickjs-emscripten';
    if (level === 'bubblewrap')
      return { level: 'none', detail: 'bubblewrap was asked for and does not work here', reasons };
    if (!isInstalled(library))
      return { level: 'none', detail: 'no sandbox available', reasons: [...reasons, `${library} is not installed`] };
    const detail =
      language === 'python'
        ? 'Pyodide in a locked-down child process (weaker than bubblewrap)'
        : 'QuickJS in a locked-down child process';
    return { level: 'wasm', detail, reasons };
  };
  const description: SandboxDescription = { python: describeOne('python'), javascript: describeOne('javascript') };
  if (languages.some((language) => description[language].level !== 'bubblewrap'))
    description.installCommand = installCommand();
  return { description, probe };
}

function refusal(description: SandboxDescription, wanted: Language[]): SandboxUnavailableError {
  const why = [...new Set(wanted.flatMap((language) => description[language].reasons))].join('; ');
  return new SandboxUnavailableError(
    `model-written ${wanted.join(' and ')} code is not run without a sandbox, and none works here: ${why}. ` +
      `Install bubblewrap with: ${installCommand()}`,
  );
}

function isInstalled(library: string): boolean {
  try {
    createRequire(import.meta.url).resolve(library);
    return true;
  } catch {
    return false;
  }
}

/** The exact command for this system's package manager. */
export function installCommand(osRelease = readOsRelease()): string {
  const sudo = process.getuid?.() === 0 ? '' : 'sudo ';
  if (/\b(alpine)\b/.test(osRelease)) return `${sudo}apk add bubblewrap util-linux python3`;
  if (/\b(fedora|rhel|centos|rocky|almalinux|amzn)\b/.test(osRelease)) return `${sudo}dnf install -y bubblewrap`;
  if (/\b(arch|manjaro)\b/.test(osRelease)) return `${sudo}pacman -S --noconfirm bubblewrap`;
  if (/\b(suse|opensuse)\b/.test(osRelease)) return `${sudo}zypper install -y bubblewrap`;
  return `${sudo}apt-get update && ${sudo}apt-get install -y bubblewrap`;
}

function readOsRelease(): string {
  try {
    return readFileSync('/etc/os-release', 'utf8').toLowerCase();
  } catch {
    return '';
  }
}
