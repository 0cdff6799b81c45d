import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SamplingParamsError, validateSampling } from './sampling-params.js';
import type { SamplingParams } from './types.js';

describe('validateSampling', () => {
  it('completes nothing at all to verl’s defaults', () => {
    expect(validateSampling()).toEqual({
      temperature: 1,
      topK: -1,
      topP: 1,
      minP: 0,
      repetitionPenalty: 1,
      presencePenalty: 0,
      frequencyPenalty: 0,
      stopTokenIds: [],
      stop: [],
      ignoreEos: false,
      minTokens: 0,
      maxTokens: Number.POSITIVE_INFINITY,
      topLogProbs: 0,
    });
  });

  it.each<[keyof SamplingParams, unknown]>([
    ['temperature', -0.1],
    ['temperature', Number.NaN],
    ['temperature', '1'],
    ['temperature', null],
    ['topK', -2],
    ['topK', 1.5],
    ['topP', 0],
    ['topP', 1.01],
    ['minP', -0.1],
    ['minP', 2],
    ['repetitionPenalty', 0],
    ['presencePenalty', 2.1],
    ['frequencyPenalty', -3],
    ['stopTokenIds', [1, -1]],
    ['stopTokenIds', [1000]],
    ['stop', ['']],
    ['stop', 'END'],
    ['ignoreEos', 1],
    ['minTokens', -1],
    ['maxTokens', 0],
    ['maxTokens', 2.5],
    ['seed', 0.5],
    ['topLogProbs', 21],
  ])('refuses %s = %j, naming field, value and range', (field, value) => {
    const attempt = () =>
      validateSampling({ [field]: value } as SamplingParams, { vocabSize: 1000, maxTopLogProbs: 20 });
    expect(attempt).toThrow(SamplingParamsError);
    expect(attempt).toThrow(new RegExp(`sampling parameter ${field} is .*; allowed: .+`));
  });

  it('refuses minTokens above maxTokens and names both', () => {
    expect(() => validateSampling({ minTokens: 9, maxTokens: 4 })).toThrow(
      /minTokens is 9; allowed: at most maxTokens \(4\)/,
    );
  });

  it('refuses a misspelt parameter instead of ignoring it', () => {
    expect(() => validateSampling({ top_p: 0.5 } as SamplingParams)).toThrow(/top_p is 0.5; .*topP/);
  });

  it('takes top-k 0 as "all", and does not share lists with the caller', () => {
    const stop = ['END'];
    const complete = validateSampling({ topK: 0, stop });
    stop.push('later');
    expect(complete).toMatchObject({ topK: -1, stop: ['END'] });
  });

  it('is idempotent and keeps what was given, for every valid input', () => {
    const valid = fc.record(
      {
        temperature: fc.double({ min: 0, max: 5, noNaN: true }),
        topK: fc.oneof(fc.constant(-1), fc.integer({ min: 1, max: 500 })),
        topP: fc.double({ min: 0.01, max: 1, noNaN: true }),
        minP: fc.double({ min: 0, max: 1, noNaN: true }),
        presencePenalty: fc.double({ min: -2, max: 2, noNaN: true }),
        maxTokens: fc.integer({ min: 1, max: 9999 }),
        seed: fc.maxSafeInteger(),
        stop: fc.array(fc.string({ minLength: 1 })),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(valid, (params) => {
        const once = validateSampling(params);
        expect(once).toMatchObject(params);
        expect(validateSampling(once)).toEqual(once);
      }),
    );
  });
});
