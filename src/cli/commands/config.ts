import type { Command } from 'commander';
import { loadConfigReport, type ConfigReport, type SettingReport } from '../../config/index.js';
import { cronFault } from '../../queue/cron.js';
import { print, printJson, stdoutLook } from '../console.js';
import { execute } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { table } from '../output/table.js';
import { type Look, paint, safeLine } from '../output/text.js';
import { withCommonOptions, type CommonOptions } from '../options.js';

/** `config`: shows the settings and where they come from. */
export function addConfig(program: Command): void {
  const command = program
    .command('config')
    .description(
      'Shows each setting that is in effect and where it comes from: the environment, .env, the sellers file or its default; and their errors. It opens only the files that settings name, and shows no secrets.',
    )
    .addHelpText(
      'after',
      '\nExample:\n  $ seller-mirror config\n\nExit codes: 0 all can be used, 2 something is wrong',
    );
  withCommonOptions(command, { seller: false }).action((options: CommonOptions) =>
    execute(() => config(options)),
  );
}

async function config({ json }: CommonOptions): Promise<ExitCode> {
  const report = loadConfigReport(cronFault);
  if (json === true) await printJson(reportJson(report));
  else await print(reportText(report, stdoutLook()));
  return report.problems.length > 0 ? EXIT.usage : EXIT.done;
}

function reportJson({ settings, sellers, problems, warnings }: ConfigReport): object {
  return {
    settings: settings.map(settingJson),
    sellers: sellers.map((seller) => ({
      sellerId: seller.name,
      settings: seller.settings.map(settingJson),
    })),
    problems,
    warnings,
  };
}

function settingJson({ name, value, from, isSecret }: SettingReport): object {
  return { name, value, from, is_secret: isSecret };
}

function reportText({ settings, sellers, problems, warnings }: ConfigReport, look: Look): string {
  const unset = settings.filter(({ from }) => from === null).map(({ name }) => name);
  return [
    settingsTable(settings, look),
    `\nNot set: ${unset.join(', ')}\n`,
    ...sellers.map(
      (seller) =>
        `\n${paint('bold', `seller ${safeLine(seller.name)}`, look)}\n${settingsTable(seller.settings, look)}`,
    ),
    ...(warnings.length + problems.length > 0 ? ['\n'] : []),
    ...warnings.map((text) => `${paint('yellow', '!', look)} ${safeLine(text)}\n`),
    ...problems.map((text) => `${paint('red', '✗', look)} ${safeLine(text)}\n`),
  ].join('');
}

function settingsTable(settings: readonly SettingReport[], look: Look): string {
  return table(
    settings.filter(({ from }) => from !== null),
    [
      { header: 'setting', value: ({ name }) => name },
      { header: 'value', value: ({ value, isSecret }) => (isSecret ? 'set (secret)' : value) },
      {
        header: 'from',
        value: ({ from }) => from,
        style: ({ from }) => (from === 'default' ? 'dim' : null),
      },
    ],
    look,
  );
}
