import { AUDITS } from '../../codes/audits-listing.js';
import { type Dashboard, type DashboardParts, isOperator } from '../context.js';
import { addListing } from '../listing.js';

/** `/audits`: past checks. */
export function addAudits(app: Dashboard, parts: Pick<DashboardParts, 'db'>): void {
  addListing(app, parts, AUDITS, {
    title: 'Checks',
    actions: (c) =>
      isOperator(c) ? (
        <a class="button main" href="/audits/new">
          Check codes
        </a>
      ) : null,
  });
}
