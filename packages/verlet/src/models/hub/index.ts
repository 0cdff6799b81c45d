/** From a name to a local folder: paths as they are, then the Hugging Face cache, then a download into that cache. */

export type { DownloadProgress } from './download.js';
export { globToRegExp } from './glob.js';
export { type ResolveOptions, resolveHubFiles, resolveModel } from './resolve.js';
export { type HubSettings, hubSettings } from './settings.js';
