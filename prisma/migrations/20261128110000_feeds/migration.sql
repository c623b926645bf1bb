-- Feeds compare the target with the views. What a target holds is known by a token, which the store keeps as well.

ALTER TABLE mirror.feeds ADD COLUMN full_at timestamptz(6);

COMMENT ON COLUMN mirror.feeds.full_at IS 'When all views were last compared in full, to find rows that people edited in the target.';

ALTER TABLE mirror.feed_views
    ADD COLUMN token text,
    ADD COLUMN next_token text,
    ADD COLUMN sums_of text,
    ADD COLUMN sums jsonb;

COMMENT ON COLUMN mirror.feed_views.token IS 'What the target held after the last delivery that was confirmed. A target that holds neither this nor next_token was filled by another store, or by a later state of this one.';
COMMENT ON COLUMN mirror.feed_views.next_token IS 'What the target holds if the running or interrupted delivery was committed there.';
COMMENT ON COLUMN mirror.feed_views.sums_of IS 'The state of the view whose sums are in this row. Null if there are none.';
COMMENT ON COLUMN mirror.feed_views.sums IS 'Number of rows and sum of hashes, by bucket.';

-- A purchase or an item that goes takes a change number, as one that comes or changes does: without a new number
-- nothing has changed, apart from what time itself changes.
CREATE FUNCTION mirror.number_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('seller-mirror/purchases', 0)),
            nextval('mirror.item_changes_seq_seq');
    RETURN NULL;
END $$;

CREATE TRIGGER number_deletion AFTER DELETE ON mirror.purchase_codes
    FOR EACH STATEMENT EXECUTE FUNCTION mirror.number_deletion();
CREATE TRIGGER number_deletion AFTER DELETE ON mirror.code_transitions
    FOR EACH STATEMENT EXECUTE FUNCTION mirror.number_deletion();
CREATE TRIGGER number_deletion AFTER DELETE ON mirror.items
    FOR EACH STATEMENT EXECUTE FUNCTION mirror.number_deletion();
CREATE TRIGGER number_deletion AFTER DELETE ON mirror.item_versions
    FOR EACH STATEMENT EXECUTE FUNCTION mirror.number_deletion();
CREATE TRIGGER number_deletion AFTER DELETE ON mirror.item_changes
    FOR EACH STATEMENT EXECUTE FUNCTION mirror.number_deletion();

-- A restored store is not told apart by its epoch any more: its targets hold tokens that it does not know.
DROP TABLE mirror.epochs;
