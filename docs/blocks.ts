/** The code blocks of a Markdown page, with the words behind the language: ```ts run, ```yaml file=run.yaml. */
export interface Block {
  language: string;
  isRun: boolean;
  file: string | null;
  text: string;
  line: number;
}

export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  for (const match of markdown.matchAll(/^```(\w+)([^\n]*)\n([\s\S]*?)^```$/gm)) {
    const words = match[2]!.trim().split(/\s+/);
    blocks.push({
      language: match[1]!,
      isRun: words.includes('run'),
      file: words.find((word) => word.startsWith('file='))?.slice('file='.length) ?? null,
      text: match[3]!,
      line: markdown.slice(0, match.index).split('\n').length,
    });
  }
  return blocks;
}

/** The `npx verlet ...` lines of a shell block, as words. Comments are left out, continued lines joined. */
export function verletCommands(text: string): string[][] {
  return text
    .replaceAll(/\\\n\s*/g, ' ')
    .split('\n')
    .map((line) => line.replace(/\s+#.*$/, '').trim())
    .filter((line) => line.startsWith('npx verlet '))
    .map((line) =>
      [...line.slice('npx verlet '.length).matchAll(/(?:[^\s"']|"[^"]*"|'[^']*')+/g)].map(([word]) =>
        word.replaceAll(/"([^"]*)"|'([^']*)'/g, (_, double, single) => double ?? single),
      ),
    );
}

/** Targets of Markdown links, without web addresses. */
export function linksOf(markdown: string): string[] {
  const prose = markdown.replaceAll(/^```[\s\S]*?^```$/gm, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!).filter((target) => !/^\w+:/.test(target));
}
