import type { Command } from 'commander';

/** What commands were called once, or may be taken to be called, and what they are called. */
const FORMER_NAMES: Readonly<Record<string, string>> = {
  approve: 'runs approve',
  reject: 'runs reject',
  'codes list': 'audits list',
  'codes resume': 'audits resume',
  'codes cancel': 'audits cancel',
  'codes export': 'audits export',
};

/** Makes a command that is typed by a former name end with its present one. */
export function addFormerNames(program: Command): void {
  for (const [former, present] of Object.entries(FORMER_NAMES)) {
    const words = former.split(' ');
    const name = words.pop() ?? '';
    const parent = program.commands.find((one) => one.name() === words[0]) ?? program;
    parent
      .command(name, { hidden: true })
      .argument('[anything...]')
      .allowUnknownOption()
      .helpOption(false)
      .action(() => {
        parent.error(`error: unknown command '${former}'; it is called '${present}'`);
      });
  }
}
