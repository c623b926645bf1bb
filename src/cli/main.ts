#!/usr/bin/env node
import { program } from './program.js';
import { guardStdout } from './output/index.js';

guardStdout();
await program().parseAsync();
