-- One code, one row

ALTER TABLE mirror.purchase_codes
    ADD COLUMN merged_into bigint,
    ADD COLUMN found_form text,
    ADD COLUMN found_at timestamptz(6),
    ADD COLUMN support_unreadable boolean NOT NULL DEFAULT false;

COMMENT ON TABLE mirror.purchase_codes IS 'Every purchase code of a list, with the newest proven verdict and the purchase as last answered. A code has one row that counts; other spellings of it are rows with merged_into.';
COMMENT ON COLUMN mirror.purchase_codes.verdict IS 'valid, invalid or no_longer_valid: invalid now, valid before. Null if it was never proven, and for another spelling of a code.';
COMMENT ON COLUMN mirror.purchase_codes.merged_into IS 'Code of which this is another spelling: that row has the verdict, the checks and the lists. Null for a code of its own.';
COMMENT ON COLUMN mirror.purchase_codes.found_form IS 'The form in which the marketplace found it last; null: as in code.';
COMMENT ON COLUMN mirror.purchase_codes.found_at IS 'When it was last found, by a check or as a proof of the API key.';
COMMENT ON COLUMN mirror.purchase_codes.support_unreadable IS 'True: the marketplace sent an end of support that can’t be read.';

-- Followers of purchases need not hear that a code served as a proof.
DROP TRIGGER number_updated_purchase ON mirror.purchase_codes;
CREATE TRIGGER number_updated_purchase BEFORE UPDATE ON mirror.purchase_codes
    FOR EACH ROW WHEN (NEW.changed_seq IS NOT DISTINCT FROM OLD.changed_seq
                       AND NEW.found_at IS NOT DISTINCT FROM OLD.found_at
                       AND NOT (NEW.raw IS NULL AND OLD.raw IS NOT NULL))
    EXECUTE FUNCTION mirror.number_purchase();

-- The marketplace's spelling of a code finds its row, whatever its verdict.
CREATE INDEX purchase_codes_seller_id_answered_code_idx
    ON mirror.purchase_codes (seller_id, answered_code)
    WHERE answered_code <> code;
CREATE INDEX purchase_codes_merged_into_idx
    ON mirror.purchase_codes (merged_into)
    WHERE merged_into IS NOT NULL;

-- Makes spellings of one code one row. The newest proven verdict stays, and so does the last purchase; checks,
-- transitions and lists move to the row that is kept. The other rows stay as spellings: lists name codes by them, and
-- followers of purchases learn from them that they are gone.
CREATE FUNCTION mirror.merge_codes(kept bigint, others bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    newest mirror.purchase_codes;
    bought mirror.purchase_codes;
    since timestamptz;
    first_at timestamptz;
BEGIN
    PERFORM FROM mirror.purchase_codes WHERE code_id = kept OR code_id = ANY (others) ORDER BY code_id FOR UPDATE;
    SELECT * INTO newest FROM mirror.purchase_codes
     WHERE (code_id = kept OR code_id = ANY (others)) AND last_checked_at IS NOT NULL
     ORDER BY last_checked_at DESC, code_id LIMIT 1;
    SELECT * INTO bought FROM mirror.purchase_codes
     WHERE (code_id = kept OR code_id = ANY (others)) AND purchase_seen_at IS NOT NULL
     ORDER BY purchase_seen_at DESC, code_id LIMIT 1;
    SELECT min(verdict_since) FILTER (WHERE verdict = newest.verdict), min(first_checked_at) INTO since, first_at
      FROM mirror.purchase_codes WHERE code_id = kept OR code_id = ANY (others);
    IF newest.code_id IS NOT NULL THEN
        UPDATE mirror.purchase_codes
           SET verdict = CASE WHEN newest.verdict = 'invalid' AND bought.code_id IS NOT NULL THEN 'no_longer_valid'
                              ELSE newest.verdict END,
               proof = newest.proof, verdict_since = since, first_checked_at = first_at,
               last_checked_at = newest.last_checked_at, last_check_id = newest.last_check_id,
               purchase_seen_at = bought.purchase_seen_at, answered_code = bought.answered_code,
               -- Null means: as in code, which is another code here.
               found_form = CASE WHEN bought.code_id = kept THEN bought.found_form
                                 ELSE coalesce(bought.found_form, bought.code) END,
               found_at = bought.found_at, license_type = bought.license_type, price = bought.price,
               currency = bought.currency, item_id = bought.item_id, item_name = bought.item_name,
               item_url = bought.item_url, item_preview_url = bought.item_preview_url,
               item_full = coalesce(bought.item_full, false), supported_until = bought.supported_until,
               support_unreadable = coalesce(bought.support_unreadable, false), downloaded = bought.downloaded,
               purchased_at = bought.purchased_at, raw = bought.raw,
               changed_seq = nextval('mirror.item_changes_seq_seq')
         WHERE code_id = kept;
    END IF;
    UPDATE mirror.code_checks SET code_id = kept WHERE code_id = ANY (others);
    UPDATE mirror.code_transitions SET code_id = kept WHERE code_id = ANY (others);
    UPDATE mirror.audit_codes c SET code_id = kept, spelling = coalesce(c.spelling, o.code)
      FROM mirror.purchase_codes o WHERE o.code_id = c.code_id AND c.code_id = ANY (others);
    UPDATE mirror.purchase_codes
       SET merged_into = kept, verdict = NULL, proof = NULL, verdict_since = NULL, first_checked_at = NULL,
           last_checked_at = NULL, last_check_id = NULL, answered_code = NULL, found_form = NULL, found_at = NULL,
           raw = NULL, changed_seq = nextval('mirror.item_changes_seq_seq')
     WHERE code_id = ANY (others) OR merged_into = ANY (others);
END $$;

-- Audits

ALTER TABLE mirror.audits RENAME COLUMN canary TO known_valid;
ALTER TABLE mirror.audits
    ADD COLUMN confirm_after_ms integer NOT NULL DEFAULT 60000,
    ADD COLUMN no_longer_valid integer NOT NULL DEFAULT 0,
    ADD COLUMN chance_calls integer NOT NULL DEFAULT 0,
    ADD COLUMN chance_denied integer NOT NULL DEFAULT 0,
    ADD COLUMN memory jsonb,
    ADD COLUMN progress jsonb;

COMMENT ON TABLE mirror.audits IS 'Lists of codes that are or were checked, and drafts: lists that were read and not started. codes = valid + invalid + no_longer_valid + unproven + pending.';
COMMENT ON COLUMN mirror.audits.known_valid IS 'A code that a person says is valid.';
COMMENT ON COLUMN mirror.audits.confirm_after_ms IS 'From a denial to the second check, milliseconds.';
COMMENT ON COLUMN mirror.audits.no_longer_valid IS 'Codes that are invalid now and were valid before. They are not among invalid.';
COMMENT ON COLUMN mirror.audits.chance_calls IS 'Calls about codes that are valid.';
COMMENT ON COLUMN mirror.audits.chance_denied IS 'Those of them that were denied.';
COMMENT ON COLUMN mirror.audits.memory IS 'What whoever goes on with the check should know; without it the check goes on more slowly.';
COMMENT ON COLUMN mirror.audits.progress IS 'What was asked so far, written about once a second while it is worked on.';

ALTER TABLE mirror.audit_codes
    ADD COLUMN spelling text,
    ADD COLUMN first_denied_at timestamptz(6),
    ADD COLUMN denied_form text,
    ADD COLUMN rounds integer NOT NULL DEFAULT 0,
    ADD COLUMN uncounted integer NOT NULL DEFAULT 0,
    ADD COLUMN asked_at timestamptz(6),
    ADD COLUMN reason text;

COMMENT ON COLUMN mirror.audit_codes.spelling IS 'The code as the list spells it; null: as in purchase_codes.code.';
COMMENT ON COLUMN mirror.audit_codes.first_denied_at IS 'When it was first denied; null: never.';
COMMENT ON COLUMN mirror.audit_codes.denied_form IS 'The form that was denied last, after all others; null: as in the list.';
COMMENT ON COLUMN mirror.audit_codes.rounds IS 'Windows in which it was asked.';
COMMENT ON COLUMN mirror.audit_codes.uncounted IS 'Those of them without an answer that counts.';
COMMENT ON COLUMN mirror.audit_codes.asked_at IS 'When it was last denied, or asked in a window.';
COMMENT ON COLUMN mirror.audit_codes.reason IS 'Why the audit gave it up; null for other verdicts.';

UPDATE mirror.audit_codes SET first_denied_at = denied_at, asked_at = denied_at WHERE verdict IS NULL AND denied_at IS NOT NULL;

-- The lists of a code, and the lines of a list that hold it.
DROP INDEX mirror.audit_codes_denied_idx;
CREATE INDEX audit_codes_code_id_idx ON mirror.audit_codes (code_id);
CREATE INDEX audit_entries_audit_id_position_idx
    ON mirror.audit_entries (audit_id, position)
    WHERE position IS NOT NULL;

-- Chance

CREATE TABLE mirror.code_chances (
    seller_id text NOT NULL PRIMARY KEY REFERENCES mirror.sellers ON DELETE CASCADE ON UPDATE CASCADE,
    denied double precision NOT NULL,
    calls double precision NOT NULL,
    as_of timestamptz(6) NOT NULL
);

COMMENT ON TABLE mirror.code_chances IS 'How often each marketplace denies valid codes of a seller. Both figures fade by half each week from as_of.';
COMMENT ON COLUMN mirror.code_chances.denied IS 'Calls about valid codes that were denied.';
COMMENT ON COLUMN mirror.code_chances.calls IS 'All calls about valid codes.';

-- No longer valid is a verdict of its own

UPDATE mirror.audit_codes c SET verdict = 'no_longer_valid'
  FROM mirror.purchase_codes p
 WHERE p.code_id = c.code_id AND c.verdict = 'invalid'
   AND p.verdict = 'invalid' AND p.purchase_seen_at IS NOT NULL;

UPDATE mirror.audits a SET invalid = a.invalid - c.codes, no_longer_valid = c.codes
  FROM (SELECT audit_id, count(*)::int AS codes FROM mirror.audit_codes
         WHERE verdict = 'no_longer_valid' AND position >= 0 GROUP BY audit_id) c
 WHERE c.audit_id = a.audit_id;

UPDATE mirror.purchase_codes SET verdict = 'no_longer_valid' WHERE verdict = 'invalid' AND purchase_seen_at IS NOT NULL;

DROP INDEX mirror.purchase_codes_no_longer_valid_idx;
CREATE INDEX purchase_codes_no_longer_valid_idx
    ON mirror.purchase_codes (seller_id, verdict_since)
    WHERE verdict = 'no_longer_valid';

-- Spellings of one code that were stored as several

-- A code that was found without the text around it must be asked that way again.
UPDATE mirror.purchase_codes SET found_form = answered_code
 WHERE purchase_seen_at IS NOT NULL AND lower(btrim(answered_code)) <> lower(code);

DO $$
DECLARE
    same bigint[];
BEGIN
    FOR same IN
        SELECT array_agg(code_id ORDER BY code_id) FROM mirror.purchase_codes
         GROUP BY seller_id, coalesce(answered_code, code) HAVING count(*) > 1
    LOOP
        PERFORM mirror.merge_codes(same[1], same[2:]);
    END LOOP;
END $$;

-- Views

CREATE OR REPLACE VIEW mirror.sales AS
SELECT
    code_id,
    seller_id,
    code,
    item_id,
    item_name,
    license_type,
    price,
    currency,
    purchased_at,
    supported_until,
    downloaded,
    verdict_since,
    first_checked_at,
    last_checked_at,
    purchase_seen_at,
    answered_code,
    support_unreadable
FROM mirror.purchase_codes
WHERE verdict = 'valid' AND octet_length(coalesce(currency, '')) <= 64
UNION ALL
SELECT
    code_id,
    seller_id,
    code,
    item_id,
    item_name,
    license_type,
    price,
    currency,
    purchased_at,
    supported_until,
    downloaded,
    verdict_since,
    first_checked_at,
    last_checked_at,
    purchase_seen_at,
    answered_code,
    support_unreadable
FROM mirror.purchase_codes
WHERE verdict = 'valid' AND octet_length(coalesce(currency, '')) > 64;

CREATE OR REPLACE VIEW reporting.purchases AS
SELECT
    p.code_id,
    p.seller_id,
    p.code,
    p.item_id,
    coalesce(i.name, p.item_name) AS item_name,
    i.state::text AS item_state,
    p.license_type,
    p.price,
    p.currency,
    p.purchased_at,
    p.supported_until,
    CASE
        WHEN p.support_unreadable THEN 'unknown'
        WHEN p.supported_until IS NULL THEN 'none'
        WHEN p.supported_until > now() THEN 'active'
        ELSE 'expired'
    END AS support,
    p.downloaded,
    p.verdict_since AS valid_since,
    p.first_checked_at,
    p.last_checked_at,
    p.answered_code
FROM mirror.sales AS p
LEFT JOIN mirror.items AS i ON i.seller_id = p.seller_id AND i.item_id = p.item_id;

COMMENT ON VIEW reporting.purchases IS 'Purchases whose code is valid. One row for each purchase, however lists spell its code. Codes are shown whole, so that you can join them with your own tables. Everybody who may read this view can read every code.';
COMMENT ON COLUMN reporting.purchases.code IS 'The whole purchase code, as the first list spelled it; unique only together with seller_id.';
COMMENT ON COLUMN reporting.purchases.support IS 'active: supported_until is in the future. expired: it is in the past. none: no end of support is known. unknown: the marketplace sent an end of support that can’t be read. Compared with the current time.';

CREATE VIEW reporting.listed_codes AS
SELECT
    a.seller_id,
    a.audit_id,
    e.line,
    c.code_id,
    p.code,
    p.answered_code,
    p.verdict::text AS verdict,
    a.source AS list,
    a.created_at AS listed_at,
    (SELECT jsonb_object_agg(own.name, own.value)
       FROM unnest(a.columns, e.columns) AS own (name, value)
      WHERE own.name IS NOT NULL) AS columns
FROM mirror.audit_entries AS e
JOIN mirror.audit_codes AS c ON c.audit_id = e.audit_id AND c.position = e.position
JOIN mirror.audits AS a ON a.audit_id = e.audit_id
JOIN mirror.purchase_codes AS p ON p.code_id = c.code_id
WHERE a.layout ? 'lists' AND a.state <> 'draft';

COMMENT ON VIEW reporting.listed_codes IS 'Lines of checked lists that hold a code, with the columns of the list: who used a code, and who else? Lists that KEEP_AUDITS_DAYS deleted are not included. Codes are shown whole, and the columns may hold names and e-mail addresses.';
COMMENT ON COLUMN reporting.listed_codes.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.listed_codes.audit_id IS 'Number of the check.';
COMMENT ON COLUMN reporting.listed_codes.line IS 'Line of the list; row of a workbook. Lines of a second list of the same check continue the first one’s.';
COMMENT ON COLUMN reporting.listed_codes.code_id IS 'Number of the code in this database; code_id of purchases while the code is valid.';
COMMENT ON COLUMN reporting.listed_codes.code IS 'The whole purchase code, as the first list spelled it; unique only together with seller_id.';
COMMENT ON COLUMN reporting.listed_codes.answered_code IS 'The code as the marketplace spells it. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.listed_codes.verdict IS 'Newest proven verdict: valid, invalid, or no_longer_valid for a code that was valid before. Null if it was never proven.';
COMMENT ON COLUMN reporting.listed_codes.list IS 'Name of the list: a file, or arguments.';
COMMENT ON COLUMN reporting.listed_codes.listed_at IS 'When the check began, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.listed_codes.columns IS 'The list’s own columns, by name. Of columns with the same name it has the last one.';
