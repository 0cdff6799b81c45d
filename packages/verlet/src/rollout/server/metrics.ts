/** Counters in Prometheus' text format. */

const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

class Histogram {
  private readonly counts = BUCKETS.map(() => 0);
  private count = 0;
  private sum = 0;

  observe(seconds: number): void {
    this.count++;
    this.sum += seconds;
    BUCKETS.forEach((bound, at) => {
      if (seconds <= bound) this.counts[at]!++;
    });
  }

  lines(name: string): string[] {
    return [
      ...BUCKETS.map((bound, at) => `${name}_bucket{le="${bound}"} ${this.counts[at]}`),
      `${name}_bucket{le="+Inf"} ${this.count}`,
      `${name}_sum ${this.sum}`,
      `${name}_count ${this.count}`,
    ];
  }
}

export class ServerMetrics {
  running = 0;
  promptTokens = 0;
  generationTokens = 0;
  abortedRequests = 0;
  readonly timeToFirstToken = new Histogram();
  readonly requestDuration = new Histogram();
  private readonly requests = new Map<string, number>();

  countRequest(endpoint: string, status: number): void {
    const labels = `endpoint="${endpoint}",status="${status}"`;
    this.requests.set(labels, (this.requests.get(labels) ?? 0) + 1);
  }

  /** `engineStats`: whatever numbers the engine has to tell, by name. */
  render(weightVersion: number, engineStats: Record<string, number> = {}): string {
    const lines: string[] = [];
    const metric = (name: string, type: string, help: string, values: string[]) =>
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...values);
    const single = (name: string, type: string, help: string, value: number) =>
      metric(name, type, help, [`${name} ${value}`]);
    metric(
      'verlet_requests_total',
      'counter',
      'Requests answered, by endpoint and HTTP status.',
      [...this.requests].map(([labels, count]) => `verlet_requests_total{${labels}} ${count}`),
    );
    single('verlet_requests_running', 'gauge', 'Requests being generated now.', this.running);
    single(
      'verlet_requests_aborted_total',
      'counter',
      'Requests whose client left or that were cut off.',
      this.abortedRequests,
    );
    single('verlet_prompt_tokens_total', 'counter', 'Prompt tokens of finished requests.', this.promptTokens);
    single('verlet_generation_tokens_total', 'counter', 'Tokens sampled.', this.generationTokens);
    single('verlet_weight_version', 'gauge', 'Version of the weights being served.', weightVersion);
    for (const [name, value] of Object.entries(engineStats)) {
      const snakeCase = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
      single(`verlet_engine_${snakeCase}`, 'gauge', `The engine's ${name}.`, value);
    }
    metric(
      'verlet_time_to_first_token_seconds',
      'histogram',
      'From request to its first token.',
      this.timeToFirstToken.lines('verlet_time_to_first_token_seconds'),
    );
    metric(
      'verlet_request_duration_seconds',
      'histogram',
      'From request to its last token.',
      this.requestDuration.lines('verlet_request_duration_seconds'),
    );
    return `${lines.join('\n')}\n`;
  }
}
