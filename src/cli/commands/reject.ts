import type { Command } from 'commander';
import { addDecision } from '../decide.js';

/** `reject RUN`: what the run held back is not gone. */
export function addReject(program: Command): void {
  addDecision(program, {
    name: 'reject',
    decision: 'rejected',
    summary: 'keep what a held run held back',
    description:
      'Keeps the items that the removal guard held back: they stay missing until they are found again, and later runs are held only for further ones. `approve` can take it back.',
  });
}
