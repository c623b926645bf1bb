#!/usr/bin/env node
// Committed as an executable file: what the compiler writes to dist is not executable.
import '../dist/cli/main.js'; // oxlint-disable-line import/no-unassigned-import
