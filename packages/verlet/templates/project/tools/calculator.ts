import { agents } from 'verlet';
import { z } from 'zod';

/** `7*8` is 56. Anything else is refused, and the model is told why. */
export default agents.defineTool({
  name: 'calculator',
  description: 'Multiplies two whole numbers.',
  input: z.object({ expression: z.string().regex(/^\d{1,6}\*\d{1,6}$/, 'write it as 12*34') }),
  timeoutSeconds: 5,
  execute: ({ expression }) => expression.split('*').reduce((product, factor) => product * Number(factor), 1),
});
