#!/usr/bin/env node
/// <reference types="node" />
// Committed as an executable file: what the compiler writes to dist is not executable.
import { existsSync } from 'node:fs';

const MAIN = new URL('../dist/cli/main.js', import.meta.url);
if (existsSync(MAIN)) await import(MAIN.href);
else {
  process.stderr.write('error: this checkout is not built yet\n  → npm run build\n');
  process.exitCode = 1;
}
