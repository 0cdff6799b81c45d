// Tools that go wrong in every way, and a loop that uses the one its row names.
const schema = (name) => ({ type: 'function', function: { name, description: name, parameters: { type: 'object' } } });
const tool = (name, execute) => ({ name, schema: schema(name), execute });

export const hanging = { ...tool('hanging', () => new Promise(() => {})), timeoutSeconds: 0.3 };
export const crashing = tool('crashing', () => {
  throw new Error('the tool crashed');
});
export const flooding = tool('flooding', () => 'x'.repeat(10 << 20));
export const working = tool('working', () => ({ text: '7', reward: 0.25 }));

export async function callsOneTool(session) {
  await session.generate({ maxTokens: 4 });
  const { response } = await session.callTool({ name: session.row.extra_info.tool, arguments: {} });
  session.append([{ role: 'tool', content: response.slice(0, 8) }]);
  await session.generate({ maxTokens: 4 });
}

export async function throwsAfterATurn(session) {
  await session.generate({ maxTokens: 4 });
  throw new Error('a bug in the loop');
}

/** Does not listen to anybody. */
export const neverEnds = () => new Promise(() => {});
