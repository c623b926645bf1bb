/** What to do about the problem of an earlier run, by its code; the run itself told it too. */
export function remedyFor(code: string | null, sellerId: string): string {
  switch (code) {
    case 'refused':
      return 'check the API key in the workspace settings of the marketplace, then run `seller-mirror doctor`';
    case 'account-changed':
      return `if the account was only renamed: \`seller-mirror sync account --seller ${sellerId} --accept-account\``;
    case 'limited':
      return 'wait, or lower REQUESTS_PER_MINUTE if others share this address';
    case 'unavailable':
    case 'interrupted':
      return 'run `seller-mirror sync` again; the copy is as it was';
    case 'unreadable':
      return 'run `seller-mirror doctor`; the copy is as it was';
    case 'store':
      return 'check the database, then run `seller-mirror sync` again';
    default:
      return '`seller-mirror doctor` checks everything a run needs';
  }
}
