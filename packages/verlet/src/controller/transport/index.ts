/**
 * How the controller and its ranks talk: frames of a msgpack header and raw bytes over unix or TCP sockets, tensors by
 * shared-memory file where both ends are on one host, every request with a deadline.
 */
export { Channel, ChannelClosedError, type ChannelOptions, DeadlineError, RemoteError } from './channel.js';
export { encodeFrame, type Frame, FrameError, FrameReader } from './frames.js';
export { type Packed, packPayload, unpackPayload } from './payload.js';
export { SharedMemory } from './shared-memory.js';
export { type Address, connect, type Listener, listen, parseAddress } from './sockets.js';
