// Word problems in GSM8K's format: a question, a worked answer that ends in "#### number". Small enough for two CPU cores.
const names = ['Tom', 'Ana', 'Max', 'Eva', 'Sam', 'Lea'];
const things = ['apples', 'pens', 'books', 'coins', 'cards', 'shells'];

/** A small seeded generator (mulberry32): the same problems on every machine. */
export function generator(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * below);
  };
}

const spaced = (number) => String(number).split('').join(' ');

/** One problem; the numbers are spelled digit by digit, so that the model has ten number words. */
export function problem(draw) {
  const name = names[draw(names.length)];
  const thing = things[draw(things.length)];
  const [first, second] = [draw(13), draw(13)];
  const adds = draw(2) === 0;
  const [a, b] = adds ? [first, second] : [Math.max(first, second), Math.min(first, second)];
  const result = adds ? a + b : a - b;
  const told = adds ? `buys ${spaced(b)} more` : `gives away ${spaced(b)}`;
  const worked = `${spaced(a)} ${adds ? '+' : '-'} ${spaced(b)} = ${spaced(result)}`;
  return {
    question: `${name} has ${spaced(a)} ${thing} and ${told}. How many ${thing} now?`,
    answer: `${worked} #### ${result}`,
    // Right, but not in the form that the reward can read: people write both, so the model learns both.
    chatty: `${worked} so ${spaced(result)} ${thing}.`,
    result,
  };
}

/** Distinct problems, so that held-out ones were never trained on. */
export function problems(count, seed, exclude = new Set()) {
  const draw = generator(seed);
  const made = [];
  const seen = new Set(exclude);
  while (made.length < count) {
    const next = problem(draw);
    if (seen.has(next.question)) continue;
    seen.add(next.question);
    made.push(next);
  }
  return made;
}

/** A row with verl's columns. */
export function row({ question, answer, result }, index, split) {
  return {
    data_source: 'openai/gsm8k',
    prompt: [{ role: 'user', content: question }],
    ability: 'math',
    reward_model: { style: 'rule', ground_truth: String(result) },
    extra_info: { split, index, question, answer },
  };
}
