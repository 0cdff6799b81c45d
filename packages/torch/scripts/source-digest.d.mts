export function sourceDigest(packageFolder: string): string;
