import type { Command } from 'commander';
import {
  processEnvironment,
  readConfigReport,
  type ConfigReport,
  type SettingReport,
} from '../../config/index.js';
import { disk } from '../../config/load.js';
import { oneLine } from '../../domain/text.js';
import { printResult, stdoutLook } from '../console.js';
import { action } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { table } from '../output/table.js';
import { type Look, paint, safeLine } from '../output/text.js';
import { describeCommand, type CommonOptions } from '../options.js';

export function add(program: Command): void {
  describeCommand(program.command('config'), {
    about:
      'Shows each setting in effect, where it comes from (environment, .env, sellers file or default), and what is wrong with it. It opens only the files that settings name, and never shows secrets. Long values are cut; --json shows them whole.',
    examples: ['seller-mirror config'],
    more: 'Exit codes: 0 all settings are valid, 2 something is wrong',
    options: ['json'],
  }).action(action(config));
}

async function config(_: AbortSignal, options: CommonOptions): Promise<ExitCode> {
  const context = { cwd: process.cwd(), files: disk, needs: 'store' } as const;
  const report = readConfigReport(processEnvironment(), context);
  const { settings, sellers, problems, warnings } = report;
  const json = {
    settings,
    sellers: sellers.map(({ name, settings }) => ({ sellerId: name, settings })),
    problems,
    warnings,
  };
  await printResult(options, json, () => reportText(report, stdoutLook()));
  return problems.length > 0 ? EXIT.usage : EXIT.done;
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

/** Characters of a value: replies to customers are whole letters. */
const MAX_VALUE = 80;

function shownValue({ value, isSecret }: SettingReport): string {
  return isSecret ? 'set (secret)' : oneLine(value ?? '', MAX_VALUE);
}

function settingsTable(settings: readonly SettingReport[], look: Look): string {
  return table(
    settings.filter(({ from }) => from !== null),
    [
      { header: 'setting', value: ({ name }) => name },
      { header: 'value', value: shownValue },
      {
        header: 'from',
        value: ({ from }) => from,
        style: ({ from }) => (from === 'default' ? 'dim' : null),
      },
    ],
    look,
  );
}
