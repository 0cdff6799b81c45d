/** JSON lines over descriptors 0 and 1 with blocking calls: both WebAssembly interpreters run synchronously. Script text. */
export const channelSource = String.raw`
import fs from 'node:fs';
const { readSync, writeSync } = fs;
const pause = new Int32Array(new SharedArrayBuffer(4));
let unread = Buffer.alloc(0);
function readLine() {
  const pieces = [unread];
  let at = unread.indexOf(10), before = 0;
  while (at < 0) {
    before += pieces[pieces.length - 1].length;
    const chunk = Buffer.alloc(1 << 16);
    let count;
    try { count = readSync(0, chunk, 0, chunk.length, null); } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(pause, 0, 0, 1);
      before -= pieces[pieces.length - 1].length;
      continue;
    }
    if (count === 0) return null;
    pieces.push(chunk.subarray(0, count));
    at = pieces[pieces.length - 1].indexOf(10);
  }
  const all = Buffer.concat(pieces);
  const line = all.subarray(0, before + at).toString('utf8');
  unread = all.subarray(before + at + 1);
  return line;
}
function writeFrame(frame) {
  let data = Buffer.from(JSON.stringify(frame) + '\n');
  while (data.length > 0) {
    try { data = data.subarray(writeSync(1, data)); } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}
/** The next line from the host for a running job: a reply, or null when none will come. */
function receiveReply() {
  const line = readLine();
  const message = line === null ? { end: true } : JSON.parse(line);
  return message.reply ?? null;
}
const leave = process.reallyExit.bind(process);
`;
