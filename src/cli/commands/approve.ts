import type { Command } from 'commander';
import { addDecision } from '../decide.js';

/** `approve RUN`: what the run held back is really gone. */
export function addApprove(program: Command): void {
  addDecision(program, {
    name: 'approve',
    decision: 'approved',
    summary: 'remove what a held run held back',
    description:
      'Removes the items that a run proved to be gone and that the removal guard held back. Items that were found again since are left. The marketplace is not asked; history is kept, and an item that returns is restored.',
  });
}
