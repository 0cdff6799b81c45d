/** Server-sent events from a generator of messages. */

/** One message: `data:` alone (chat, completions) or with an `event:` name (responses). */
export interface SseMessage {
  event?: string;
  data: unknown;
}

const encoder = new TextEncoder();

export interface SseHooks {
  /** What to say at the end of a stream that failed after it began. */
  onError(error: unknown): SseMessage;
  /** The client left. */
  onCancel(): void;
  /** Nothing more will be sent, for whatever reason. */
  onClose(): void;
}

/** Takes the first message before answering, so that whatever fails until then still gets its own HTTP status. */
export async function sseResponse(messages: AsyncGenerator<SseMessage>, hooks: SseHooks): Promise<Response> {
  const first = await messages.next();
  let next: IteratorResult<SseMessage> | undefined = first;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = next ?? (await messages.next());
        next = undefined;
        if (!done) {
          controller.enqueue(encode(value));
          return;
        }
      } catch (error) {
        controller.enqueue(encode(hooks.onError(error)));
      }
      hooks.onClose();
      controller.close();
    },
    cancel() {
      hooks.onCancel();
      hooks.onClose();
      // Not awaited: it waits for a message that is still being made.
      messages.return(undefined).catch(() => {});
    },
  });
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    },
  });
}

function encode({ event, data }: SseMessage): Uint8Array {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  return encoder.encode(`${event ? `event: ${event}\n` : ''}data: ${text}\n\n`);
}
