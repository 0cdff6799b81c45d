/** `*` and `?` stay inside a folder, `**` crosses folders, `[ab]` and `{a,b}` are choices. */
export function globToRegExp(glob: string): RegExp {
  let pattern = '';
  let depth = 0;
  for (let i = 0; i < glob.length; i++) {
    const character = glob[i] as string;
    if (character === '*' && glob[i + 1] === '*') {
      i++;
      if (glob[i + 1] === '/') i++;
      pattern += glob[i] === '/' ? '(?:.*/)?' : '.*';
    } else if (character === '*') pattern += '[^/]*';
    else if (character === '?') pattern += '[^/]';
    else if (character === '[' && glob.indexOf(']', i) > i) {
      const end = glob.indexOf(']', i);
      pattern += `[${glob
        .slice(i + 1, end)
        .replace(/^!/, '^')
        .replace(/\\/g, '\\\\')}]`;
      i = end;
    } else if (character === '{') {
      depth++;
      pattern += '(?:';
    } else if (character === '}' && depth > 0) {
      depth--;
      pattern += ')';
    } else if (character === ',' && depth > 0) pattern += '|';
    else pattern += character.replace(/[.+^$()|\\{}[\]]/g, '\\$&');
  }
  return new RegExp(`^${pattern}$`);
}
