import { ConfigError, UserError } from './errors.js';
import { parseValue } from './value.js';

/**
 * One `key=value` word of a command line, in Hydra's forms:
 * `a.b=c` set, `+a.b=c` add, `++a.b=c` set or add, `~a.b` or `~a.b=c` remove, `group@package=option` choose.
 */
export interface Override {
  operation: 'set' | 'add' | 'force' | 'remove';
  /** The key as written, without prefix and package. */
  key: string;
  path: string[];
  /** What follows @: where a chosen group goes. */
  package?: string;
  /** Absent for `~a.b`. */
  value?: unknown;
  /** The value as written, so that text keys can keep `007` or `1e5` as they were typed. */
  rawValue?: string;
  /** The whole word, for messages. */
  source: string;
}

const KEY = /^[A-Za-z_$][\w$/-]*(\.[\w$/-]+)*$/;

export function parseOverride(source: string): Override {
  const prefix = /^(\+\+|\+|~)?/.exec(source)![0];
  const operation = ({ '': 'set', '+': 'add', '++': 'force', '~': 'remove' } as const)[prefix as '' | '+' | '++' | '~'];
  const body = source.slice(prefix.length);
  const equals = body.indexOf('=');
  if (equals < 0 && operation !== 'remove') {
    throw new UserError(`${JSON.stringify(source)} is not key=value; write for example trainer.total_epochs=3`);
  }
  const target = (equals < 0 ? body : body.slice(0, equals)).trim();
  const [key, packageName, ...rest] = target.split('@') as [string, ...string[]];
  if (!KEY.test(key) || rest.length > 0) {
    throw new UserError(
      `${JSON.stringify(target)} in ${JSON.stringify(source)} is not a dotted key such as data.train_batch_size`,
    );
  }
  const override: Override = { operation, key, path: key.split('.'), source };
  if (packageName !== undefined) override.package = packageName;
  if (equals >= 0) {
    override.rawValue = body.slice(equals + 1);
    try {
      override.value = parseValue(override.rawValue);
    } catch (error) {
      if (error instanceof UserError) throw new ConfigError([{ path: key, message: error.message }]);
      throw error;
    }
  }
  return override;
}

/** Whether a word of a command line is an override rather than a file or flag. */
export function looksLikeOverride(word: string): boolean {
  return /^(\+\+|\+|~)?[A-Za-z_$][\w$./@-]*=/.test(word) || /^~[A-Za-z_]/.test(word);
}
