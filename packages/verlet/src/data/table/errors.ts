/** Where in the data something is wrong, as far as it is known. */
export interface DataLocation {
  file?: string;
  /** Counted from 0 within the file. */
  row?: number;
  column?: string;
}

/** Input that cannot be used: the message names file, row and column. */
export class DataError extends Error {
  constructor(
    readonly problem: string,
    readonly location: DataLocation = {},
    options?: ErrorOptions,
  ) {
    super(`${describeLocation(location)}${problem}`, options);
    this.name = 'DataError';
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
