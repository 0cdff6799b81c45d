// An agent on the Vercel AI SDK, as one would write it for any model: nothing in it knows that it is being trained.
import { generateText, stepCountIs, tool } from 'ai';
import { z } from 'zod';

export async function solve(model, messages, signal) {
  const { text } = await generateText({
    model,
    messages,
    tools: {
      calculator: tool({
        description: 'Multiplies two whole numbers.',
        inputSchema: z.object({ expression: z.string().regex(/^\d{1,6}\*\d{1,6}$/) }),
        execute: async ({ expression }) => {
          const [a, b] = expression.split('*').map(Number);
          return String(a * b);
        },
      }),
    },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
    abortSignal: signal,
  });
  return text;
}
