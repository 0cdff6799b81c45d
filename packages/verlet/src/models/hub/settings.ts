import { homedir } from 'node:os';
import { join } from 'node:path';

/** How the hub is reached, from the environment variables that Hugging Face's own tools read. */
export interface HubSettings {
  endpoint: string;
  token: string | null;
  /** The folder with `models--org--name` folders. */
  cacheFolder: string;
  isOffline: boolean;
  /** A transfer that brings nothing for this long is broken off and resumed. */
  idleTimeoutMs: number;
  /** How often a file's transfer is taken up again. */
  maxAttempts: number;
  retryDelayMs: number;
}

export function hubSettings(environment: NodeJS.ProcessEnv = process.env): HubSettings {
  const cacheHome = environment.XDG_CACHE_HOME || join(homedir(), '.cache');
  const home = environment.HF_HOME || join(cacheHome, 'huggingface');
  return {
    endpoint: (environment.HF_ENDPOINT || 'https://huggingface.co').replace(/\/+$/, ''),
    token: environment.HF_TOKEN?.trim() || null,
    cacheFolder: environment.HF_HUB_CACHE || join(home, 'hub'),
    isOffline: isOn(environment.HF_HUB_OFFLINE) || isOn(environment.TRANSFORMERS_OFFLINE),
    idleTimeoutMs: 1000 * (Number(environment.HF_HUB_DOWNLOAD_TIMEOUT) || 30),
    maxAttempts: 5,
    retryDelayMs: 1000,
  };
}

function isOn(value: string | undefined): boolean {
  return ['1', 'true', 'yes', 'on'].includes(value?.toLowerCase() ?? '');
}
