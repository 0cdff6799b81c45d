import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { UserError } from '../../config/errors.js';
import { type JsonStyle, pythonJson, pythonStr, strftime, type TemplateValue } from './python-text.js';

/** Renders Jinja text as Python's Jinja2 would with the settings of `transformers`. Parsed once, rendered often. */
export class ChatTemplate {
  private readonly program: ReturnType<typeof parse>;

  constructor(readonly source: string) {
    try {
      this.program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
    } catch (error) {
      throw new UserError(`cannot parse the chat template: ${messageOf(error)}`, { cause: error });
    }
  }

  render(variables: Record<string, unknown>, now: Date = new Date()): string {
    const environment = new Environment();
    const globals: Record<string, unknown> = {
      true: true,
      True: true,
      false: false,
      False: false,
      none: null,
      None: null,
      range,
      raise_exception: (message: string) => {
        throw new TemplateRaised(message);
      },
      strftime_now: (format: string) => strftime(now, format),
    };
    for (const [name, value] of Object.entries({ ...globals, ...variables })) environment.set(name, value);
    try {
      return String(pythonInterpreter(environment).run(this.program).value);
    } catch (error) {
      if (error instanceof TemplateRaised)
        throw new UserError(`the chat template refused the conversation: ${error.message}`);
      throw new UserError(`cannot render the chat template: ${messageOf(error)}`, { cause: error });
    }
  }
}

/** The last few templates by source text: a format prompt or an override is parsed once, not per row. */
const parsed = new Map<string, ChatTemplate>();

export function chatTemplate(source: string): ChatTemplate {
  let template = parsed.get(source);
  if (!template) {
    template = new ChatTemplate(source);
    if (parsed.size >= 32) parsed.delete(parsed.keys().next().value as string);
    parsed.set(source, template);
  }
  return template;
}

class TemplateRaised extends Error {}

interface Node {
  type: string;
  value?: unknown;
  callee?: Node;
  args?: Node[];
}

/** The parts of the interpreter that are replaced below. They are private in its types, and stable in the pinned version. */
interface InterpreterParts {
  evaluate(node: Node, environment: Environment): TemplateValue;
  evaluateArguments(args: Node[], environment: Environment): [TemplateValue[], Map<string, TemplateValue>];
  applyFilter(operand: TemplateValue, filter: Node, environment: Environment): TemplateValue;
  evaluateBlock(statements: Node[], environment: Environment): TemplateValue;
}

const STATEMENTS = new Set([
  'Set',
  'If',
  'For',
  'Macro',
  'Break',
  'Continue',
  'Comment',
  'CallStatement',
  'FilterStatement',
  'Generation',
  'StringLiteral',
]);

/**
 * The library prints booleans and containers the JavaScript way and breaks `[]` and `{}` over lines when indenting;
 * printing and `tojson` are replaced by Python's rules.
 */
function pythonInterpreter(environment: Environment): Interpreter {
  const interpreter = new Interpreter(environment);
  const parts = interpreter as unknown as InterpreterParts;
  const applyFilter = parts.applyFilter.bind(interpreter);
  const evaluateBlock = parts.evaluateBlock.bind(interpreter);

  parts.applyFilter = (operand, filter, scope) => {
    const name = filter.type === 'Identifier' ? filter.value : filter.callee?.value;
    if (name === 'tojson') return textValue(pythonJson(operand, jsonStyle(parts, filter, scope)));
    if (name === 'string' && operand.type !== 'StringValue') return textValue(pythonStr(operand));
    return applyFilter(operand, filter, scope);
  };
  parts.evaluateBlock = (statements, scope) => {
    let text = '';
    for (const statement of statements) {
      const value = parts.evaluate(statement, scope);
      if (value.type === 'UndefinedValue') continue;
      if (value.type === 'NullValue' && STATEMENTS.has(statement.type)) continue;
      text += pythonStr(value);
    }
    return textValue(text);
  };
  // The library does not export its value classes; an empty block yields one to copy.
  const emptyText = evaluateBlock([], environment);
  const TextValue = emptyText.constructor as new (text: string) => TemplateValue;
  const textValue = (text: string) => new TextValue(text);
  return interpreter;
}

function jsonStyle(parts: InterpreterParts, filter: Node, scope: Environment): JsonStyle {
  if (filter.type !== 'CallExpression') return {};
  const [positional, named] = parts.evaluateArguments(filter.args ?? [], scope);
  // transformers: tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)
  const argument = (position: number, name: string) => (named.get(name) ?? positional[position])?.value;
  const separators = argument(2, 'separators') as TemplateValue[] | null | undefined;
  return {
    ensureAscii: argument(0, 'ensure_ascii') === true,
    indent: (argument(1, 'indent') as number | null | undefined) ?? null,
    separators: separators ? [String(separators[0]?.value), String(separators[1]?.value)] : null,
    sortKeys: argument(3, 'sort_keys') === true,
  };
}

function range(first: number, stop?: number, step = 1): number[] {
  const [start, end] = stop === undefined ? [0, first] : [first, stop];
  if (step === 0) throw new Error('range() step must not be zero');
  const values: number[] = [];
  for (let value = start; step > 0 ? value < end : value > end; value += step) values.push(value);
  return values;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
