#!/usr/bin/env node
// Stands here, not in dist, because npm links commands before anything is compiled.
await import('../dist/cli/main.js');
