#!/usr/bin/env node
import { withStatement } from './commands/sql.js';
import { program } from './program.js';
import { guardStdout } from './output/index.js';

guardStdout();
await program().parseAsync(withStatement(process.argv));
