import { UserError } from '../../config/errors.js';

/** Where in the data something is wrong, as far as it is known. */
export interface DataLocation {
  file?: string;
  /** Counted from 0 within the file. */
  row?: number;
  column?: string;
}

/** Input that cannot be used: the message names file, row and column. */
export class DataError extends UserError {
  override name = 'DataError';

  constructor(
    readonly problem: string,
    readonly location: DataLocation = {},
    options: { cause?: unknown } = {},
  ) {
    super(`${describeLocation(location)}${problem}`, options);
  }
}

function describeLocation({ file, row, column }: DataLocation): string {
  const parts = [
    file,
    row === undefined ? undefined : `row ${row}`,
    column === undefined ? undefined : `column "${column}"`,
  ];
  const text = parts.filter((part) => part !== undefined).join(', ');
  return text === '' ? '' : `${text}: `;
}
