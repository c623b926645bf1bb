import { editDistance } from '../../config/nearest.js';
import type { ExportableView, Exports } from '../../store/exports.js';
import { FOLLOWED_VIEWS } from '../../store/feed-rules.js';
import { CommandError } from '../errors.js';
import { EXIT } from '../exit-codes.js';
import { isFollowing, type ExportOptions } from './request.js';

/**
 * The view of this name, with `reporting.` before it or not.
 * @throws {CommandError} when there is none, or the options are not for it
 */
export async function findView(
  exports: Exports,
  name: string,
  options: ExportOptions,
): Promise<ExportableView> {
  const views = await exports.views();
  const plain = viewName(name);
  const view = views.find((one) => one.name === plain);
  if (view === undefined) throw unknownView(plain, views);
  if (view.key === null && isFollowing(options)) {
    throw usage(
      `${view.name} can't be followed; it is small, and exported whole each time`,
      `those that can are ${FOLLOWED_VIEWS.join(', ')}`,
    );
  }
  if (options.seller !== undefined) await checkSeller(exports, view, options.seller);
  return view;
}

/** The name without the schema. */
export function viewName(name: string): string {
  return name.replace(/^reporting\./, '');
}

function unknownView(name: string, views: readonly ExportableView[]): CommandError {
  const names = views.map((view) => view.name);
  const near = nearestOf(name.toLowerCase(), names);
  const meant = near === null ? '' : `did you mean ${near}? `;
  return usage(`there is no view ${JSON.stringify(name)}`, `${meant}views: ${names.join(', ')}`);
}

/** Of a few names that are all shown, one letter in three may be wrong. */
function nearestOf(name: string, names: readonly string[]): string | null {
  const distances = names.map((one) => ({ one, distance: editDistance(name, one) }));
  const [best] = distances.toSorted((a, b) => a.distance - b.distance);
  return best !== undefined && best.distance * 3 <= best.one.length ? best.one : null;
}

async function checkSeller(exports: Exports, view: ExportableView, seller: string): Promise<void> {
  if (!view.bySeller) {
    throw usage(`${view.name} is not about single sellers`, 'leave --seller out');
  }
  const sellers = await exports.sellers();
  if (sellers.includes(seller)) return;
  throw usage(`the store holds no seller "${seller}"`, `sellers: ${sellers.join(', ') || 'none'}`);
}

function usage(message: string, remedy: string): CommandError {
  return new CommandError(message, remedy, EXIT.usage);
}
