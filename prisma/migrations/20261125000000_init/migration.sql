-- The whole schema. Schema mirror holds the tables of seller-mirror; schema reporting holds the views and functions
-- that reports and BI tools may rely on.

-- Prisma's history table is in schema mirror and is created before the first migration.
CREATE SCHEMA IF NOT EXISTS mirror;
CREATE SCHEMA IF NOT EXISTS reporting;

COMMENT ON SCHEMA mirror IS 'Tables of seller-mirror. They may change with every version: report from schema reporting.';
COMMENT ON SCHEMA reporting IS 'Views for reports and BI tools. Columns are only ever added.';

-- Types

CREATE TYPE mirror.run_kind AS ENUM ('account', 'items', 'item', 'approval');
CREATE TYPE mirror.run_state AS ENUM ('running', 'succeeded', 'failed', 'held', 'interrupted');
CREATE TYPE mirror.item_state AS ENUM ('live', 'missing', 'removed');
CREATE TYPE mirror.change_class AS ENUM ('price', 'release', 'text', 'media', 'added', 'missing', 'removed', 'restored');
CREATE TYPE mirror.decision AS ENUM ('approved', 'rejected');
CREATE TYPE mirror.code_verdict AS ENUM ('valid', 'invalid', 'unproven');
CREATE TYPE mirror.audit_state AS ENUM ('running', 'finished', 'cancelled', 'failed');
CREATE TYPE mirror.role AS ENUM ('viewer', 'operator');

-- Tables

CREATE TABLE mirror.sellers (
    seller_id text PRIMARY KEY,
    marketplace text NOT NULL,
    bound_username text,
    bound_at timestamptz(6),
    created_at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    parked_at timestamptz(6),
    parked_code text,
    parked_reason text,
    parked_run_id bigint,
    loaded_run_id bigint,
    loaded_seq bigint,
    history_since timestamptz(6),
    live_items integer NOT NULL DEFAULT 0,
    missing_items integer NOT NULL DEFAULT 0,
    removed_items integer NOT NULL DEFAULT 0
);

COMMENT ON COLUMN mirror.sellers.loaded_run_id IS 'The run that read the first list. Its items make no rows in item_changes.';
COMMENT ON COLUMN mirror.sellers.loaded_seq IS 'Number of that first list among those of item_changes. A reader with a smaller number has none of its items.';
COMMENT ON COLUMN mirror.sellers.history_since IS 'Old states that ended before this time may have been deleted. History is complete since then. Null if nothing was deleted.';
COMMENT ON COLUMN mirror.sellers.live_items IS 'Number of live items after the last run; likewise missing_items and removed_items.';

CREATE TABLE mirror.runs (
    run_id bigserial PRIMARY KEY,
    seller_id text NOT NULL REFERENCES mirror.sellers ON DELETE RESTRICT ON UPDATE CASCADE,
    kind mirror.run_kind NOT NULL,
    state mirror.run_state NOT NULL,
    started_at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    finished_at timestamptz(6),
    holder text NOT NULL,
    listed integer NOT NULL DEFAULT 0,
    added integer NOT NULL DEFAULT 0,
    changed integer NOT NULL DEFAULT 0,
    extra_changed integer NOT NULL DEFAULT 0,
    unchanged integer NOT NULL DEFAULT 0,
    restored integer NOT NULL DEFAULT 0,
    missing integer NOT NULL DEFAULT 0,
    removed integer NOT NULL DEFAULT 0,
    quarantined integer NOT NULL DEFAULT 0,
    duplicates integer NOT NULL DEFAULT 0,
    api_calls integer NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    tolerated jsonb NOT NULL DEFAULT '{}',
    warnings text[] DEFAULT ARRAY[]::text[],
    problem_code text,
    problem text,
    job_id text,
    wide_fields text[] DEFAULT ARRAY[]::text[],
    approval_run_id bigint,
    compared integer,
    decided_at timestamptz(6),
    decided_by text,
    decision mirror.decision,
    present integer,
    wide_items integer[] DEFAULT ARRAY[]::integer[],
    extra_seq bigint
);

COMMENT ON COLUMN mirror.runs.wide_fields IS 'Fields that changed in nearly all items at once, such as price_regular or currency.';
COMMENT ON COLUMN mirror.runs.approval_run_id IS 'The run that removed the items after the approval.';
COMMENT ON COLUMN mirror.runs.compared IS 'For a run with wide_fields: listed items that the mirror already had.';
COMMENT ON COLUMN mirror.runs.decision IS 'Decision about the removals that the removal guard held back.';
COMMENT ON COLUMN mirror.runs.present IS 'For a held run: items that were live or missing before it.';
COMMENT ON COLUMN mirror.runs.extra_seq IS 'Number among those of item_changes under which followers find items whose extra alone changed in this run. Null if there are none.';
COMMENT ON COLUMN mirror.runs.wide_items IS 'In how many of the compared items each field of wide_fields changed, in the same order.';

CREATE INDEX runs_extra_seq_idx ON mirror.runs (extra_seq) WHERE extra_seq IS NOT NULL;
CREATE INDEX runs_running_idx
    ON mirror.runs (run_id)
    WHERE state = 'running';
CREATE INDEX runs_seller_id_kind_run_id_idx ON mirror.runs (seller_id, kind, run_id DESC);
CREATE INDEX runs_wide_idx
    ON mirror.runs (seller_id, run_id DESC)
    WHERE wide_fields <> '{}'::text[];

CREATE TABLE mirror.run_progress (
    run_id bigint PRIMARY KEY REFERENCES mirror.runs ON DELETE CASCADE ON UPDATE CASCADE,
    phase text NOT NULL,
    done integer NOT NULL,
    total integer,
    at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE mirror.accounts (
    seller_id text PRIMARY KEY REFERENCES mirror.sellers ON DELETE RESTRICT ON UPDATE CASCADE,
    username text NOT NULL,
    firstname text,
    lastname text,
    full_name text,
    email text,
    balance numeric(14,2),
    currency text,
    heading text,
    description text,
    contact_email text,
    social_links jsonb NOT NULL,
    avatar_url text,
    cover_url text,
    registered_at timestamptz(6),
    first_seen_at timestamptz(6) NOT NULL,
    changed_at timestamptz(6) NOT NULL,
    synced_run_id bigint NOT NULL,
    extra jsonb NOT NULL,
    raw json NOT NULL
);

CREATE TABLE mirror.account_versions (
    seller_id text NOT NULL,
    username text NOT NULL,
    firstname text,
    lastname text,
    full_name text,
    email text,
    balance numeric(14,2),
    currency text,
    heading text,
    description text,
    contact_email text,
    social_links jsonb NOT NULL,
    avatar_url text,
    cover_url text,
    registered_at timestamptz(6),
    first_seen_at timestamptz(6) NOT NULL,
    synced_run_id bigint NOT NULL,
    valid_from timestamptz(6) NOT NULL,
    valid_to timestamptz(6) NOT NULL,
    superseded_run_id bigint NOT NULL,
    PRIMARY KEY (seller_id, valid_from)
);

COMMENT ON TABLE mirror.account_versions IS 'Old states of accounts, valid from valid_from until just before valid_to. The current state is in accounts.';

-- Most rows are just above the 2 KB from which PostgreSQL compresses. Compression took a quarter of the time of a COPY
-- and saved a sixth of the space.
CREATE TABLE mirror.items (
    seller_id text NOT NULL REFERENCES mirror.sellers ON DELETE RESTRICT ON UPDATE CASCADE,
    item_id bigint NOT NULL,
    name text NOT NULL,
    description text,
    category text,
    sub_category text,
    options text[],
    version text,
    demo_link text,
    tags text[],
    thumbnail_url text,
    preview_image_url text,
    preview_video_url text,
    preview_audio_url text,
    screenshots text[],
    price_regular numeric(14,2),
    price_extended numeric(14,2),
    currency text,
    published_at timestamptz(6),
    state mirror.item_state NOT NULL,
    first_seen_at timestamptz(6) NOT NULL,
    changed_at timestamptz(6) NOT NULL,
    removed_at timestamptz(6),
    synced_run_id bigint NOT NULL,
    wire_hash bytea NOT NULL,
    extra jsonb NOT NULL,
    raw json NOT NULL,
    valid_from timestamptz(6) NOT NULL,
    extra_run_id bigint,
    PRIMARY KEY (seller_id, item_id)
) WITH (toast_tuple_target = 4080);

COMMENT ON COLUMN mirror.items.extra_run_id IS 'The run that last changed extra. Null if it never changed.';
COMMENT ON COLUMN mirror.items.valid_from IS 'When the current state began: documented fields and state.';

CREATE INDEX items_extra_run_id_idx ON mirror.items (extra_run_id) WHERE extra_run_id IS NOT NULL;
-- The dashboard sorts items by price: with the price in this index, it need not read all items. An index of its own
-- would add 6 % to a first load, which writes this one in its order.
CREATE INDEX items_seller_id_state_changed_at_idx
    ON mirror.items (seller_id, state, changed_at) INCLUDE (item_id, price_regular);
-- Without it, the planner would take any state for rare, because it knows nothing of the text of an enum.
CREATE STATISTICS mirror.items_state_text ON (state::text) FROM mirror.items;

CREATE TABLE mirror.item_versions (
    seller_id text NOT NULL,
    item_id bigint NOT NULL,
    name text NOT NULL,
    description text,
    category text,
    sub_category text,
    options text[],
    version text,
    demo_link text,
    tags text[],
    thumbnail_url text,
    preview_image_url text,
    preview_video_url text,
    preview_audio_url text,
    screenshots text[],
    price_regular numeric(14,2),
    price_extended numeric(14,2),
    currency text,
    published_at timestamptz(6),
    state mirror.item_state NOT NULL,
    first_seen_at timestamptz(6) NOT NULL,
    changed_at timestamptz(6) NOT NULL,
    removed_at timestamptz(6),
    synced_run_id bigint NOT NULL,
    valid_from timestamptz(6) NOT NULL,
    valid_to timestamptz(6) NOT NULL,
    superseded_run_id bigint NOT NULL,
    extra jsonb NOT NULL,
    PRIMARY KEY (seller_id, item_id, valid_from)
);

COMMENT ON TABLE mirror.item_versions IS 'Old states of items, valid from valid_from until just before valid_to. The current state is in items.';
COMMENT ON COLUMN mirror.item_versions.synced_run_id IS 'The run that wrote this state.';
COMMENT ON COLUMN mirror.item_versions.superseded_run_id IS 'The run that wrote the next state.';

CREATE INDEX item_versions_valid_to_valid_from_idx ON mirror.item_versions (valid_to, valid_from);
-- Without it, the planner would take any state for rare, because it knows nothing of the text of an enum.
CREATE STATISTICS mirror.item_versions_state_text ON (state::text) FROM mirror.item_versions;

CREATE TABLE mirror.item_changes (
    seq bigserial PRIMARY KEY,
    seller_id text NOT NULL,
    item_id bigint NOT NULL,
    run_id bigint NOT NULL,
    changed_at timestamptz(6) NOT NULL,
    class mirror.change_class NOT NULL,
    field text NOT NULL,
    old_value jsonb,
    new_value jsonb
);

COMMENT ON TABLE mirror.item_changes IS 'Changes of items, field by field. Numbers grow in the order of commits, so a reader that continues after the last number it has seen misses nothing.';
COMMENT ON COLUMN mirror.item_changes.field IS 'A column of items. It is state for new items, from null to live.';

CREATE INDEX item_changes_changed_at_idx ON mirror.item_changes USING brin (changed_at);
CREATE INDEX item_changes_class_seq_idx ON mirror.item_changes (class, seq);
CREATE INDEX item_changes_currency_idx
    ON mirror.item_changes (seller_id, item_id, seq)
    WHERE field = 'currency';
CREATE INDEX item_changes_seller_id_item_id_seq_idx ON mirror.item_changes (seller_id, item_id, seq);
CREATE INDEX item_changes_state_idx
    ON mirror.item_changes (seller_id, changed_at, class, old_value, new_value)
    WHERE field = 'state';
-- Without it, the planner would take any class for rare, because it knows nothing of the text of an enum.
CREATE STATISTICS mirror.item_changes_class_text ON (class::text) FROM mirror.item_changes;

CREATE TABLE mirror.item_lookups (
    seller_id text NOT NULL REFERENCES mirror.sellers ON DELETE RESTRICT ON UPDATE CASCADE,
    item_id bigint NOT NULL,
    looked_up_at timestamptz(6) NOT NULL,
    outcome text NOT NULL,
    run_id bigint NOT NULL,
    PRIMARY KEY (seller_id, item_id)
);

COMMENT ON COLUMN mirror.item_lookups.outcome IS 'found; gone: denied between two proofs of the key; denied: without such proof, or for the first time after look-ups had found it; unanswered.';

CREATE TABLE mirror.held_items (
    run_id bigint NOT NULL REFERENCES mirror.runs ON DELETE CASCADE ON UPDATE CASCADE,
    item_id bigint NOT NULL,
    seller_id text NOT NULL,
    confirmed boolean NOT NULL,
    PRIMARY KEY (run_id, item_id)
);

COMMENT ON TABLE mirror.held_items IS 'Items whose removal the removal guard held back.';
COMMENT ON COLUMN mirror.held_items.confirmed IS 'True if the run looked the item up and it was denied between two proofs of the key. False if it was only not in the list.';

CREATE INDEX held_items_seller_id_item_id_idx ON mirror.held_items (seller_id, item_id);

CREATE TABLE mirror.quarantine (
    quarantine_id bigserial PRIMARY KEY,
    seller_id text NOT NULL REFERENCES mirror.sellers ON DELETE RESTRICT ON UPDATE CASCADE,
    item_id bigint,
    reason text NOT NULL,
    raw text NOT NULL,
    raw_hash bytea NOT NULL,
    first_run_id bigint NOT NULL,
    last_run_id bigint NOT NULL,
    first_seen_at timestamptz(6) NOT NULL,
    last_seen_at timestamptz(6) NOT NULL
);

CREATE UNIQUE INDEX quarantine_seller_id_raw_hash_key ON mirror.quarantine (seller_id, raw_hash);

CREATE TABLE mirror.purchase_codes (
    code_id bigserial PRIMARY KEY,
    seller_id text NOT NULL,
    code text COLLATE "C" NOT NULL,
    verdict mirror.code_verdict,
    proof text,
    verdict_since timestamptz(6),
    first_checked_at timestamptz(6),
    last_checked_at timestamptz(6),
    last_check_id bigint,
    purchase_seen_at timestamptz(6),
    answered_code text,
    license_type text,
    price numeric(14,2),
    currency text,
    item_id bigint,
    item_name text,
    item_url text,
    item_preview_url text,
    item_full boolean NOT NULL DEFAULT false,
    supported_until timestamptz(6),
    downloaded boolean,
    purchased_at timestamptz(6),
    raw jsonb,
    changed_seq bigint
);

COMMENT ON TABLE mirror.purchase_codes IS 'Every purchase code of a list, with the newest proven verdict and the purchase as last answered.';
COMMENT ON COLUMN mirror.purchase_codes.verdict IS 'valid or invalid. Null if it was never proven to be either.';
COMMENT ON COLUMN mirror.purchase_codes.first_checked_at IS 'When a verdict was first proven.';
COMMENT ON COLUMN mirror.purchase_codes.last_checked_at IS 'When the verdict was last proven.';
COMMENT ON COLUMN mirror.purchase_codes.purchase_seen_at IS 'When the marketplace last sent the purchase. The purchase is kept when the code becomes invalid.';
COMMENT ON COLUMN mirror.purchase_codes.changed_seq IS 'Number of the last write among those of item_changes. Null if nothing is known of the code.';

CREATE INDEX purchase_codes_changed_seq_idx
    ON mirror.purchase_codes (changed_seq)
    WHERE changed_seq IS NOT NULL;
-- Codes that were valid once: few, and asked for among many that never were.
CREATE INDEX purchase_codes_no_longer_valid_idx
    ON mirror.purchase_codes (seller_id, code_id)
    WHERE verdict = 'invalid' AND purchase_seen_at IS NOT NULL;
-- An index can't hold a text of any length, and a currency is what the marketplace says it is. So valid purchases are
-- in two indexes, odd_sales and sales, the first of which is nearly always empty. The view mirror.sales joins them.
CREATE INDEX purchase_codes_odd_sales_idx
    ON mirror.purchase_codes (seller_id, item_id)
    WHERE verdict = 'valid' AND octet_length(coalesce(currency, '')) > 64;
CREATE INDEX purchase_codes_respelled_idx
    ON mirror.purchase_codes (seller_id, answered_code, code_id)
    WHERE verdict = 'valid' AND answered_code <> code;
CREATE INDEX purchase_codes_sales_idx
    ON mirror.purchase_codes (seller_id, item_id, currency, price, purchased_at, supported_until, code_id)
    WHERE verdict = 'valid' AND octet_length(coalesce(currency, '')) <= 64;
CREATE UNIQUE INDEX purchase_codes_seller_id_code_key ON mirror.purchase_codes (seller_id, code);
CREATE INDEX purchase_codes_seller_id_verdict_last_checked_at_idx
    ON mirror.purchase_codes (seller_id, verdict, last_checked_at)
    WHERE last_checked_at IS NOT NULL;
-- Each night the feeds ask whose support has ended since the last delivery.
CREATE INDEX purchase_codes_support_end_idx
    ON mirror.purchase_codes (supported_until)
    WHERE verdict = 'valid' AND supported_until IS NOT NULL;

CREATE TABLE mirror.code_checks (
    check_id bigserial PRIMARY KEY,
    seller_id text NOT NULL,
    code_id bigint NOT NULL,
    audit_id bigint,
    checked_at timestamptz(6) NOT NULL,
    verdict mirror.code_verdict NOT NULL,
    reason text NOT NULL,
    proof text NOT NULL,
    http_status integer,
    message text,
    raw_hash bytea,
    proven_before timestamptz(6),
    proven_after timestamptz(6)
);

COMMENT ON TABLE mirror.code_checks IS 'The ledger: every answer about a code with its evidence. Rows are only ever added.';
COMMENT ON COLUMN mirror.code_checks.proven_before IS 'When the API key was proven before a denial that counts; null for other answers.';
COMMENT ON COLUMN mirror.code_checks.proven_after IS 'When the API key was proven after a denial that counts; null for other answers.';

CREATE INDEX code_checks_code_id_check_id_idx ON mirror.code_checks (code_id, check_id);

CREATE TABLE mirror.code_transitions (
    seq bigserial PRIMARY KEY,
    seller_id text NOT NULL,
    code_id bigint NOT NULL,
    check_id bigint NOT NULL,
    happened_at timestamptz(6) NOT NULL,
    kind text NOT NULL,
    old_value text,
    new_value text
);

COMMENT ON TABLE mirror.code_transitions IS 'What changed about codes, in the order in which it was recorded.';

CREATE INDEX code_transitions_code_id_seq_idx ON mirror.code_transitions (code_id, seq);
CREATE INDEX code_transitions_happened_at_idx ON mirror.code_transitions USING brin (happened_at);
CREATE INDEX code_transitions_seller_id_seq_idx ON mirror.code_transitions (seller_id, seq);

CREATE TABLE mirror.audits (
    audit_id bigserial PRIMARY KEY,
    seller_id text NOT NULL REFERENCES mirror.sellers ON DELETE RESTRICT ON UPDATE CASCADE,
    state mirror.audit_state NOT NULL,
    source text NOT NULL,
    is_look_ups boolean NOT NULL DEFAULT false,
    layout jsonb NOT NULL,
    columns text[],
    max_age_seconds integer,
    canary text,
    lines integer NOT NULL,
    rejected integer NOT NULL,
    codes integer NOT NULL,
    reused integer NOT NULL,
    valid integer NOT NULL,
    invalid integer NOT NULL,
    unproven integer NOT NULL,
    pending integer NOT NULL,
    api_calls integer NOT NULL DEFAULT 0,
    created_at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    finished_at timestamptz(6),
    problem text,
    resume_at timestamptz(6),
    list_pruned_at timestamptz(6),
    denied integer NOT NULL DEFAULT 0,
    confirmed integer NOT NULL DEFAULT 0,
    overturned integer NOT NULL DEFAULT 0,
    result_format text,
    result_path text,
    result_written_at timestamptz(6),
    result_decimal_comma boolean NOT NULL DEFAULT false
);

COMMENT ON TABLE mirror.audits IS 'Lists of codes that are or were checked. codes = valid + invalid + unproven + pending.';
COMMENT ON COLUMN mirror.audits.is_look_ups IS 'True: the codes that were looked up one at a time on a day. False: a list.';
COMMENT ON COLUMN mirror.audits.list_pruned_at IS 'When the deletion of the list began, audit_entries and audit_codes. The figures of the audit, its codes and its checks stay.';
COMMENT ON COLUMN mirror.audits.denied IS 'Codes that were denied and have no verdict yet: a second denial must confirm the first. Known valid codes that were denied as proofs are among them.';
COMMENT ON COLUMN mirror.audits.confirmed IS 'Counted denials of these codes.';
COMMENT ON COLUMN mirror.audits.overturned IS 'Codes that were denied and then found.';
COMMENT ON COLUMN mirror.audits.resume_at IS 'When it goes on; null while it is worked on.';

CREATE INDEX audits_running_idx
    ON mirror.audits (audit_id)
    WHERE state = 'running';
CREATE INDEX audits_seller_id_audit_id_idx ON mirror.audits (seller_id, audit_id DESC);

CREATE TABLE mirror.audit_entries (
    audit_id bigint NOT NULL,
    entry integer NOT NULL,
    seller_id text NOT NULL,
    line integer NOT NULL,
    position integer,
    rejected text,
    columns text[],
    PRIMARY KEY (audit_id, entry)
);

COMMENT ON TABLE mirror.audit_entries IS 'The lists as they came. One row for each record.';

CREATE TABLE mirror.audit_workbooks (
    audit_id bigint NOT NULL PRIMARY KEY,
    seller_id text NOT NULL,
    sheet text NOT NULL,
    header_row integer,
    content bytea NOT NULL
);

COMMENT ON TABLE mirror.audit_workbooks IS 'Lists that came as an Excel workbook. A result keeps the workbook and adds columns.';
COMMENT ON COLUMN mirror.audit_workbooks.sheet IS 'The sheet with the list, by its part of the workbook.';

CREATE TABLE mirror.audit_codes (
    audit_id bigint NOT NULL,
    position integer NOT NULL,
    seller_id text NOT NULL,
    code_id bigint NOT NULL,
    verdict mirror.code_verdict,
    check_id bigint,
    reused boolean NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    counted integer NOT NULL DEFAULT 0,
    denied_at timestamptz(6),
    PRIMARY KEY (audit_id, position)
);

CREATE INDEX audit_codes_denied_idx
    ON mirror.audit_codes (code_id)
    WHERE verdict IS NULL AND denied_at IS NOT NULL;

COMMENT ON TABLE mirror.audit_codes IS 'The distinct codes of each list, with what the audit found.';
COMMENT ON COLUMN mirror.audit_codes.verdict IS 'What this audit found, unproven when it gave up, null when not settled.';
COMMENT ON COLUMN mirror.audit_codes.reused IS 'The verdict was fresh, and was taken over without asking.';
COMMENT ON COLUMN mirror.audit_codes.position IS 'In list order from 0. Negative for a known valid code that was denied as a proof and is checked like a code of the list.';
COMMENT ON COLUMN mirror.audit_codes.denied_at IS 'When it was last denied; null: never.';
COMMENT ON COLUMN mirror.audit_codes.counted IS 'Denials that count, each between two proofs of the API key.';

CREATE TABLE mirror.schedules (
    kind text NOT NULL,
    name text NOT NULL,
    cron text NOT NULL,
    time_zone text NOT NULL,
    next_at timestamptz(6) NOT NULL,
    last_at timestamptz(6),
    PRIMARY KEY (kind, name)
);

CREATE TABLE mirror.processes (
    process_id uuid PRIMARY KEY,
    roles text[],
    host text NOT NULL,
    pid integer NOT NULL,
    started_at timestamptz(6) NOT NULL,
    seen_at timestamptz(6) NOT NULL,
    dashboard_url text
);

COMMENT ON TABLE mirror.processes IS 'Running processes, with the time of their last heartbeat.';

CREATE TABLE mirror.request_budgets (
    host text PRIMARY KEY,
    next_at timestamptz(6) NOT NULL,
    paused_until timestamptz(6) NOT NULL,
    urgent_until timestamptz(6) NOT NULL
);

CREATE TABLE mirror.request_counts (
    seller_id text NOT NULL,
    slot timestamptz(6) NOT NULL,
    requests integer NOT NULL,
    PRIMARY KEY (seller_id, slot)
);

-- One row. Followers of the change feed must start over when it changes: the store was restored from a backup.
CREATE TABLE mirror.epochs (
    epoch uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    since timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP
);

-- How the feeds into other databases are doing. Each target itself records how far it is.
CREATE TABLE mirror.feeds (
    feed text PRIMARY KEY,
    asked_at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    delivered_at timestamptz(6),
    failures integer NOT NULL DEFAULT 0,
    problem text,
    failed_at timestamptz(6),
    stale_since timestamptz(6)
);

CREATE TABLE mirror.feed_views (
    feed text NOT NULL,
    view_name text NOT NULL,
    waiting_since timestamptz(6),
    delivered_at timestamptz(6),
    problem text,
    PRIMARY KEY (feed, view_name)
);

-- People who use the dashboard, and what they did there.
CREATE TABLE mirror.users (
    name text PRIMARY KEY,
    role mirror.role NOT NULL,
    password_hash text NOT NULL,
    created_at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE mirror.sessions (
    token_hash bytea PRIMARY KEY,
    user_name text REFERENCES mirror.users ON DELETE CASCADE ON UPDATE CASCADE,
    made_by text,
    created_at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    seen_at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE mirror.login_links (
    token_hash bytea PRIMARY KEY,
    made_by text NOT NULL,
    expires_at timestamptz(6) NOT NULL
);

-- Programs that may look up codes over HTTP.
CREATE TABLE mirror.api_tokens (
    token_id bigserial PRIMARY KEY,
    name text NOT NULL,
    seller_id text,
    token_hash bytea NOT NULL,
    created_at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    last_used_at timestamptz(6)
);

CREATE UNIQUE INDEX api_tokens_name_key ON mirror.api_tokens (name);
CREATE UNIQUE INDEX api_tokens_token_hash_key ON mirror.api_tokens (token_hash);

CREATE TABLE mirror.actions (
    action_id bigserial PRIMARY KEY,
    at timestamptz(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    who text NOT NULL,
    action text NOT NULL,
    target text,
    outcome text NOT NULL
);

INSERT INTO mirror.epochs DEFAULT VALUES;

-- Triggers

-- Purchases take their numbers from the sequence of item_changes, so that one number says how far a reader of both
-- is. Writers don't wait for each other: each holds a shared lock from before its first number to its commit. A reader
-- that wants to know up to which number everything is committed takes the lock alone for a moment.
CREATE FUNCTION mirror.enter_purchase_feed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('seller-mirror/purchases', 0));
    RETURN NULL;
END $$;

CREATE TRIGGER enter_purchase_feed BEFORE INSERT OR UPDATE ON mirror.purchase_codes
    FOR EACH STATEMENT EXECUTE FUNCTION mirror.enter_purchase_feed();

-- For writers that do not number their rows themselves, which is cheaper.
CREATE FUNCTION mirror.number_purchase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_seq := nextval('mirror.item_changes_seq_seq');
    RETURN NEW;
END $$;

CREATE TRIGGER number_inserted_purchase BEFORE INSERT ON mirror.purchase_codes
    FOR EACH ROW WHEN (NEW.verdict IS NOT NULL AND NEW.changed_seq IS NULL)
    EXECUTE FUNCTION mirror.number_purchase();

-- Deleting raw makes no new number: feeds don't contain it.
CREATE TRIGGER number_updated_purchase BEFORE UPDATE ON mirror.purchase_codes
    FOR EACH ROW WHEN (NEW.changed_seq IS NOT DISTINCT FROM OLD.changed_seq AND NOT (NEW.raw IS NULL AND OLD.raw IS NOT NULL))
    EXECUTE FUNCTION mirror.number_purchase();

-- In place of foreign keys: looking a code up again for each of its rows took a sixth of the time of recording, and
-- the writer has locked that code. So only the other end is checked: a code with a history is not deleted.
CREATE FUNCTION mirror.keep_checked_code() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM mirror.code_checks WHERE code_id = OLD.code_id)
       OR EXISTS (SELECT FROM mirror.code_transitions WHERE code_id = OLD.code_id) THEN
        RAISE EXCEPTION 'code % has rows in mirror.code_checks or mirror.code_transitions', OLD.code_id
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER keep_checked_code BEFORE DELETE ON mirror.purchase_codes
    FOR EACH ROW EXECUTE FUNCTION mirror.keep_checked_code();

-- Views of schema mirror

-- items_daily adds these up. The dashboard adds up the last days only.
CREATE VIEW mirror.state_changes AS
-- All that one run found has the run's moment, so that days are made of few rows.
SELECT
    c.seller_id,
    c.changed_at,
    count(*) FILTER (WHERE c.class = 'added') AS added,
    count(*) FILTER (WHERE c.class = 'restored') AS restored,
    count(*) FILTER (WHERE c.class = 'removed') AS removed,
    sum(CASE WHEN c.class IN ('added', 'restored') THEN 1
             WHEN c.class = 'missing' AND c.new_value = '"live"' THEN 1
             WHEN c.old_value = '"live"' THEN -1 ELSE 0 END) AS live_change,
    sum(CASE WHEN c.class IN ('added', 'restored') THEN 0
             WHEN c.class = 'missing' AND c.new_value = '"missing"' THEN 1
             WHEN c.old_value = '"missing"' THEN -1 ELSE 0 END) AS missing_change
FROM mirror.item_changes AS c
WHERE c.field = 'state'
GROUP BY c.seller_id, c.changed_at;

COMMENT ON VIEW mirror.state_changes IS 'By run: items that became live, missing or removed.';

-- Two parts because of the two indexes, purchase_codes_sales_idx and purchase_codes_odd_sales_idx.
CREATE VIEW mirror.sales AS
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
    answered_code
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
    answered_code
FROM mirror.purchase_codes
WHERE verdict = 'valid' AND octet_length(coalesce(currency, '')) > 64;

COMMENT ON VIEW mirror.sales IS 'The rows of purchase_codes whose verdict is valid. Reads indexes made for reports.';

-- One purchase has several rows if lists spell its code in different letter cases: each is answered with the
-- marketplace's spelling. Sums count it once.
CREATE VIEW mirror.repeated_sales AS
SELECT r.code_id
FROM mirror.purchase_codes AS r
WHERE r.verdict = 'valid' AND r.answered_code <> r.code
  AND (EXISTS (SELECT FROM mirror.purchase_codes AS o
                WHERE o.seller_id = r.seller_id AND o.code = r.answered_code
                  AND o.verdict = 'valid'
                  -- Where the marketplace's own spelling has changed, two rows may name each other.
                  AND (o.answered_code IS DISTINCT FROM r.code OR o.code_id < r.code_id))
    OR EXISTS (SELECT FROM mirror.purchase_codes AS o
                WHERE o.seller_id = r.seller_id AND o.answered_code = r.answered_code
                  AND o.verdict = 'valid' AND o.answered_code <> o.code
                  AND o.code_id < r.code_id));

COMMENT ON VIEW mirror.repeated_sales IS 'Rows of sales that repeat the purchase of another row. That row has the marketplace’s spelling of the code; otherwise it is the first.';

-- Views of schema reporting, the contract for BI tools. They read with their owner's rights and name every column.
-- Columns are only ever added, at the end. Enums are text in them.

CREATE VIEW reporting.accounts AS
SELECT
    seller_id,
    username,
    firstname,
    lastname,
    full_name,
    email,
    balance,
    currency,
    heading,
    description,
    contact_email,
    social_links,
    avatar_url,
    cover_url,
    registered_at,
    first_seen_at,
    changed_at,
    synced_run_id
FROM mirror.accounts;

COMMENT ON VIEW reporting.accounts IS 'The account of each seller, as last read.';
COMMENT ON COLUMN reporting.accounts.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.accounts.username IS 'Name of the account on the marketplace.';
COMMENT ON COLUMN reporting.accounts.firstname IS 'First name. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.lastname IS 'Last name. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.full_name IS 'Full name. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.email IS 'E-mail address of the account. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.balance IS 'Balance, in whole units of currency with two decimals; may be negative. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.currency IS 'Currency of balance, as the marketplace writes it, such as USD. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.heading IS 'Heading of the public profile. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.description IS 'Text of the public profile, which may contain HTML. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.contact_email IS 'E-mail address of the public profile. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.social_links IS 'Links of the public profile, as a JSON object of network to address; empty if there are none.';
COMMENT ON COLUMN reporting.accounts.avatar_url IS 'Address of the avatar. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.cover_url IS 'Address of the cover image. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.registered_at IS 'When the account was registered, as timestamptz in the time zone of the session. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.accounts.first_seen_at IS 'Start of the run that first saw the account, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.accounts.changed_at IS 'Start of the run that last found a change of the columns above, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.accounts.synced_run_id IS 'The run that wrote this state; run_id of sync_runs. A run that found no change does not appear here.';

CREATE VIEW reporting.account_history AS
SELECT
    seller_id,
    username,
    firstname,
    lastname,
    full_name,
    email,
    balance,
    currency,
    heading,
    description,
    contact_email,
    social_links,
    avatar_url,
    cover_url,
    registered_at,
    first_seen_at,
    synced_run_id,
    changed_at AS valid_from,
    NULL::timestamptz AS valid_to,
    NULL::bigint AS superseded_run_id
FROM mirror.accounts
UNION ALL
SELECT
    seller_id,
    username,
    firstname,
    lastname,
    full_name,
    email,
    balance,
    currency,
    heading,
    description,
    contact_email,
    social_links,
    avatar_url,
    cover_url,
    registered_at,
    first_seen_at,
    synced_run_id,
    valid_from,
    valid_to,
    superseded_run_id
FROM mirror.account_versions;

COMMENT ON VIEW reporting.account_history IS 'Every state of every account, including the current one. A state was valid from valid_from until just before valid_to, which is null for the current state.';
COMMENT ON COLUMN reporting.account_history.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.account_history.username IS 'Name of the account on the marketplace.';
COMMENT ON COLUMN reporting.account_history.firstname IS 'First name. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.lastname IS 'Last name. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.full_name IS 'Full name. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.email IS 'E-mail address of the account. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.balance IS 'Balance, in whole units of currency with two decimals; may be negative. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.currency IS 'Currency of balance, as the marketplace writes it, such as USD. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.heading IS 'Heading of the public profile. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.description IS 'Text of the public profile, which may contain HTML. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.contact_email IS 'E-mail address of the public profile. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.social_links IS 'Links of the public profile, as a JSON object of network to address; empty if there are none.';
COMMENT ON COLUMN reporting.account_history.avatar_url IS 'Address of the avatar. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.cover_url IS 'Address of the cover image. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.registered_at IS 'When the account was registered, as timestamptz in the time zone of the session. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.account_history.first_seen_at IS 'Start of the run that first saw the account, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.account_history.synced_run_id IS 'The run that wrote this state; run_id of sync_runs.';
COMMENT ON COLUMN reporting.account_history.valid_from IS 'When this state began, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.account_history.valid_to IS 'When this state ended, as timestamptz in the time zone of the session. Null for the current state.';
COMMENT ON COLUMN reporting.account_history.superseded_run_id IS 'The run that wrote the next state; run_id of sync_runs. Null for the current state.';

CREATE VIEW reporting.balance_history AS
SELECT
    b.seller_id,
    b.balance,
    b.currency,
    (CASE WHEN b.currency IS NOT DISTINCT FROM b.old_currency
          THEN b.balance - b.old_balance END)::numeric(15,2) AS change,
    b.valid_from,
    lead(b.valid_from) OVER (PARTITION BY b.seller_id ORDER BY b.valid_from) AS valid_to
FROM (
    SELECT
        h.seller_id,
        h.balance,
        h.currency,
        h.valid_from,
        lag(h.balance) OVER earlier AS old_balance,
        lag(h.currency) OVER earlier AS old_currency,
        row_number() OVER earlier AS place
    FROM reporting.account_history AS h
    WINDOW earlier AS (PARTITION BY h.seller_id ORDER BY h.valid_from)
) AS b
WHERE b.place = 1 OR (b.balance, b.currency) IS DISTINCT FROM (b.old_balance, b.old_currency);

COMMENT ON VIEW reporting.balance_history IS 'Every balance of every account, including the current one. It was valid from valid_from until just before valid_to. Changes of the profile make no row.';
COMMENT ON COLUMN reporting.balance_history.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.balance_history.balance IS 'Balance, in whole units of currency with two decimals; may be negative. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.balance_history.currency IS 'Currency of balance. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.balance_history.change IS 'Difference from the previous balance, in whole units of currency with two decimals. Null for the first balance, if either balance is null, and if the currency changed.';
COMMENT ON COLUMN reporting.balance_history.valid_from IS 'Start of the run that first saw this balance, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.balance_history.valid_to IS 'Start of the run that saw the next balance, as timestamptz in the time zone of the session. Null for the current balance.';

CREATE VIEW reporting.items AS
SELECT
    seller_id,
    item_id,
    name,
    description,
    category,
    sub_category,
    options,
    version,
    demo_link,
    tags,
    thumbnail_url,
    preview_image_url,
    preview_video_url,
    preview_audio_url,
    screenshots,
    price_regular,
    price_extended,
    currency,
    published_at,
    state::text AS state,
    first_seen_at,
    changed_at,
    removed_at,
    synced_run_id,
    extra
FROM mirror.items;

COMMENT ON VIEW reporting.items IS 'Every item ever seen. One row for each seller and item. state is live, missing (not in the list, but not proven to be gone) or removed (proven to be gone).';
COMMENT ON COLUMN reporting.items.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.items.item_id IS 'Number of the item on the marketplace; unique only together with seller_id.';
COMMENT ON COLUMN reporting.items.name IS 'Name of the item.';
COMMENT ON COLUMN reporting.items.description IS 'Description as the marketplace sends it, which may contain HTML. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.category IS 'Category. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.sub_category IS 'Category below category. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.options IS 'Options of the item, in the order of the marketplace; empty if there are none.';
COMMENT ON COLUMN reporting.items.version IS 'Version of the newest release, as the seller wrote it. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.demo_link IS 'Address of the demo. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.tags IS 'Tags, in the order of the marketplace; empty if there are none.';
COMMENT ON COLUMN reporting.items.thumbnail_url IS 'Address of the thumbnail. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.preview_image_url IS 'Address of the preview image. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.preview_video_url IS 'Address of the preview video. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.preview_audio_url IS 'Address of the preview audio. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.screenshots IS 'Addresses of the screenshots, in the order of the marketplace; empty if there are none.';
COMMENT ON COLUMN reporting.items.price_regular IS 'Price of the regular licence, in whole units of currency with two decimals. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.price_extended IS 'Price of the extended licence, in whole units of currency with two decimals. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.currency IS 'Currency of both prices, as the marketplace writes it, such as USD. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.published_at IS 'When the item was published, as timestamptz in the time zone of the session. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.items.state IS 'live: in the list, or found when it was looked up. missing: not in the list, but not proven to be gone. removed: proven to be gone.';
COMMENT ON COLUMN reporting.items.first_seen_at IS 'Start of the run that first saw the item, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.items.changed_at IS 'Start of the run that last found a change of the columns above, a removal or a return, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.items.removed_at IS 'Start of the run that found the item removed, as timestamptz in the time zone of the session. Null unless state is removed.';
COMMENT ON COLUMN reporting.items.synced_run_id IS 'The run that wrote this state; run_id of sync_runs. A run that found no change does not appear here.';
COMMENT ON COLUMN reporting.items.extra IS 'Fields that the marketplace sends beyond its documentation, as a JSON object by path, such as {"rating": 4.5}; empty if there are none.';

CREATE VIEW reporting.item_history AS
SELECT
    seller_id,
    item_id,
    name,
    description,
    category,
    sub_category,
    options,
    version,
    demo_link,
    tags,
    thumbnail_url,
    preview_image_url,
    preview_video_url,
    preview_audio_url,
    screenshots,
    price_regular,
    price_extended,
    currency,
    published_at,
    state::text AS state,
    first_seen_at,
    changed_at,
    removed_at,
    synced_run_id,
    valid_from,
    NULL::timestamptz AS valid_to,
    NULL::bigint AS superseded_run_id,
    extra
FROM mirror.items
UNION ALL
SELECT
    seller_id,
    item_id,
    name,
    description,
    category,
    sub_category,
    options,
    version,
    demo_link,
    tags,
    thumbnail_url,
    preview_image_url,
    preview_video_url,
    preview_audio_url,
    screenshots,
    price_regular,
    price_extended,
    currency,
    published_at,
    state::text,
    first_seen_at,
    changed_at,
    removed_at,
    synced_run_id,
    valid_from,
    valid_to,
    superseded_run_id,
    extra
FROM mirror.item_versions;

COMMENT ON VIEW reporting.item_history IS 'Every state of every item, including the current one. A state was valid from valid_from until just before valid_to, which is null for the current state.';
COMMENT ON COLUMN reporting.item_history.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.item_history.item_id IS 'Number of the item on the marketplace; unique only together with seller_id.';
COMMENT ON COLUMN reporting.item_history.name IS 'Name of the item.';
COMMENT ON COLUMN reporting.item_history.description IS 'Description as the marketplace sends it, which may contain HTML. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.category IS 'Category. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.sub_category IS 'Category below category. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.options IS 'Options of the item, in the order of the marketplace; empty if there are none.';
COMMENT ON COLUMN reporting.item_history.version IS 'Version of the newest release, as the seller wrote it. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.demo_link IS 'Address of the demo. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.tags IS 'Tags, in the order of the marketplace; empty if there are none.';
COMMENT ON COLUMN reporting.item_history.thumbnail_url IS 'Address of the thumbnail. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.preview_image_url IS 'Address of the preview image. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.preview_video_url IS 'Address of the preview video. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.preview_audio_url IS 'Address of the preview audio. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.screenshots IS 'Addresses of the screenshots, in the order of the marketplace; empty if there are none.';
COMMENT ON COLUMN reporting.item_history.price_regular IS 'Price of the regular licence, in whole units of currency with two decimals. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.price_extended IS 'Price of the extended licence, in whole units of currency with two decimals. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.currency IS 'Currency of both prices, as the marketplace writes it, such as USD. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.published_at IS 'When the item was published, as timestamptz in the time zone of the session. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.item_history.state IS 'live: in the list, or found when it was looked up. missing: not in the list, but not proven to be gone. removed: proven to be gone.';
COMMENT ON COLUMN reporting.item_history.first_seen_at IS 'Start of the run that first saw the item, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.item_history.changed_at IS 'Value of items.changed_at during this state, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.item_history.removed_at IS 'Value of items.removed_at during this state, as timestamptz in the time zone of the session. Null unless state is removed.';
COMMENT ON COLUMN reporting.item_history.synced_run_id IS 'The run that wrote this state; run_id of sync_runs.';
COMMENT ON COLUMN reporting.item_history.valid_from IS 'When this state began, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.item_history.valid_to IS 'When this state ended, as timestamptz in the time zone of the session. Null for the current state.';
COMMENT ON COLUMN reporting.item_history.superseded_run_id IS 'The run that wrote the next state; run_id of sync_runs. Null for the current state.';
COMMENT ON COLUMN reporting.item_history.extra IS 'Fields beyond the documentation, as a JSON object; as they were at the end of this state, because their changes alone make no new state.';

CREATE VIEW reporting.item_changes AS
SELECT
    seq,
    seller_id,
    item_id,
    run_id,
    changed_at,
    class::text AS class,
    field,
    old_value,
    new_value
FROM mirror.item_changes;

COMMENT ON VIEW reporting.item_changes IS 'Changes of items, field by field, in the order in which they were written. A seller’s first list makes no changes, and undocumented fields make none. A reader that continues after the last seq it has seen misses nothing.';
COMMENT ON COLUMN reporting.item_changes.seq IS 'Number of the change. Later changes have greater numbers, with gaps.';
COMMENT ON COLUMN reporting.item_changes.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.item_changes.item_id IS 'Number of the item on the marketplace.';
COMMENT ON COLUMN reporting.item_changes.run_id IS 'The run that found the change; run_id of sync_runs.';
COMMENT ON COLUMN reporting.item_changes.changed_at IS 'Start of that run, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.item_changes.class IS 'price, release (versions and dates of publication), text, media, added (listed for the first time), missing (no longer in the list, or found again), removed or restored.';
COMMENT ON COLUMN reporting.item_changes.field IS 'Name of the column that changed. It is state for items that are new, missing, removed or restored.';
COMMENT ON COLUMN reporting.item_changes.old_value IS 'Old value, as JSON: amounts and times (UTC) are text, lists are arrays. Null if there was none; the state of a new item was null.';
COMMENT ON COLUMN reporting.item_changes.new_value IS 'New value, as JSON like old_value. Null if there is none.';

CREATE VIEW reporting.price_changes AS
SELECT
    c.seq,
    c.seller_id,
    c.item_id,
    i.name AS item_name,
    c.run_id,
    c.changed_at,
    CASE c.field WHEN 'price_regular' THEN 'regular' ELSE 'extended' END AS price,
    (c.old_value #>> '{}')::numeric(14,2) AS old_price,
    (c.new_value #>> '{}')::numeric(14,2) AS new_price,
    -- An array tells no change from a change of nothing. Currencies are told by the changes that came
    -- later and by the item as it is now, since superseded states need not be kept.
    coalesce(
        (SELECT jsonb_build_array(s.old_value) FROM mirror.item_changes AS s
          WHERE s.seller_id = c.seller_id AND s.item_id = c.item_id AND s.field = 'currency'
            AND s.run_id >= c.run_id ORDER BY s.seq LIMIT 1),
        jsonb_build_array(i.currency)) ->> 0 AS old_currency,
    coalesce(
        (SELECT jsonb_build_array(s.old_value) FROM mirror.item_changes AS s
          WHERE s.seller_id = c.seller_id AND s.item_id = c.item_id AND s.field = 'currency'
            AND s.run_id > c.run_id ORDER BY s.seq LIMIT 1),
        jsonb_build_array(i.currency)) ->> 0 AS currency,
    (CASE WHEN (c.old_value #>> '{}')::numeric <> 0
          AND NOT EXISTS (SELECT FROM mirror.item_changes AS s
                           WHERE s.seller_id = c.seller_id AND s.item_id = c.item_id
                             AND s.field = 'currency' AND s.run_id = c.run_id)
         THEN round(((c.new_value #>> '{}')::numeric - (c.old_value #>> '{}')::numeric) * 100
                    / abs((c.old_value #>> '{}')::numeric), 2) END)::numeric(24,2) AS percent
FROM mirror.item_changes AS c
LEFT JOIN mirror.items AS i ON i.seller_id = c.seller_id AND i.item_id = c.item_id
WHERE c.class = 'price' AND c.field IN ('price_regular', 'price_extended');

COMMENT ON VIEW reporting.price_changes IS 'Changes of prices. One row for each changed price of an item. If only the currency changed, the change is in item_changes alone, with field currency.';
COMMENT ON COLUMN reporting.price_changes.seq IS 'Number of the change in item_changes. Later changes have greater numbers, with gaps.';
COMMENT ON COLUMN reporting.price_changes.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.price_changes.item_id IS 'Number of the item on the marketplace.';
COMMENT ON COLUMN reporting.price_changes.item_name IS 'Current name of the item.';
COMMENT ON COLUMN reporting.price_changes.run_id IS 'The run that found the change; run_id of sync_runs.';
COMMENT ON COLUMN reporting.price_changes.changed_at IS 'Start of that run, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.price_changes.price IS 'Which price: regular or extended.';
COMMENT ON COLUMN reporting.price_changes.old_price IS 'Old price, in whole units of old_currency with two decimals. Null if there was none.';
COMMENT ON COLUMN reporting.price_changes.new_price IS 'New price, in whole units of currency with two decimals. Null if there is none any more.';
COMMENT ON COLUMN reporting.price_changes.old_currency IS 'Currency before the change. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.price_changes.currency IS 'Currency after the change. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.price_changes.percent IS 'Rise in percent of the old price, rounded to two decimals; negative for a fall. Null if either price is null, the old price is 0, or the currency changed in the same run.';

CREATE VIEW reporting.items_daily AS
WITH first_lists AS MATERIALIZED (
    SELECT
        s.seller_id,
        (coalesce(r.started_at, s.created_at) AT TIME ZONE 'UTC')::date AS day,
        coalesce(r.added, 0)::bigint AS items,
        s.live_items::bigint AS live_items,
        s.missing_items::bigint AS missing_items
    FROM mirror.sellers AS s
    LEFT JOIN mirror.runs AS r ON r.run_id = s.loaded_run_id
    WHERE s.loaded_run_id IS NOT NULL
)
SELECT
    d.seller_id,
    d.day,
    d.live_items - coalesce(sum(s.live_change) OVER later, 0)::bigint AS live,
    d.missing_items - coalesce(sum(s.missing_change) OVER later, 0)::bigint AS missing,
    coalesce(s.added, 0) + d.first_items AS added,
    coalesce(s.restored, 0) AS restored,
    coalesce(s.removed, 0) AS removed,
    coalesce(r.changed, 0) AS changed,
    coalesce(r.runs, 0) AS runs
FROM (
    SELECT
        l.seller_id,
        l.day + n AS day,
        CASE n WHEN 0 THEN l.items ELSE 0 END AS first_items,
        l.live_items,
        l.missing_items
    FROM first_lists AS l
    CROSS JOIN LATERAL generate_series(0, (now() AT TIME ZONE 'UTC')::date - l.day) AS n
) AS d
LEFT JOIN (
    SELECT
        n.seller_id,
        (n.changed_at AT TIME ZONE 'UTC')::date AS day,
        sum(n.added)::bigint AS added,
        sum(n.restored)::bigint AS restored,
        sum(n.removed)::bigint AS removed,
        sum(n.live_change) AS live_change,
        sum(n.missing_change) AS missing_change
    FROM mirror.state_changes AS n
    GROUP BY 1, 2
) AS s ON s.seller_id = d.seller_id AND s.day = d.day
LEFT JOIN (
    SELECT
        r.seller_id,
        (r.started_at AT TIME ZONE 'UTC')::date AS day,
        sum(r.changed)::bigint AS changed,
        count(*) FILTER (WHERE r.kind = 'items' AND r.state IN ('succeeded', 'held')) AS runs
    FROM mirror.runs AS r
    WHERE r.kind IN ('items', 'item')
    GROUP BY 1, 2
) AS r ON r.seller_id = d.seller_id AND r.day = d.day
-- From the present backwards, so that it is right as far back as changes are kept.
WINDOW later AS (PARTITION BY d.seller_id ORDER BY d.day
                   ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING);

COMMENT ON VIEW reporting.items_daily IS 'Numbers of items for each day in UTC. One row for each seller and day, from the first list to today. A day without a run has no changes and the numbers of the day before. What a run found counts for the day on which it began.';
COMMENT ON COLUMN reporting.items_daily.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.items_daily.day IS 'Day in UTC. The row of today counts what has happened so far.';
COMMENT ON COLUMN reporting.items_daily.live IS 'Live items at the end of the day.';
COMMENT ON COLUMN reporting.items_daily.missing IS 'Missing items at the end of the day: not in the list, but not proven to be gone.';
COMMENT ON COLUMN reporting.items_daily.added IS 'Items that were new on that day; on the first day also those of the first list.';
COMMENT ON COLUMN reporting.items_daily.restored IS 'Removed items that came back on that day.';
COMMENT ON COLUMN reporting.items_daily.removed IS 'Items that were proven to be gone on that day.';
COMMENT ON COLUMN reporting.items_daily.changed IS 'Items that changed on that day. An item that changed in two runs counts twice.';
COMMENT ON COLUMN reporting.items_daily.runs IS 'Runs that mirrored all items on that day (succeeded or held). 0 means that there was no run, or that its row was deleted (KEEP_RUNS_DAYS).';

CREATE VIEW reporting.purchases AS
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

COMMENT ON VIEW reporting.purchases IS 'Purchases whose code is valid. One row for each code. Codes are shown whole, so that you can join them with your own tables. Everybody who may read this view can read every code.';
COMMENT ON COLUMN reporting.purchases.code_id IS 'Number of the code in this database.';
COMMENT ON COLUMN reporting.purchases.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.purchases.code IS 'The whole purchase code, as it stood in a list; unique only together with seller_id.';
COMMENT ON COLUMN reporting.purchases.item_id IS 'Number of the purchased item on the marketplace. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.purchases.item_name IS 'Current name of the item. If the mirror does not have the item, its name in the purchase.';
COMMENT ON COLUMN reporting.purchases.item_state IS 'live, missing or removed, as in items. Null if the mirror does not have the item.';
COMMENT ON COLUMN reporting.purchases.license_type IS 'Licence, as the marketplace writes it. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.purchases.price IS 'What was paid, in whole units of currency with two decimals. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.purchases.currency IS 'Currency of price. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.purchases.purchased_at IS 'When it was bought, as timestamptz in the time zone of the session. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.purchases.supported_until IS 'When support ends or ended, as timestamptz in the time zone of the session. Null if no end of support is known.';
COMMENT ON COLUMN reporting.purchases.support IS 'active: supported_until is in the future. expired: it is in the past. none: no end of support is known. Compared with the current time.';
COMMENT ON COLUMN reporting.purchases.downloaded IS 'Whether the buyer has downloaded the item. Null if the marketplace does not say.';
COMMENT ON COLUMN reporting.purchases.valid_since IS 'When the code was first found valid, since it was last invalid, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.purchases.first_checked_at IS 'When it was first proven to be valid or invalid, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.purchases.last_checked_at IS 'When it was last proven to be valid, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.purchases.answered_code IS 'The code as the marketplace spells it. Null if the marketplace does not say.';

CREATE VIEW reporting.purchase_transitions AS
SELECT
    t.seq,
    t.seller_id,
    t.code_id,
    p.code,
    p.item_id,
    coalesce(i.name, p.item_name) AS item_name,
    t.happened_at,
    t.kind,
    t.old_value,
    t.new_value
FROM mirror.code_transitions AS t
LEFT JOIN mirror.purchase_codes AS p ON p.code_id = t.code_id
LEFT JOIN mirror.items AS i ON i.seller_id = p.seller_id AND i.item_id = p.item_id;

COMMENT ON VIEW reporting.purchase_transitions IS 'Changes of purchase codes between two checks, in the order in which they were written. Codes are shown whole.';
COMMENT ON COLUMN reporting.purchase_transitions.seq IS 'Number of the transition. Later ones have greater numbers, with gaps.';
COMMENT ON COLUMN reporting.purchase_transitions.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.purchase_transitions.code_id IS 'Number of the code in this database; code_id of purchases while the code is valid.';
COMMENT ON COLUMN reporting.purchase_transitions.code IS 'The whole purchase code, as it stood in a list.';
COMMENT ON COLUMN reporting.purchase_transitions.item_id IS 'Number of the purchased item, as last sent by the marketplace. Null if it never sent one.';
COMMENT ON COLUMN reporting.purchase_transitions.item_name IS 'Current name of the item. If the mirror does not have the item, its name in the purchase.';
COMMENT ON COLUMN reporting.purchase_transitions.happened_at IS 'Time of the check that found it, as timestamptz in the time zone of the session.';
COMMENT ON COLUMN reporting.purchase_transitions.kind IS 'became-invalid (no longer valid: refunded, reversed, or the buyer’s account is closed), became-valid, license-changed, price-changed, item-changed, support-extended, support-shortened or support-expired. A first verdict is no transition.';
COMMENT ON COLUMN reporting.purchase_transitions.old_value IS 'Old value, as text: verdict, licence, amount and currency, item number, end of support (UTC), or state of support, depending on kind. Null if there was none.';
COMMENT ON COLUMN reporting.purchase_transitions.new_value IS 'New value, as text like old_value. Null if there is none.';

CREATE VIEW reporting.support_calendar AS
SELECT
    p.seller_id,
    date_trunc('month', p.supported_until AT TIME ZONE 'UTC')::date AS month,
    count(*) AS purchases,
    count(*) FILTER (WHERE p.supported_until > now()) AS active,
    count(*) FILTER (WHERE p.supported_until <= now()) AS expired
FROM mirror.sales AS p
WHERE p.supported_until IS NOT NULL
  AND NOT EXISTS (SELECT FROM mirror.repeated_sales AS s WHERE s.code_id = p.code_id)
GROUP BY 1, 2;

COMMENT ON VIEW reporting.support_calendar IS 'How many valid purchases lose their support in each month, past and future. Months without any have no row. Purchases without a known end of support are not counted.';
COMMENT ON COLUMN reporting.support_calendar.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.support_calendar.month IS 'First day, in UTC, of the month in which support ends.';
COMMENT ON COLUMN reporting.support_calendar.purchases IS 'Number of valid purchases whose support ends in that month: active + expired. A purchase whose code was checked in several spellings counts once.';
COMMENT ON COLUMN reporting.support_calendar.active IS 'How many of them are supported now.';
COMMENT ON COLUMN reporting.support_calendar.expired IS 'How many of them are no longer supported.';

CREATE VIEW reporting.revenue_by_item AS
SELECT
    r.seller_id,
    r.item_id,
    coalesce(i.name,
        (SELECT p.item_name FROM mirror.sales AS p
          WHERE p.seller_id = r.seller_id AND p.item_id = r.item_id
          ORDER BY p.purchase_seen_at DESC, p.code_id DESC LIMIT 1)) AS item_name,
    r.currency,
    r.purchases,
    r.without_price,
    r.revenue,
    r.first_purchased_at,
    r.last_purchased_at
FROM (
    SELECT
        p.seller_id,
        p.item_id,
        p.currency,
        count(*) AS purchases,
        count(*) - count(p.price) AS without_price,
        sum(p.price)::numeric(24,2) AS revenue,
        min(p.purchased_at) AS first_purchased_at,
        max(p.purchased_at) AS last_purchased_at
    FROM mirror.sales AS p
    WHERE NOT EXISTS (SELECT FROM mirror.repeated_sales AS s WHERE s.code_id = p.code_id)
    GROUP BY p.seller_id, p.item_id, p.currency
) AS r
LEFT JOIN mirror.items AS i ON i.seller_id = r.seller_id AND i.item_id = r.item_id;

COMMENT ON VIEW reporting.revenue_by_item IS 'Checked purchases that are valid, and what was paid for them, by item and currency. Purchases whose code was never checked are not included, nor those that are no longer valid: refunded, reversed, or the buyer’s account is closed.';
COMMENT ON COLUMN reporting.revenue_by_item.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.revenue_by_item.item_id IS 'Number of the item on the marketplace. Null for purchases whose item is not known.';
COMMENT ON COLUMN reporting.revenue_by_item.item_name IS 'Current name of the item. If the mirror does not have the item, its name in the newest purchase. Null if item_id is null.';
COMMENT ON COLUMN reporting.revenue_by_item.currency IS 'Currency of the prices; different currencies have rows of their own. Null for purchases whose currency is not known.';
COMMENT ON COLUMN reporting.revenue_by_item.purchases IS 'Number of valid purchases. A purchase whose code was checked in several spellings counts once.';
COMMENT ON COLUMN reporting.revenue_by_item.without_price IS 'How many of them have no known price; revenue does not include these.';
COMMENT ON COLUMN reporting.revenue_by_item.revenue IS 'What buyers paid for them, in whole units of currency with two decimals. Null if none has a known price.';
COMMENT ON COLUMN reporting.revenue_by_item.first_purchased_at IS 'Date of the first of these purchases, as timestamptz in the time zone of the session. Null if no date is known.';
COMMENT ON COLUMN reporting.revenue_by_item.last_purchased_at IS 'Date of the last of these purchases, as timestamptz in the time zone of the session. Null if no date is known.';

CREATE VIEW reporting.revenue_by_month AS
SELECT
    p.seller_id,
    date_trunc('month', p.purchased_at AT TIME ZONE 'UTC')::date AS month,
    p.currency,
    count(*) AS purchases,
    count(*) - count(p.price) AS without_price,
    sum(p.price)::numeric(24,2) AS revenue
FROM mirror.sales AS p
WHERE NOT EXISTS (SELECT FROM mirror.repeated_sales AS s WHERE s.code_id = p.code_id)
GROUP BY 1, 2, 3;

COMMENT ON VIEW reporting.revenue_by_month IS 'Checked purchases that are valid, and what was paid for them, by month of purchase and currency. Purchases whose code was never checked are not included, nor those that are no longer valid: refunded, reversed, or the buyer’s account is closed. Months without purchases have no row.';
COMMENT ON COLUMN reporting.revenue_by_month.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.revenue_by_month.month IS 'First day, in UTC, of the month in which they were bought. Null for purchases without a known date.';
COMMENT ON COLUMN reporting.revenue_by_month.currency IS 'Currency of the prices; different currencies have rows of their own. Null for purchases whose currency is not known.';
COMMENT ON COLUMN reporting.revenue_by_month.purchases IS 'Number of valid purchases. A purchase whose code was checked in several spellings counts once.';
COMMENT ON COLUMN reporting.revenue_by_month.without_price IS 'How many of them have no known price; revenue does not include these.';
COMMENT ON COLUMN reporting.revenue_by_month.revenue IS 'What buyers paid for them, in whole units of currency with two decimals. Null if none has a known price.';

CREATE VIEW reporting.sync_runs AS
SELECT
    run_id,
    seller_id,
    kind::text AS kind,
    state::text AS state,
    started_at,
    finished_at,
    holder,
    listed,
    added,
    changed,
    extra_changed,
    unchanged,
    restored,
    missing,
    removed,
    quarantined,
    duplicates,
    api_calls,
    bytes,
    tolerated,
    warnings,
    problem_code,
    problem,
    job_id,
    wide_fields,
    decision::text AS decision,
    decided_at,
    decided_by,
    approval_run_id
FROM mirror.runs;

COMMENT ON VIEW reporting.sync_runs IS 'One row for each run: what it did, what it found, how it ended.';
COMMENT ON COLUMN reporting.sync_runs.run_id IS 'Number of the run; later runs have greater numbers.';
COMMENT ON COLUMN reporting.sync_runs.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.sync_runs.kind IS 'account: the account alone. items: all items. item: one item. approval: removal of items of a held run that a person approved.';
COMMENT ON COLUMN reporting.sync_runs.state IS 'running, succeeded, failed, held (the removal guard keeps items that would be removed) or interrupted.';
COMMENT ON COLUMN reporting.sync_runs.started_at IS 'When the run began, as timestamptz in the time zone of the session. What the run found counts from this time.';
COMMENT ON COLUMN reporting.sync_runs.finished_at IS 'When the run ended, as timestamptz in the time zone of the session. Null while it runs.';
COMMENT ON COLUMN reporting.sync_runs.holder IS 'Host and process of the run.';
COMMENT ON COLUMN reporting.sync_runs.listed IS 'Records that the marketplace listed.';
COMMENT ON COLUMN reporting.sync_runs.added IS 'Items or accounts that were new.';
COMMENT ON COLUMN reporting.sync_runs.changed IS 'Items or accounts whose documented fields changed.';
COMMENT ON COLUMN reporting.sync_runs.extra_changed IS 'Items or accounts whose undocumented fields (extra) changed, and nothing else; these changes have no history.';
COMMENT ON COLUMN reporting.sync_runs.unchanged IS 'Items or accounts without a change.';
COMMENT ON COLUMN reporting.sync_runs.restored IS 'Removed items that came back.';
COMMENT ON COLUMN reporting.sync_runs.missing IS 'Items that were not in the list, but not proven to be gone.';
COMMENT ON COLUMN reporting.sync_runs.removed IS 'Items that were proven to be gone and marked as removed.';
COMMENT ON COLUMN reporting.sync_runs.quarantined IS 'Records that could not be read and were put aside.';
COMMENT ON COLUMN reporting.sync_runs.duplicates IS 'Records of items that the same list named before.';
COMMENT ON COLUMN reporting.sync_runs.api_calls IS 'Requests sent to the marketplace, repetitions included.';
COMMENT ON COLUMN reporting.sync_runs.bytes IS 'Size of the list as received, in bytes after decompression.';
COMMENT ON COLUMN reporting.sync_runs.tolerated IS 'Deviations from the documentation that were understood, as a JSON object of name to number of records.';
COMMENT ON COLUMN reporting.sync_runs.warnings IS 'Sentences for a person; empty if there are none.';
COMMENT ON COLUMN reporting.sync_runs.problem_code IS 'Code of the problem, for programs. Null if the run succeeded or is running.';
COMMENT ON COLUMN reporting.sync_runs.problem IS 'The problem in a sentence. Null if the run succeeded or is running.';
COMMENT ON COLUMN reporting.sync_runs.job_id IS 'Job of the run in the queue. Null if it was started by a command.';
COMMENT ON COLUMN reporting.sync_runs.wide_fields IS 'Columns of items that changed in nine of ten items or more at once, such as price_regular; empty if none did.';
COMMENT ON COLUMN reporting.sync_runs.decision IS 'Decision about the removals that the removal guard held back: approved or rejected. Null if nothing was held back or nobody has decided.';
COMMENT ON COLUMN reporting.sync_runs.decided_at IS 'Time of the decision, as timestamptz in the time zone of the session. Null if decision is null.';
COMMENT ON COLUMN reporting.sync_runs.decided_by IS 'Who decided: a user of the dashboard, or the account and host of the command. Null if decision is null.';
COMMENT ON COLUMN reporting.sync_runs.approval_run_id IS 'The run that removed the items after the approval; run_id of sync_runs. Null if there is none.';

CREATE VIEW reporting.freshness AS
SELECT
    s.seller_id,
    s.marketplace,
    a.finished_at AS account_mirrored_at,
    floor(extract(epoch FROM now() - a.finished_at))::bigint AS account_age_seconds,
    c.finished_at AS items_mirrored_at,
    floor(extract(epoch FROM now() - c.finished_at))::bigint AS items_age_seconds,
    coalesce(i.live, 0) AS live_items,
    coalesce(i.missing, 0) AS missing_items,
    coalesce(i.removed, 0) AS removed_items,
    s.parked_at,
    s.parked_code
FROM mirror.sellers AS s
LEFT JOIN LATERAL (
    SELECT r.finished_at FROM mirror.runs AS r
     WHERE r.seller_id = s.seller_id AND r.kind = 'account' AND r.state IN ('succeeded', 'held')
     ORDER BY r.run_id DESC LIMIT 1
) AS a ON true
LEFT JOIN LATERAL (
    SELECT r.finished_at FROM mirror.runs AS r
     WHERE r.seller_id = s.seller_id AND r.kind = 'items' AND r.state IN ('succeeded', 'held')
     ORDER BY r.run_id DESC LIMIT 1
) AS c ON true
LEFT JOIN (
    SELECT
        i.seller_id,
        count(*) FILTER (WHERE i.state = 'live') AS live,
        count(*) FILTER (WHERE i.state = 'missing') AS missing,
        count(*) FILTER (WHERE i.state = 'removed') AS removed
    FROM mirror.items AS i
    GROUP BY 1
) AS i ON i.seller_id = s.seller_id;

COMMENT ON VIEW reporting.freshness IS 'How current the copy of each seller is, and how large. One row for each seller.';
COMMENT ON COLUMN reporting.freshness.seller_id IS 'Name of the seller in the settings.';
COMMENT ON COLUMN reporting.freshness.marketplace IS 'The seller’s marketplace.';
COMMENT ON COLUMN reporting.freshness.account_mirrored_at IS 'When the last run that mirrored the account ended, as timestamptz in the time zone of the session. Null if there was none.';
COMMENT ON COLUMN reporting.freshness.account_age_seconds IS 'Seconds since then. Null if there was none.';
COMMENT ON COLUMN reporting.freshness.items_mirrored_at IS 'When the last run that mirrored all items ended (succeeded or held), as timestamptz in the time zone of the session. Null if there was none.';
COMMENT ON COLUMN reporting.freshness.items_age_seconds IS 'Seconds since then. Null if there was none.';
COMMENT ON COLUMN reporting.freshness.live_items IS 'Live items.';
COMMENT ON COLUMN reporting.freshness.missing_items IS 'Missing items: not in the list, but not proven to be gone.';
COMMENT ON COLUMN reporting.freshness.removed_items IS 'Removed items.';
COMMENT ON COLUMN reporting.freshness.parked_at IS 'When the seller’s schedules were stopped. They resume when somebody has fixed the cause or resumes them, as timestamptz in the time zone of the session. Null if they are not stopped.';
COMMENT ON COLUMN reporting.freshness.parked_code IS 'Why the schedules are stopped: paused if somebody paused them, otherwise the code of the problem, such as refused or account-changed. Null if they are not stopped.';

-- Functions of schema reporting. They read views, so whoever may read the views may call them. Each is one query, so
-- conditions on what they return reach the indexes.

CREATE FUNCTION reporting.items_as_of(moment timestamptz)
RETURNS TABLE (
    seller_id text,
    item_id bigint,
    name text,
    description text,
    category text,
    sub_category text,
    options text[],
    version text,
    demo_link text,
    tags text[],
    thumbnail_url text,
    preview_image_url text,
    preview_video_url text,
    preview_audio_url text,
    screenshots text[],
    price_regular numeric,
    price_extended numeric,
    currency text,
    published_at timestamptz,
    state text,
    first_seen_at timestamptz,
    changed_at timestamptz,
    removed_at timestamptz,
    synced_run_id bigint,
    extra jsonb
)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
SELECT
    h.seller_id,
    h.item_id,
    h.name,
    h.description,
    h.category,
    h.sub_category,
    h.options,
    h.version,
    h.demo_link,
    h.tags,
    h.thumbnail_url,
    h.preview_image_url,
    h.preview_video_url,
    h.preview_audio_url,
    h.screenshots,
    h.price_regular,
    h.price_extended,
    h.currency,
    h.published_at,
    h.state,
    h.first_seen_at,
    h.changed_at,
    h.removed_at,
    h.synced_run_id,
    h.extra
FROM reporting.item_history AS h
WHERE h.valid_from <= moment AND (h.valid_to > moment OR h.valid_to IS NULL)
$$;

COMMENT ON FUNCTION reporting.items_as_of(timestamptz) IS 'The rows of reporting.items at a time. What a run found counts from the start of the run. If old states are deleted (KEEP_VERSIONS_DAYS), the result is complete only for times after mirror.sellers.history_since.';

CREATE FUNCTION reporting.accounts_as_of(moment timestamptz)
RETURNS TABLE (
    seller_id text,
    username text,
    firstname text,
    lastname text,
    full_name text,
    email text,
    balance numeric,
    currency text,
    heading text,
    description text,
    contact_email text,
    social_links jsonb,
    avatar_url text,
    cover_url text,
    registered_at timestamptz,
    first_seen_at timestamptz,
    changed_at timestamptz,
    synced_run_id bigint
)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
SELECT
    h.seller_id,
    h.username,
    h.firstname,
    h.lastname,
    h.full_name,
    h.email,
    h.balance,
    h.currency,
    h.heading,
    h.description,
    h.contact_email,
    h.social_links,
    h.avatar_url,
    h.cover_url,
    h.registered_at,
    h.first_seen_at,
    h.valid_from,
    h.synced_run_id
FROM reporting.account_history AS h
WHERE h.valid_from <= moment AND (h.valid_to > moment OR h.valid_to IS NULL)
$$;

COMMENT ON FUNCTION reporting.accounts_as_of(timestamptz) IS 'The rows of reporting.accounts at a time. What a run found counts from the start of the run. If old states are deleted (KEEP_VERSIONS_DAYS), the result is complete only for times after mirror.sellers.history_since.';
