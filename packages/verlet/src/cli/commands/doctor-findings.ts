import { existsSync } from 'node:fs';
import { examine, type Finding } from '@verlet/torch/doctor';
import { hubSettings } from '../../models/hub/settings.js';

/** Everything `@verlet/torch` knows about the machine, and what the framework needs beside it. */
export async function examineMachine(): Promise<Finding[]> {
  return [...(await examine()), ...(await examineSandbox()), examineHub()];
}

async function examineSandbox(): Promise<Finding[]> {
  const section = 'Sandbox for untrusted code';
  try {
    // Loaded late: a broken part must not keep the other findings from being printed.
    const { describeSandbox } = await import('../../rewards/sandbox/index.js');
    const description = await describeSandbox();
    return (['python', 'javascript'] as const).map((language) => {
      const { level, detail, reasons } = description[language];
      const strongest = level === 'bubblewrap' || level === 'remote';
      return {
        section,
        name: language,
        value: [`${level}: ${detail}`, ...(strongest ? [] : reasons)].join('; '),
        state: strongest ? 'ok' : 'note',
        advice: strongest ? undefined : description.installCommand,
      } satisfies Finding;
    });
  } catch (error) {
    const value = error instanceof Error ? error.message : String(error);
    return [{ section, name: 'survey', value, state: 'problem', advice: 'run npm ci and npm run build again' }];
  }
}

function examineHub(): Finding {
  const { cacheFolder, endpoint, isOffline, token } = hubSettings();
  const access = isOffline ? 'offline' : `${endpoint}, ${token ? 'with' : 'without'} a token`;
  return {
    section: 'Hugging Face hub',
    name: 'models',
    value: `${cacheFolder}${existsSync(cacheFolder) ? '' : ' (not there yet)'}; ${access}`,
    state: 'ok',
  };
}
