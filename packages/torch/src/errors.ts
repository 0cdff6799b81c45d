/** What libtorch refused, with the operator and the shapes it got. `kind` tells running out of memory from the rest. */
export class TorchError extends Error {
  override readonly name = 'TorchError';
  constructor(
    message: string,
    readonly kind: 'operator' | 'out-of-memory' = 'operator',
  ) {
    super(message);
  }
}
