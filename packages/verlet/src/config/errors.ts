/** A mistake a person can correct. The command line prints the message alone, without a stack. */
export class UserError extends Error {
  override name = 'UserError';
  /** What the process should exit with when this error ends it. */
  readonly exitCode: number;

  constructor(message: string, options: { cause?: unknown; exitCode?: number } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.exitCode = options.exitCode ?? 1;
  }
}

/** One thing that is wrong with a configuration. */
export interface ConfigProblem {
  /** Dotted key, or '' when the problem is not about one key. */
  path: string;
  message: string;
  /** Where the offending value came from, as a person would say it. */
  where?: string;
}

/** Everything that is wrong with a configuration, so that a person corrects it in one go. */
export class ConfigError extends UserError {
  override name = 'ConfigError';
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const title = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
    super(`${title} in the configuration:\n${problems.map(formatProblem).join('\n')}`, { exitCode: 2 });
    this.problems = problems;
  }
}

function formatProblem({ path, message, where }: ConfigProblem): string {
  const subject = path === '' ? '' : `${path}: `;
  const origin = where === undefined ? '' : ` (${where})`;
  return `  - ${subject}${message.replaceAll('\n', '\n    ')}${origin}`;
}
