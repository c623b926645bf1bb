/**
 * SQL of the latest moment that is believed. Clocks of a store's processes differ by less; what is recorded further
 * ahead of the database's clock was recorded while that was wrong.
 */
export const LATEST_BELIEVED = `(now() + interval '1 minute')`;
