// An agent on the official `openai` client, as one would write it for any endpoint: nothing in it knows that it is being trained.
const tools = [
  {
    type: 'function',
    function: {
      name: 'calculator',
      description: 'Multiplies two whole numbers.',
      parameters: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
    },
  },
];

function calculate(json) {
  const match = /^(\d{1,6})\*(\d{1,6})$/.exec(JSON.parse(json).expression ?? '');
  return match ? String(match[1] * match[2]) : 'Error: write it as 12*34';
}

export async function solve(client, model, prompt) {
  const messages = [...prompt];
  for (let turn = 0; turn < 3; turn++) {
    const { choices } = await client.chat.completions.create({ model, messages, tools });
    const { message } = choices[0];
    if (!message.tool_calls?.length) return message.content ?? '';
    messages.push(message);
    for (const call of message.tool_calls)
      messages.push({ role: 'tool', tool_call_id: call.id, content: calculate(call.function.arguments) });
  }
  return '';
}
