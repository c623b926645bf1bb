/** Builds after an install with build tools. An install without them (`--omit=dev`) keeps its `dist`. */
import { execSync } from 'node:child_process';
import { existsSync } from 'node:fs';

if (existsSync('node_modules/prisma')) execSync('npm run --silent build', { stdio: 'inherit' });
