const HEX = '0123456789abcdef';
const UUID = 'xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx';

/**
 * A random code, which no marketplace can have sold: of the shape of another code if that is a UUID or hex digits, else a
 * UUID.
 * @param dice in [0, 1)
 */
export function controlCode(like: string, dice: () => number): string {
  const shape = /^[0-9a-f]{32,128}$/i.test(like) ? 'x'.repeat(like.length) : UUID;
  const code = shape.replace(/[xy]/g, (place) => {
    const digit = Math.floor(dice() * 16);
    return HEX[place === 'x' ? digit : 8 + (digit % 4)] ?? '0';
  });
  const isUpper = like === like.toUpperCase() && like !== like.toLowerCase();
  return isUpper ? code.toUpperCase() : code;
}
