/** The first key that stands twice in one object of a valid JSON text, or null. */
export function findRepeatedKey(text: string): string | null {
  const objects: (Set<string> | null)[] = [];
  let at = 0;
  while (at < text.length) {
    const character = text[at]!;
    if (character === '"') {
      const end = stringEnd(text, at);
      const keys = objects.at(-1);
      if (keys && isFollowedByColon(text, end)) {
        const key = JSON.parse(text.slice(at, end)) as string;
        if (keys.has(key)) return key;
        keys.add(key);
      }
      at = end;
      continue;
    }
    if (character === '{') objects.push(new Set());
    else if (character === '[') objects.push(null);
    else if (character === '}' || character === ']') objects.pop();
    at++;
  }
  return null;
}

function stringEnd(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function isFollowedByColon(text: string, from: number): boolean {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at++;
  return text[at] === ':';
}
