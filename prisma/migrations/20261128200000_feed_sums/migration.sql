-- Deliveries compare both sides each time, so that no sums are kept.
ALTER TABLE mirror.feed_views DROP COLUMN sums_of, DROP COLUMN sums;
