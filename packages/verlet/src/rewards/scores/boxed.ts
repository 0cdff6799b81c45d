/** The content of the last `\boxed{...}` (or `\fbox{...}`, or `\boxed 7`), with nested braces; undefined if there is none. */
export function lastBoxed(text: string): string | undefined {
  let at = text.lastIndexOf('\\boxed');
  if (at < 0) at = text.lastIndexOf('\\fbox');
  if (at < 0) return undefined;
  const rest = text.slice(at).replace(/^\\[a-z]+/, '');
  if (rest.startsWith(' ')) return rest.slice(1).split('$')[0]!;
  if (!rest.startsWith('{')) return undefined;
  return balancedGroup(rest);
}

/** What is inside the brace group at the start of `text`; undefined when it never closes. */
export function balancedGroup(text: string): string | undefined {
  let depth = 0;
  for (let index = 0; index < text.length; index++) {
    if (text[index] === '{') depth += 1;
    else if (text[index] === '}' && --depth === 0) return text.slice(1, index);
  }
  return undefined;
}
