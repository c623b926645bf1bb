-- A store as this program left it on 22 November 2026, in the middle of its work: items and codes in every state,
-- audits that ended, were cancelled and go on, runs that failed and were held (approved, rejected, undecided), and
-- a parked seller, all of a simulated marketplace. Made by pg_dump --inserts --no-owner --no-acl --no-comments
-- --schema=mirror --schema=reporting, without its comments and empty lines. Never edited since.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA mirror;
CREATE SCHEMA reporting;
CREATE TYPE mirror.audit_state AS ENUM (
    'running',
    'finished',
    'cancelled',
    'failed'
);
CREATE TYPE mirror.change_class AS ENUM (
    'price',
    'release',
    'text',
    'media',
    'listing',
    'missing',
    'removed',
    'restored'
);
CREATE TYPE mirror.code_verdict AS ENUM (
    'valid',
    'invalid',
    'unproven'
);
CREATE TYPE mirror.decision AS ENUM (
    'approved',
    'rejected'
);
CREATE TYPE mirror.item_state AS ENUM (
    'live',
    'missing',
    'removed'
);
CREATE TYPE mirror.run_kind AS ENUM (
    'account',
    'catalogue',
    'item',
    'approval'
);
CREATE TYPE mirror.run_state AS ENUM (
    'running',
    'succeeded',
    'failed',
    'held',
    'interrupted'
);
CREATE FUNCTION mirror.enter_purchase_feed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('seller-mirror/purchases', 0));
    RETURN NULL;
END $$;
CREATE FUNCTION mirror.keep_checked_code() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (SELECT FROM "mirror"."code_checks" WHERE "code_id" = OLD."code_id")
       OR EXISTS (SELECT FROM "mirror"."code_transitions" WHERE "code_id" = OLD."code_id") THEN
        RAISE EXCEPTION 'code % has rows in mirror.code_checks or mirror.code_transitions', OLD."code_id"
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE FUNCTION mirror.number_purchase() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW."changed_seq" := nextval('"mirror"."item_changes_seq_seq"');
    RETURN NEW;
END $$;
CREATE FUNCTION reporting.accounts_as_of(moment timestamp with time zone) RETURNS TABLE(seller_id text, username text, firstname text, lastname text, full_name text, email text, balance numeric, currency text, heading text, description text, contact_email text, social_links jsonb, avatar_url text, cover_url text, registered_at timestamp with time zone, first_seen_at timestamp with time zone, changed_at timestamp with time zone, synced_run_id bigint)
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
SELECT
    h."seller_id",
    h."username",
    h."firstname",
    h."lastname",
    h."full_name",
    h."email",
    h."balance",
    h."currency",
    h."heading",
    h."description",
    h."contact_email",
    h."social_links",
    h."avatar_url",
    h."cover_url",
    h."registered_at",
    h."first_seen_at",
    h."valid_from",
    h."synced_run_id"
FROM "reporting"."account_history" AS h
WHERE h."valid_from" <= "moment" AND (h."valid_to" > "moment" OR h."valid_to" IS NULL)
$$;
CREATE FUNCTION reporting.items_as_of(moment timestamp with time zone) RETURNS TABLE(seller_id text, item_id bigint, name text, description text, category text, sub_category text, options text[], version text, demo_link text, tags text[], thumbnail_url text, preview_image_url text, preview_video_url text, preview_audio_url text, screenshots text[], price_regular numeric, price_extended numeric, currency text, published_at timestamp with time zone, state mirror.item_state, first_seen_at timestamp with time zone, changed_at timestamp with time zone, removed_at timestamp with time zone, synced_run_id bigint)
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
SELECT
    h."seller_id",
    h."item_id",
    h."name",
    h."description",
    h."category",
    h."sub_category",
    h."options",
    h."version",
    h."demo_link",
    h."tags",
    h."thumbnail_url",
    h."preview_image_url",
    h."preview_video_url",
    h."preview_audio_url",
    h."screenshots",
    h."price_regular",
    h."price_extended",
    h."currency",
    h."published_at",
    h."state",
    h."first_seen_at",
    h."changed_at",
    h."removed_at",
    h."synced_run_id"
FROM "reporting"."item_history" AS h
WHERE h."valid_from" <= "moment" AND (h."valid_to" > "moment" OR h."valid_to" IS NULL)
$$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE mirror._prisma_migrations (
    id character varying(36) NOT NULL,
    checksum character varying(64) NOT NULL,
    finished_at timestamp with time zone,
    migration_name character varying(255) NOT NULL,
    logs text,
    rolled_back_at timestamp with time zone,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    applied_steps_count integer DEFAULT 0 NOT NULL
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
    registered_at timestamp(6) with time zone,
    first_seen_at timestamp(6) with time zone NOT NULL,
    synced_run_id bigint NOT NULL,
    valid_from timestamp(6) with time zone NOT NULL,
    valid_to timestamp(6) with time zone NOT NULL,
    superseded_run_id bigint NOT NULL
);
CREATE TABLE mirror.accounts (
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
    registered_at timestamp(6) with time zone,
    first_seen_at timestamp(6) with time zone NOT NULL,
    changed_at timestamp(6) with time zone NOT NULL,
    synced_run_id bigint NOT NULL,
    content_hash bytea NOT NULL,
    extra jsonb NOT NULL,
    raw jsonb NOT NULL
);
CREATE TABLE mirror.audit_chunks (
    audit_id bigint NOT NULL,
    chunk integer NOT NULL,
    seller_id text NOT NULL,
    pending integer NOT NULL
);
CREATE TABLE mirror.audit_codes (
    audit_id bigint NOT NULL,
    "position" integer NOT NULL,
    seller_id text NOT NULL,
    code_id bigint NOT NULL,
    verdict mirror.code_verdict,
    check_id bigint,
    reused boolean NOT NULL,
    attempts integer DEFAULT 0 NOT NULL
);
CREATE TABLE mirror.audit_entries (
    audit_id bigint NOT NULL,
    entry integer NOT NULL,
    seller_id text NOT NULL,
    line integer NOT NULL,
    "position" integer,
    rejected text,
    columns text[]
);
CREATE TABLE mirror.audits (
    audit_id bigint NOT NULL,
    seller_id text NOT NULL,
    state mirror.audit_state NOT NULL,
    source text NOT NULL,
    layout jsonb NOT NULL,
    columns text[],
    max_age_seconds integer,
    canary text,
    chunk_size integer NOT NULL,
    lines integer NOT NULL,
    rejected integer NOT NULL,
    codes integer NOT NULL,
    reused integer NOT NULL,
    valid integer NOT NULL,
    invalid integer NOT NULL,
    unproven integer NOT NULL,
    pending integer NOT NULL,
    api_calls integer DEFAULT 0 NOT NULL,
    created_at timestamp(6) with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    finished_at timestamp(6) with time zone,
    problem text,
    list_pruned_at timestamp(6) with time zone
);
CREATE SEQUENCE mirror.audits_audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mirror.audits_audit_id_seq OWNED BY mirror.audits.audit_id;
CREATE TABLE mirror.code_checks (
    check_id bigint NOT NULL,
    seller_id text NOT NULL,
    code_id bigint NOT NULL,
    audit_id bigint,
    checked_at timestamp(6) with time zone NOT NULL,
    verdict mirror.code_verdict NOT NULL,
    reason text NOT NULL,
    proof text NOT NULL,
    http_status integer,
    message text,
    raw_hash bytea
);
CREATE SEQUENCE mirror.code_checks_check_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mirror.code_checks_check_id_seq OWNED BY mirror.code_checks.check_id;
CREATE TABLE mirror.code_transitions (
    seq bigint NOT NULL,
    seller_id text NOT NULL,
    code_id bigint NOT NULL,
    check_id bigint NOT NULL,
    happened_at timestamp(6) with time zone NOT NULL,
    kind text NOT NULL,
    old_value text,
    new_value text
);
CREATE SEQUENCE mirror.code_transitions_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mirror.code_transitions_seq_seq OWNED BY mirror.code_transitions.seq;
CREATE TABLE mirror.held_items (
    run_id bigint NOT NULL,
    item_id bigint NOT NULL,
    seller_id text NOT NULL,
    confirmed boolean NOT NULL
);
CREATE TABLE mirror.item_changes (
    seq bigint NOT NULL,
    seller_id text NOT NULL,
    item_id bigint NOT NULL,
    run_id bigint NOT NULL,
    changed_at timestamp(6) with time zone NOT NULL,
    class mirror.change_class NOT NULL,
    field text NOT NULL,
    old_value jsonb,
    new_value jsonb
);
CREATE SEQUENCE mirror.item_changes_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mirror.item_changes_seq_seq OWNED BY mirror.item_changes.seq;
CREATE TABLE mirror.item_lookups (
    seller_id text NOT NULL,
    item_id bigint NOT NULL,
    looked_up_at timestamp(6) with time zone NOT NULL,
    outcome text NOT NULL
);
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
    published_at timestamp(6) with time zone,
    state mirror.item_state NOT NULL,
    first_seen_at timestamp(6) with time zone NOT NULL,
    changed_at timestamp(6) with time zone NOT NULL,
    removed_at timestamp(6) with time zone,
    synced_run_id bigint NOT NULL,
    valid_from timestamp(6) with time zone NOT NULL,
    valid_to timestamp(6) with time zone NOT NULL,
    superseded_run_id bigint NOT NULL
);
CREATE TABLE mirror.items (
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
    published_at timestamp(6) with time zone,
    state mirror.item_state NOT NULL,
    first_seen_at timestamp(6) with time zone NOT NULL,
    changed_at timestamp(6) with time zone NOT NULL,
    removed_at timestamp(6) with time zone,
    synced_run_id bigint NOT NULL,
    content_hash bytea NOT NULL,
    extra_hash bytea NOT NULL,
    wire_hash bytea NOT NULL,
    extra jsonb NOT NULL,
    raw jsonb NOT NULL,
    valid_from timestamp(6) with time zone NOT NULL
);
CREATE TABLE mirror.processes (
    process_id uuid NOT NULL,
    roles text[],
    host text NOT NULL,
    pid integer NOT NULL,
    started_at timestamp(6) with time zone NOT NULL,
    seen_at timestamp(6) with time zone NOT NULL
);
CREATE TABLE mirror.purchase_codes (
    code_id bigint NOT NULL,
    seller_id text NOT NULL,
    code text NOT NULL COLLATE pg_catalog."C",
    verdict mirror.code_verdict,
    proof text,
    verdict_since timestamp(6) with time zone,
    first_checked_at timestamp(6) with time zone,
    last_checked_at timestamp(6) with time zone,
    last_check_id bigint,
    purchase_seen_at timestamp(6) with time zone,
    answered_code text,
    license_type text,
    price numeric(14,2),
    currency text,
    item_id bigint,
    item_name text,
    item_url text,
    item_preview_url text,
    item_full boolean DEFAULT false NOT NULL,
    supported_until timestamp(6) with time zone,
    downloaded boolean,
    purchased_at timestamp(6) with time zone,
    raw jsonb,
    changed_seq bigint
);
CREATE SEQUENCE mirror.purchase_codes_code_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mirror.purchase_codes_code_id_seq OWNED BY mirror.purchase_codes.code_id;
CREATE TABLE mirror.quarantine (
    quarantine_id bigint NOT NULL,
    seller_id text NOT NULL,
    item_id bigint,
    reason text NOT NULL,
    raw text NOT NULL,
    raw_hash bytea NOT NULL,
    first_run_id bigint NOT NULL,
    last_run_id bigint NOT NULL,
    first_seen_at timestamp(6) with time zone NOT NULL,
    last_seen_at timestamp(6) with time zone NOT NULL
);
CREATE SEQUENCE mirror.quarantine_quarantine_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mirror.quarantine_quarantine_id_seq OWNED BY mirror.quarantine.quarantine_id;
CREATE VIEW mirror.repeated_sales AS
 SELECT r.code_id
   FROM mirror.purchase_codes r
  WHERE ((r.verdict = 'valid'::mirror.code_verdict) AND (r.answered_code <> r.code) AND ((EXISTS ( SELECT
           FROM mirror.purchase_codes o
          WHERE ((o.seller_id = r.seller_id) AND (o.code = r.answered_code) AND (o.verdict = 'valid'::mirror.code_verdict) AND ((o.answered_code IS DISTINCT FROM r.code) OR (o.code_id < r.code_id))))) OR (EXISTS ( SELECT
           FROM mirror.purchase_codes o
          WHERE ((o.seller_id = r.seller_id) AND (o.answered_code = r.answered_code) AND (o.verdict = 'valid'::mirror.code_verdict) AND (o.answered_code <> o.code) AND (o.code_id < r.code_id))))));
CREATE TABLE mirror.request_budgets (
    host text NOT NULL,
    next_at timestamp(6) with time zone NOT NULL,
    paused_until timestamp(6) with time zone NOT NULL,
    urgent_until timestamp(6) with time zone NOT NULL
);
CREATE TABLE mirror.runs (
    run_id bigint NOT NULL,
    seller_id text NOT NULL,
    kind mirror.run_kind NOT NULL,
    state mirror.run_state NOT NULL,
    started_at timestamp(6) with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    finished_at timestamp(6) with time zone,
    holder text NOT NULL,
    listed integer DEFAULT 0 NOT NULL,
    added integer DEFAULT 0 NOT NULL,
    changed integer DEFAULT 0 NOT NULL,
    extra_changed integer DEFAULT 0 NOT NULL,
    unchanged integer DEFAULT 0 NOT NULL,
    restored integer DEFAULT 0 NOT NULL,
    missing integer DEFAULT 0 NOT NULL,
    removed integer DEFAULT 0 NOT NULL,
    quarantined integer DEFAULT 0 NOT NULL,
    duplicates integer DEFAULT 0 NOT NULL,
    api_calls integer DEFAULT 0 NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL,
    tolerated jsonb DEFAULT '{}'::jsonb NOT NULL,
    warnings text[] DEFAULT ARRAY[]::text[],
    problem_code text,
    problem text,
    job_id text,
    catalogue_wide text[] DEFAULT ARRAY[]::text[],
    approval_run_id bigint,
    compared integer,
    decided_at timestamp(6) with time zone,
    decided_by text,
    decision mirror.decision,
    present integer,
    wide_items integer[] DEFAULT ARRAY[]::integer[]
);
CREATE SEQUENCE mirror.runs_run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE mirror.runs_run_id_seq OWNED BY mirror.runs.run_id;
CREATE VIEW mirror.sales AS
 SELECT purchase_codes.code_id,
    purchase_codes.seller_id,
    purchase_codes.code,
    purchase_codes.item_id,
    purchase_codes.item_name,
    purchase_codes.license_type,
    purchase_codes.price,
    purchase_codes.currency,
    purchase_codes.purchased_at,
    purchase_codes.supported_until,
    purchase_codes.downloaded,
    purchase_codes.verdict_since,
    purchase_codes.first_checked_at,
    purchase_codes.last_checked_at,
    purchase_codes.purchase_seen_at,
    purchase_codes.answered_code
   FROM mirror.purchase_codes
  WHERE ((purchase_codes.verdict = 'valid'::mirror.code_verdict) AND (octet_length(COALESCE(purchase_codes.currency, ''::text)) <= 64))
UNION ALL
 SELECT purchase_codes.code_id,
    purchase_codes.seller_id,
    purchase_codes.code,
    purchase_codes.item_id,
    purchase_codes.item_name,
    purchase_codes.license_type,
    purchase_codes.price,
    purchase_codes.currency,
    purchase_codes.purchased_at,
    purchase_codes.supported_until,
    purchase_codes.downloaded,
    purchase_codes.verdict_since,
    purchase_codes.first_checked_at,
    purchase_codes.last_checked_at,
    purchase_codes.purchase_seen_at,
    purchase_codes.answered_code
   FROM mirror.purchase_codes
  WHERE ((purchase_codes.verdict = 'valid'::mirror.code_verdict) AND (octet_length(COALESCE(purchase_codes.currency, ''::text)) > 64));
CREATE TABLE mirror.schedules (
    seller_id text NOT NULL,
    kind text NOT NULL,
    cron text NOT NULL,
    time_zone text NOT NULL,
    last_tick timestamp(6) with time zone NOT NULL,
    enqueued_at timestamp(6) with time zone NOT NULL
);
CREATE TABLE mirror.sellers (
    seller_id text NOT NULL,
    marketplace text NOT NULL,
    bound_username text,
    bound_at timestamp(6) with time zone,
    created_at timestamp(6) with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    parked_at timestamp(6) with time zone,
    parked_code text,
    parked_reason text,
    parked_run_id bigint,
    loaded_run_id bigint,
    loaded_seq bigint,
    history_since timestamp(6) with time zone
);
CREATE VIEW reporting.account_history AS
 SELECT accounts.seller_id,
    accounts.username,
    accounts.firstname,
    accounts.lastname,
    accounts.full_name,
    accounts.email,
    accounts.balance,
    accounts.currency,
    accounts.heading,
    accounts.description,
    accounts.contact_email,
    accounts.social_links,
    accounts.avatar_url,
    accounts.cover_url,
    accounts.registered_at,
    accounts.first_seen_at,
    accounts.synced_run_id,
    accounts.changed_at AS valid_from,
    NULL::timestamp with time zone AS valid_to,
    NULL::bigint AS superseded_run_id
   FROM mirror.accounts
UNION ALL
 SELECT account_versions.seller_id,
    account_versions.username,
    account_versions.firstname,
    account_versions.lastname,
    account_versions.full_name,
    account_versions.email,
    account_versions.balance,
    account_versions.currency,
    account_versions.heading,
    account_versions.description,
    account_versions.contact_email,
    account_versions.social_links,
    account_versions.avatar_url,
    account_versions.cover_url,
    account_versions.registered_at,
    account_versions.first_seen_at,
    account_versions.synced_run_id,
    account_versions.valid_from,
    account_versions.valid_to,
    account_versions.superseded_run_id
   FROM mirror.account_versions;
CREATE VIEW reporting.accounts AS
 SELECT accounts.seller_id,
    accounts.username,
    accounts.firstname,
    accounts.lastname,
    accounts.full_name,
    accounts.email,
    accounts.balance,
    accounts.currency,
    accounts.heading,
    accounts.description,
    accounts.contact_email,
    accounts.social_links,
    accounts.avatar_url,
    accounts.cover_url,
    accounts.registered_at,
    accounts.first_seen_at,
    accounts.changed_at,
    accounts.synced_run_id
   FROM mirror.accounts;
CREATE VIEW reporting.balance_history AS
 SELECT b.seller_id,
    b.balance,
    b.currency,
    (
        CASE
            WHEN (NOT (b.currency IS DISTINCT FROM b.old_currency)) THEN (b.balance - b.old_balance)
            ELSE NULL::numeric
        END)::numeric(15,2) AS change,
    b.valid_from,
    lead(b.valid_from) OVER (PARTITION BY b.seller_id ORDER BY b.valid_from) AS valid_to
   FROM ( SELECT h.seller_id,
            h.balance,
            h.currency,
            h.valid_from,
            lag(h.balance) OVER earlier AS old_balance,
            lag(h.currency) OVER earlier AS old_currency,
            row_number() OVER earlier AS place
           FROM reporting.account_history h
          WINDOW earlier AS (PARTITION BY h.seller_id ORDER BY h.valid_from)) b
  WHERE ((b.place = 1) OR ((b.balance IS DISTINCT FROM b.old_balance) OR (b.currency IS DISTINCT FROM b.old_currency)));
CREATE VIEW reporting.catalogue_daily AS
 WITH first_lists AS MATERIALIZED (
         SELECT s_1.seller_id,
            ((COALESCE(r_1.started_at, s_1.created_at) AT TIME ZONE 'UTC'::text))::date AS day,
            (COALESCE(r_1.added, 0))::bigint AS items
           FROM (mirror.sellers s_1
             LEFT JOIN mirror.runs r_1 ON ((r_1.run_id = s_1.loaded_run_id)))
          WHERE (s_1.loaded_run_id IS NOT NULL)
        )
 SELECT d.seller_id,
    d.day,
    (COALESCE(p.live, (0)::bigint) - (COALESCE(sum(s.live_change) OVER later, (0)::numeric))::bigint) AS live,
    (COALESCE(p.missing, (0)::bigint) - (COALESCE(sum(s.missing_change) OVER later, (0)::numeric))::bigint) AS missing,
    (COALESCE(s.added, (0)::bigint) + d.first_items) AS added,
    COALESCE(s.restored, (0)::bigint) AS restored,
    COALESCE(s.removed, (0)::bigint) AS removed,
    COALESCE(r.changed, (0)::bigint) AS changed,
    COALESCE(r.runs, (0)::bigint) AS runs
   FROM (((( SELECT l.seller_id,
            (l.day + n.n) AS day,
                CASE n.n
                    WHEN 0 THEN l.items
                    ELSE (0)::bigint
                END AS first_items
           FROM (first_lists l
             CROSS JOIN LATERAL generate_series(0, (((now() AT TIME ZONE 'UTC'::text))::date - l.day)) n(n))) d
     LEFT JOIN ( SELECT n.seller_id,
            ((n.changed_at AT TIME ZONE 'UTC'::text))::date AS day,
            (sum(n.added))::bigint AS added,
            (sum(n.restored))::bigint AS restored,
            (sum(n.removed))::bigint AS removed,
            sum(n.live_change) AS live_change,
            sum(n.missing_change) AS missing_change
           FROM ( SELECT c.seller_id,
                    c.changed_at,
                    count(*) FILTER (WHERE (c.class = 'listing'::mirror.change_class)) AS added,
                    count(*) FILTER (WHERE (c.class = 'restored'::mirror.change_class)) AS restored,
                    count(*) FILTER (WHERE (c.class = 'removed'::mirror.change_class)) AS removed,
                    sum(
                        CASE
                            WHEN (c.class = ANY (ARRAY['listing'::mirror.change_class, 'restored'::mirror.change_class])) THEN 1
                            WHEN ((c.class = 'missing'::mirror.change_class) AND (c.new_value = '"live"'::jsonb)) THEN 1
                            WHEN (c.old_value = '"live"'::jsonb) THEN '-1'::integer
                            ELSE 0
                        END) AS live_change,
                    sum(
                        CASE
                            WHEN (c.class = ANY (ARRAY['listing'::mirror.change_class, 'restored'::mirror.change_class])) THEN 0
                            WHEN ((c.class = 'missing'::mirror.change_class) AND (c.new_value = '"missing"'::jsonb)) THEN 1
                            WHEN (c.old_value = '"missing"'::jsonb) THEN '-1'::integer
                            ELSE 0
                        END) AS missing_change
                   FROM mirror.item_changes c
                  WHERE (c.field = 'state'::text)
                  GROUP BY c.seller_id, c.changed_at) n
          GROUP BY n.seller_id, (((n.changed_at AT TIME ZONE 'UTC'::text))::date)) s ON (((s.seller_id = d.seller_id) AND (s.day = d.day))))
     LEFT JOIN ( SELECT r_1.seller_id,
            ((r_1.started_at AT TIME ZONE 'UTC'::text))::date AS day,
            sum(r_1.changed) AS changed,
            count(*) FILTER (WHERE ((r_1.kind = 'catalogue'::mirror.run_kind) AND (r_1.state = ANY (ARRAY['succeeded'::mirror.run_state, 'held'::mirror.run_state])))) AS runs
           FROM mirror.runs r_1
          WHERE (r_1.kind = ANY (ARRAY['catalogue'::mirror.run_kind, 'item'::mirror.run_kind]))
          GROUP BY r_1.seller_id, (((r_1.started_at AT TIME ZONE 'UTC'::text))::date)) r ON (((r.seller_id = d.seller_id) AND (r.day = d.day))))
     LEFT JOIN ( SELECT i.seller_id,
            count(*) FILTER (WHERE (i.state = 'live'::mirror.item_state)) AS live,
            count(*) FILTER (WHERE (i.state = 'missing'::mirror.item_state)) AS missing
           FROM mirror.items i
          GROUP BY i.seller_id) p ON ((p.seller_id = d.seller_id)))
  WINDOW later AS (PARTITION BY d.seller_id ORDER BY d.day ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING);
CREATE VIEW reporting.freshness AS
 SELECT s.seller_id,
    s.marketplace,
    a.finished_at AS account_mirrored_at,
    (floor(EXTRACT(epoch FROM (now() - a.finished_at))))::bigint AS account_age_seconds,
    c.finished_at AS items_mirrored_at,
    (floor(EXTRACT(epoch FROM (now() - c.finished_at))))::bigint AS items_age_seconds,
    COALESCE(i.live, (0)::bigint) AS live_items,
    COALESCE(i.missing, (0)::bigint) AS missing_items,
    COALESCE(i.removed, (0)::bigint) AS removed_items,
    s.parked_at
   FROM (((mirror.sellers s
     LEFT JOIN LATERAL ( SELECT r.finished_at
           FROM mirror.runs r
          WHERE ((r.seller_id = s.seller_id) AND (r.kind = 'account'::mirror.run_kind) AND (r.state = ANY (ARRAY['succeeded'::mirror.run_state, 'held'::mirror.run_state])))
          ORDER BY r.run_id DESC
         LIMIT 1) a ON (true))
     LEFT JOIN LATERAL ( SELECT r.finished_at
           FROM mirror.runs r
          WHERE ((r.seller_id = s.seller_id) AND (r.kind = 'catalogue'::mirror.run_kind) AND (r.state = ANY (ARRAY['succeeded'::mirror.run_state, 'held'::mirror.run_state])))
          ORDER BY r.run_id DESC
         LIMIT 1) c ON (true))
     LEFT JOIN ( SELECT i_1.seller_id,
            count(*) FILTER (WHERE (i_1.state = 'live'::mirror.item_state)) AS live,
            count(*) FILTER (WHERE (i_1.state = 'missing'::mirror.item_state)) AS missing,
            count(*) FILTER (WHERE (i_1.state = 'removed'::mirror.item_state)) AS removed
           FROM mirror.items i_1
          GROUP BY i_1.seller_id) i ON ((i.seller_id = s.seller_id)));
CREATE VIEW reporting.item_changes AS
 SELECT item_changes.seq,
    item_changes.seller_id,
    item_changes.item_id,
    item_changes.run_id,
    item_changes.changed_at,
    item_changes.class,
    item_changes.field,
    item_changes.old_value,
    item_changes.new_value
   FROM mirror.item_changes;
CREATE VIEW reporting.item_history AS
 SELECT items.seller_id,
    items.item_id,
    items.name,
    items.description,
    items.category,
    items.sub_category,
    items.options,
    items.version,
    items.demo_link,
    items.tags,
    items.thumbnail_url,
    items.preview_image_url,
    items.preview_video_url,
    items.preview_audio_url,
    items.screenshots,
    items.price_regular,
    items.price_extended,
    items.currency,
    items.published_at,
    items.state,
    items.first_seen_at,
    items.changed_at,
    items.removed_at,
    items.synced_run_id,
    items.valid_from,
    NULL::timestamp with time zone AS valid_to,
    NULL::bigint AS superseded_run_id
   FROM mirror.items
UNION ALL
 SELECT item_versions.seller_id,
    item_versions.item_id,
    item_versions.name,
    item_versions.description,
    item_versions.category,
    item_versions.sub_category,
    item_versions.options,
    item_versions.version,
    item_versions.demo_link,
    item_versions.tags,
    item_versions.thumbnail_url,
    item_versions.preview_image_url,
    item_versions.preview_video_url,
    item_versions.preview_audio_url,
    item_versions.screenshots,
    item_versions.price_regular,
    item_versions.price_extended,
    item_versions.currency,
    item_versions.published_at,
    item_versions.state,
    item_versions.first_seen_at,
    item_versions.changed_at,
    item_versions.removed_at,
    item_versions.synced_run_id,
    item_versions.valid_from,
    item_versions.valid_to,
    item_versions.superseded_run_id
   FROM mirror.item_versions;
CREATE VIEW reporting.items AS
 SELECT items.seller_id,
    items.item_id,
    items.name,
    items.description,
    items.category,
    items.sub_category,
    items.options,
    items.version,
    items.demo_link,
    items.tags,
    items.thumbnail_url,
    items.preview_image_url,
    items.preview_video_url,
    items.preview_audio_url,
    items.screenshots,
    items.price_regular,
    items.price_extended,
    items.currency,
    items.published_at,
    items.state,
    items.first_seen_at,
    items.changed_at,
    items.removed_at,
    items.synced_run_id
   FROM mirror.items;
CREATE VIEW reporting.price_changes AS
 SELECT c.seq,
    c.seller_id,
    c.item_id,
    i.name AS item_name,
    c.run_id,
    c.changed_at,
        CASE c.field
            WHEN 'price_regular'::text THEN 'regular'::text
            ELSE 'extended'::text
        END AS price,
    ((c.old_value #>> '{}'::text[]))::numeric(14,2) AS old_price,
    ((c.new_value #>> '{}'::text[]))::numeric(14,2) AS new_price,
    (COALESCE(( SELECT jsonb_build_array(s.old_value) AS jsonb_build_array
           FROM mirror.item_changes s
          WHERE ((s.seller_id = c.seller_id) AND (s.item_id = c.item_id) AND (s.field = 'currency'::text) AND (s.run_id >= c.run_id))
          ORDER BY s.seq
         LIMIT 1), jsonb_build_array(i.currency)) ->> 0) AS old_currency,
    (COALESCE(( SELECT jsonb_build_array(s.old_value) AS jsonb_build_array
           FROM mirror.item_changes s
          WHERE ((s.seller_id = c.seller_id) AND (s.item_id = c.item_id) AND (s.field = 'currency'::text) AND (s.run_id > c.run_id))
          ORDER BY s.seq
         LIMIT 1), jsonb_build_array(i.currency)) ->> 0) AS currency,
    (
        CASE
            WHEN ((((c.old_value #>> '{}'::text[]))::numeric <> (0)::numeric) AND (NOT (EXISTS ( SELECT
               FROM mirror.item_changes s
              WHERE ((s.seller_id = c.seller_id) AND (s.item_id = c.item_id) AND (s.field = 'currency'::text) AND (s.run_id = c.run_id)))))) THEN round((((((c.new_value #>> '{}'::text[]))::numeric - ((c.old_value #>> '{}'::text[]))::numeric) * (100)::numeric) / abs(((c.old_value #>> '{}'::text[]))::numeric)), 2)
            ELSE NULL::numeric
        END)::numeric(24,2) AS percent
   FROM (mirror.item_changes c
     LEFT JOIN mirror.items i ON (((i.seller_id = c.seller_id) AND (i.item_id = c.item_id))))
  WHERE ((c.class = 'price'::mirror.change_class) AND (c.field = ANY (ARRAY['price_regular'::text, 'price_extended'::text])));
CREATE VIEW reporting.purchase_transitions AS
 SELECT t.seq,
    t.seller_id,
    t.code_id,
    p.code,
    p.item_id,
    COALESCE(i.name, p.item_name) AS item_name,
    t.happened_at,
    t.kind,
    t.old_value,
    t.new_value
   FROM ((mirror.code_transitions t
     LEFT JOIN mirror.purchase_codes p ON ((p.code_id = t.code_id)))
     LEFT JOIN mirror.items i ON (((i.seller_id = p.seller_id) AND (i.item_id = p.item_id))));
CREATE VIEW reporting.purchases AS
 SELECT p.code_id,
    p.seller_id,
    p.code,
    p.item_id,
    COALESCE(i.name, p.item_name) AS item_name,
    i.state AS item_state,
    p.license_type,
    p.price,
    p.currency,
    p.purchased_at,
    p.supported_until,
        CASE
            WHEN (p.supported_until IS NULL) THEN 'none'::text
            WHEN (p.supported_until > now()) THEN 'active'::text
            ELSE 'expired'::text
        END AS support,
    p.downloaded,
    p.verdict_since AS valid_since,
    p.first_checked_at,
    p.last_checked_at,
    p.answered_code
   FROM (mirror.sales p
     LEFT JOIN mirror.items i ON (((i.seller_id = p.seller_id) AND (i.item_id = p.item_id))));
CREATE VIEW reporting.revenue_by_item AS
 SELECT r.seller_id,
    r.item_id,
    COALESCE(i.name, ( SELECT p.item_name
           FROM mirror.sales p
          WHERE ((p.seller_id = r.seller_id) AND (p.item_id = r.item_id))
          ORDER BY p.purchase_seen_at DESC, p.code_id DESC
         LIMIT 1)) AS item_name,
    r.currency,
    r.purchases,
    r.without_price,
    r.revenue,
    r.first_purchased_at,
    r.last_purchased_at
   FROM (( SELECT p.seller_id,
            p.item_id,
            p.currency,
            count(*) AS purchases,
            (count(*) - count(p.price)) AS without_price,
            (sum(p.price))::numeric(24,2) AS revenue,
            min(p.purchased_at) AS first_purchased_at,
            max(p.purchased_at) AS last_purchased_at
           FROM mirror.sales p
          WHERE (NOT (EXISTS ( SELECT
                   FROM mirror.repeated_sales s
                  WHERE (s.code_id = p.code_id))))
          GROUP BY p.seller_id, p.item_id, p.currency) r
     LEFT JOIN mirror.items i ON (((i.seller_id = r.seller_id) AND (i.item_id = r.item_id))));
CREATE VIEW reporting.revenue_by_month AS
 SELECT p.seller_id,
    (date_trunc('month'::text, (p.purchased_at AT TIME ZONE 'UTC'::text)))::date AS month,
    p.currency,
    count(*) AS purchases,
    (count(*) - count(p.price)) AS without_price,
    (sum(p.price))::numeric(24,2) AS revenue
   FROM mirror.sales p
  WHERE (NOT (EXISTS ( SELECT
           FROM mirror.repeated_sales s
          WHERE (s.code_id = p.code_id))))
  GROUP BY p.seller_id, ((date_trunc('month'::text, (p.purchased_at AT TIME ZONE 'UTC'::text)))::date), p.currency;
CREATE VIEW reporting.support_calendar AS
 SELECT p.seller_id,
    (date_trunc('month'::text, (p.supported_until AT TIME ZONE 'UTC'::text)))::date AS month,
    count(*) AS purchases,
    count(*) FILTER (WHERE (p.supported_until > now())) AS active,
    count(*) FILTER (WHERE (p.supported_until <= now())) AS expired
   FROM mirror.sales p
  WHERE ((p.supported_until IS NOT NULL) AND (NOT (EXISTS ( SELECT
           FROM mirror.repeated_sales s
          WHERE (s.code_id = p.code_id)))))
  GROUP BY p.seller_id, ((date_trunc('month'::text, (p.supported_until AT TIME ZONE 'UTC'::text)))::date);
CREATE VIEW reporting.sync_runs AS
 SELECT runs.run_id,
    runs.seller_id,
    runs.kind,
    runs.state,
    runs.started_at,
    runs.finished_at,
    runs.holder,
    runs.listed,
    runs.added,
    runs.changed,
    runs.extra_changed,
    runs.unchanged,
    runs.restored,
    runs.missing,
    runs.removed,
    runs.quarantined,
    runs.duplicates,
    runs.api_calls,
    runs.bytes,
    runs.tolerated,
    runs.warnings,
    runs.problem_code,
    runs.problem,
    runs.job_id,
    runs.catalogue_wide,
    runs.decision,
    runs.decided_at,
    runs.decided_by,
    runs.approval_run_id
   FROM mirror.runs;
ALTER TABLE ONLY mirror.audits ALTER COLUMN audit_id SET DEFAULT nextval('mirror.audits_audit_id_seq'::regclass);
ALTER TABLE ONLY mirror.code_checks ALTER COLUMN check_id SET DEFAULT nextval('mirror.code_checks_check_id_seq'::regclass);
ALTER TABLE ONLY mirror.code_transitions ALTER COLUMN seq SET DEFAULT nextval('mirror.code_transitions_seq_seq'::regclass);
ALTER TABLE ONLY mirror.item_changes ALTER COLUMN seq SET DEFAULT nextval('mirror.item_changes_seq_seq'::regclass);
ALTER TABLE ONLY mirror.purchase_codes ALTER COLUMN code_id SET DEFAULT nextval('mirror.purchase_codes_code_id_seq'::regclass);
ALTER TABLE ONLY mirror.quarantine ALTER COLUMN quarantine_id SET DEFAULT nextval('mirror.quarantine_quarantine_id_seq'::regclass);
ALTER TABLE ONLY mirror.runs ALTER COLUMN run_id SET DEFAULT nextval('mirror.runs_run_id_seq'::regclass);
INSERT INTO mirror._prisma_migrations VALUES ('a81e99d4-d01b-474c-bcd0-636bbd116586', '5c957565336f732a2ce8e4ea23a1be7395bdc78431678e0c6ae6d0f4210318e9', '2026-11-23 02:46:00.533+00', '20261101000000_init', NULL, NULL, '2026-11-23 02:46:00.378+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('80a960e7-1caa-4bb7-94e1-468ee19f1353', 'df0db9fb078ede9965ce875666102d42301ef4b5a00b259a2b3782c942ecb6ef', '2026-11-23 02:46:01.629+00', '20261121064000_checked_codes', NULL, NULL, '2026-11-23 02:46:01.595+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('11cdd16c-952d-493e-a035-c10bfa096631', '26647c10e74bb8cba6a804aeb7c0f9c822d2e387ad108c988a2ede4e1bbad11a', '2026-11-23 02:46:00.593+00', '20261121000000_schedules', NULL, NULL, '2026-11-23 02:46:00.547+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('ac7f34ce-d71e-434b-86ef-729be2bd8982', 'c4b2b348c97262de71d1b7a9f1c215baced8cc65f14b0b71eb90e760242adad2', '2026-11-23 02:46:00.977+00', '20261121010000_audits', NULL, NULL, '2026-11-23 02:46:00.625+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('c7dee5f5-6208-4dbf-a19f-cddc520d38c7', 'edb18fb8a65b4cc38162a41143c17c9f7565a277c4e649c5fd8b4d463296f530', '2026-11-23 02:46:01.677+00', '20261121065000_transitions', NULL, NULL, '2026-11-23 02:46:01.637+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('c4c7ae19-614f-4872-a907-5aaafe4a801b', 'f173d582f6b874ef8d20345b6b5140284141a80df6cf8a975e94c73f17ad33d0', '2026-11-23 02:46:01.153+00', '20261121020000_history', NULL, NULL, '2026-11-23 02:46:00.986+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('9eb142dc-9221-4be7-8732-a87c5a9dc200', '1529bdc94ff60a81723abd06f6c2d64319203f12207e9a320781405ae5d107e4', '2026-11-23 02:46:01.283+00', '20261121030000_reporting', NULL, NULL, '2026-11-23 02:46:01.164+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('b0b99866-f2ff-4b08-b5c1-0eb42cfc4ee3', 'b9a8c10c14aa7fa0838ce87e81273a990f7334a74a250dcb576415b7ddeeafa8', '2026-11-23 02:46:01.709+00', '20261122090000_named_items', NULL, NULL, '2026-11-23 02:46:01.681+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('d001938d-bf6d-4114-9b87-c203291166dc', 'c576b48a40cddc8c5a8341c1475d3609437173a489b89735b415dfca7d037ea7', '2026-11-23 02:46:01.319+00', '20261121040000_feeds', NULL, NULL, '2026-11-23 02:46:01.289+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('f559ea37-72eb-4d2b-a998-2d1bba7e970c', 'a0fcb9144cc6d167f8d00c95164cf5462fec17d1b87b1d5170c0a392377d91c9', '2026-11-23 02:46:01.374+00', '20261121050000_retention', NULL, NULL, '2026-11-23 02:46:01.338+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('59f74826-a1ec-499d-b0da-b925464fa2c1', 'e1c9b49667b190b9c47b70aeb6f3a325c9657d2d73f6c931a960bc2442be013e', '2026-11-23 02:46:01.799+00', '20261122150000_purchases_once', NULL, NULL, '2026-11-23 02:46:01.718+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('148fad06-b1f8-4ae7-9e46-ec1ee86bebc5', '398890a0921eb2e3dd731cd4ee0408f78f9e2043b8d0027db36529eac861f523', '2026-11-23 02:46:01.454+00', '20261121060000_decisions', NULL, NULL, '2026-11-23 02:46:01.379+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('9095bf49-12b6-420a-9273-a20e552d97be', 'd42e33bf133f6f576b606a0b3d2c1cb422c4034e20c42acb4c247889529cc8d1', '2026-11-23 02:46:01.514+00', '20261121061000_reported_decisions', NULL, NULL, '2026-11-23 02:46:01.478+00', 1);
INSERT INTO mirror._prisma_migrations VALUES ('a03d671b-d8c9-4c1f-b7db-bc5ad83205b0', '87405f30e75e01d7d44287f060992c769d35c18ca2c2e3fae0ee5f191026183a', '2026-11-23 02:46:01.583+00', '20261121063000_kept_runs', NULL, NULL, '2026-11-23 02:46:01.528+00', 1);
INSERT INTO mirror.account_versions VALUES ('main', 'ada', 'Ada', 'Seller', 'Ada Seller', 'ada@mail.example', 1234.50, 'USD', 'Scripts and themes since 2016', '<p>We make things that work &amp; keep working.</p>', 'help@ada.example', '{"x": "https://x.com/ada", "facebook": "https://www.facebook.com/ada"}', 'https://storage.marketplace.example/avatars/ada.png', 'https://storage.marketplace.example/covers/ada.jpg', '2016-03-04 05:06:07+00', '2026-11-23 02:46:01.877+00', 1, '2026-11-23 02:46:01.877+00', '2026-11-23 02:46:04.8+00', 5);
INSERT INTO mirror.accounts VALUES ('second', 'grace', 'Ada', 'Seller', 'Ada Seller', 'grace@mail.example', 1234.50, 'USD', 'Scripts and themes since 2016', '<p>We make things that work &amp; keep working.</p>', 'help@grace.example', '{"x": "https://x.com/grace", "facebook": "https://www.facebook.com/grace"}', 'https://storage.marketplace.example/avatars/grace.png', 'https://storage.marketplace.example/covers/grace.jpg', '2016-03-04 05:06:07+00', '2026-11-23 02:46:02.459+00', '2026-11-23 02:46:02.459+00', 3, '\x92e521b86ae2740528664d0b3204e4c83897ad48e61df2c70eb4a7586f6ee6b1', '{}', '{"name": {"lastname": "Seller", "firstname": "Ada", "full_name": "Ada Seller"}, "email": "grace@mail.example", "balance": 1234.5, "profile": {"media": {"cover": "https://storage.marketplace.example/covers/grace.jpg", "avatar": "https://storage.marketplace.example/avatars/grace.png"}, "contact": {"email": "help@grace.example"}, "heading": "Scripts and themes since 2016", "description": "<p>We make things that work &amp; keep working.</p>", "social_links": {"x": "https://x.com/grace", "facebook": "https://www.facebook.com/grace"}}, "currency": "USD", "username": "grace", "registered_at": "2016-03-04T05:06:07Z"}');
INSERT INTO mirror.accounts VALUES ('main', 'ada', 'Ada', 'Seller', 'Ada Seller', 'ada@mail.example', 987.65, 'USD', 'Scripts and themes since 2016', '<p>We make things that work &amp; keep working.</p>', 'help@ada.example', '{"x": "https://x.com/ada", "facebook": "https://www.facebook.com/ada"}', 'https://storage.marketplace.example/avatars/ada.png', 'https://storage.marketplace.example/covers/ada.jpg', '2016-03-04 05:06:07+00', '2026-11-23 02:46:01.877+00', '2026-11-23 02:46:04.8+00', 5, '\xcf56352fe50177a1925534eb567eb66df0a5c7767882acb08281312ce5715709', '{}', '{"name": {"lastname": "Seller", "firstname": "Ada", "full_name": "Ada Seller"}, "email": "ada@mail.example", "balance": 987.65, "profile": {"media": {"cover": "https://storage.marketplace.example/covers/ada.jpg", "avatar": "https://storage.marketplace.example/avatars/ada.png"}, "contact": {"email": "help@ada.example"}, "heading": "Scripts and themes since 2016", "description": "<p>We make things that work &amp; keep working.</p>", "social_links": {"x": "https://x.com/ada", "facebook": "https://www.facebook.com/ada"}}, "currency": "USD", "username": "ada", "registered_at": "2016-03-04T05:06:07Z"}');
INSERT INTO mirror.audit_chunks VALUES (1, 0, 'main', 0);
INSERT INTO mirror.audit_chunks VALUES (2, 0, 'main', 0);
INSERT INTO mirror.audit_chunks VALUES (3, 0, 'main', 2);
INSERT INTO mirror.audit_chunks VALUES (4, 0, 'main', 0);
INSERT INTO mirror.audit_chunks VALUES (5, 0, 'main', 2);
INSERT INTO mirror.audit_codes VALUES (1, 1, 'main', 2, 'valid', 1, false, 0);
INSERT INTO mirror.audit_codes VALUES (1, 4, 'main', 5, 'valid', 2, false, 0);
INSERT INTO mirror.audit_codes VALUES (1, 2, 'main', 3, 'valid', 3, false, 0);
INSERT INTO mirror.audit_codes VALUES (1, 0, 'main', 1, 'valid', 4, false, 0);
INSERT INTO mirror.audit_codes VALUES (1, 3, 'main', 4, 'invalid', 5, false, 0);
INSERT INTO mirror.audit_codes VALUES (2, 0, 'main', 2, 'valid', 6, false, 0);
INSERT INTO mirror.audit_codes VALUES (2, 1, 'main', 5, 'valid', 7, false, 0);
INSERT INTO mirror.audit_codes VALUES (2, 3, 'main', 1, 'valid', 8, false, 0);
INSERT INTO mirror.audit_codes VALUES (2, 2, 'main', 3, 'invalid', 9, false, 0);
INSERT INTO mirror.audit_codes VALUES (3, 0, 'main', 6, NULL, NULL, false, 0);
INSERT INTO mirror.audit_codes VALUES (3, 1, 'main', 7, NULL, NULL, false, 0);
INSERT INTO mirror.audit_codes VALUES (4, 0, 'main', 8, 'unproven', 14, false, 5);
INSERT INTO mirror.audit_codes VALUES (5, 0, 'main', 9, NULL, NULL, false, 0);
INSERT INTO mirror.audit_codes VALUES (5, 1, 'main', 10, NULL, NULL, false, 0);
INSERT INTO mirror.audit_codes VALUES (5, 2, 'main', 1, 'valid', 8, true, 0);
INSERT INTO mirror.audit_entries VALUES (1, 1, 'main', 2, 0, NULL, '{eb9db4c8697a6ae5361d841a013c083262d32,c0}');
INSERT INTO mirror.audit_entries VALUES (1, 2, 'main', 3, 1, NULL, '{5c6ab7f4039eba395b791e0e249dd2f2e9ffb,c1}');
INSERT INTO mirror.audit_entries VALUES (1, 3, 'main', 4, 2, NULL, '{ba21a00133a59a24bf560d490bcb87d8b7dc7,c2}');
INSERT INTO mirror.audit_entries VALUES (1, 4, 'main', 5, 1, NULL, '{5c6ab7f4039eba395b791e0e249dd2f2e9ffb,c3}');
INSERT INTO mirror.audit_entries VALUES (1, 5, 'main', 6, NULL, 'the code is empty', '{"",c4}');
INSERT INTO mirror.audit_entries VALUES (1, 6, 'main', 7, 3, NULL, '{made-up-1,c5}');
INSERT INTO mirror.audit_entries VALUES (1, 7, 'main', 8, 4, NULL, '{66471f3bdc6da7af5befdbde1ae851b649139,c6}');
INSERT INTO mirror.audit_entries VALUES (2, 1, 'main', 1, 0, NULL, '{5c6ab7f4039eba395b791e0e249dd2f2e9ffb}');
INSERT INTO mirror.audit_entries VALUES (2, 2, 'main', 2, 1, NULL, '{66471f3bdc6da7af5befdbde1ae851b649139}');
INSERT INTO mirror.audit_entries VALUES (2, 3, 'main', 3, 2, NULL, '{ba21a00133a59a24bf560d490bcb87d8b7dc7}');
INSERT INTO mirror.audit_entries VALUES (2, 4, 'main', 4, 3, NULL, '{eb9db4c8697a6ae5361d841a013c083262d32}');
INSERT INTO mirror.audit_entries VALUES (3, 1, 'main', 2, 0, NULL, '{ee7e0de72a2b6c61c5b91447f363d5a0ee7b9,c0}');
INSERT INTO mirror.audit_entries VALUES (3, 2, 'main', 3, 1, NULL, '{605b35955bb59ce68603e41b99d2bdb9364da,c1}');
INSERT INTO mirror.audit_entries VALUES (4, 1, 'main', 2, 0, NULL, '{f8da95c32333aef26be4c1ea640a0ef057920,c0}');
INSERT INTO mirror.audit_entries VALUES (5, 1, 'main', 2, 0, NULL, '{b9566f0da4a970e0c1c8f40e737593325a9b7,c0}');
INSERT INTO mirror.audit_entries VALUES (5, 2, 'main', 3, 1, NULL, '{fe7bd2ded5e0a31eb544fe72068ea614a8a97,c1}');
INSERT INTO mirror.audit_entries VALUES (5, 3, 'main', 4, 2, NULL, '{eb9db4c8697a6ae5361d841a013c083262d32,c2}');
INSERT INTO mirror.audits VALUES (5, 'main', 'running', 'unfinished.csv', '{"lists": [{"name": "unfinished.csv", "column": "code", "format": "csv", "header": true, "reasons": ["Read as csv, because its name ends in \"csv\".", "The encoding is utf-8, in which its bytes are sound.", "Cells are separated by commas: 4 of the first 4 records have 2 cells.", "The first line is a header: it names a column of codes.", "The codes are in column 1, \"code\", by its name."], "encoding": "utf-8", "delimiter": ",", "compressed": false}]}', '{code,customer}', 604800, NULL, 500, 3, 0, 3, 1, 1, 0, 0, 2, 0, '2026-11-23 02:51:56.671203+00', NULL, NULL, NULL);
INSERT INTO mirror.audits VALUES (1, 'main', 'finished', 'customers.csv', '{"lists": [{"name": "customers.csv", "column": "code", "format": "csv", "header": true, "reasons": ["Read as csv, because its name ends in \"csv\".", "The encoding is utf-8, in which its bytes are sound.", "Cells are separated by commas: 8 of the first 8 records have 2 cells.", "The first line is a header: it names a column of codes.", "The codes are in column 1, \"code\", by its name."], "encoding": "utf-8", "delimiter": ",", "compressed": false}]}', '{code,customer}', NULL, 'eb9db4c8697a6ae5361d841a013c083262d32', 500, 7, 1, 5, 0, 4, 1, 0, 0, 9, '2026-11-23 02:46:11.038054+00', '2026-11-23 02:46:12.974845+00', NULL, NULL);
INSERT INTO mirror.audits VALUES (2, 'main', 'finished', 'recheck', '{}', '{code}', NULL, NULL, 20000, 4, 0, 4, 0, 3, 1, 0, 0, 11, '2026-11-23 02:46:14.956432+00', '2026-11-23 02:46:16.914106+00', NULL, NULL);
INSERT INTO mirror.audits VALUES (3, 'main', 'cancelled', 'cancelled.csv', '{"lists": [{"name": "cancelled.csv", "column": "code", "format": "csv", "header": true, "reasons": ["Read as csv, because its name ends in \"csv\".", "The encoding is utf-8, in which its bytes are sound.", "Cells are separated by commas: 3 of the first 3 records have 2 cells.", "The first line is a header: it names a column of codes.", "The codes are in column 1, \"code\", by its name."], "encoding": "utf-8", "delimiter": ",", "compressed": false}]}', '{code,customer}', NULL, NULL, 500, 2, 0, 2, 0, 0, 0, 0, 2, 0, '2026-11-23 02:46:18.871766+00', NULL, NULL, NULL);
INSERT INTO mirror.audits VALUES (4, 'main', 'finished', 'odd.csv', '{"lists": [{"name": "odd.csv", "column": "code", "format": "csv", "header": true, "reasons": ["Read as csv, because its name ends in \"csv\".", "The encoding is utf-8, in which its bytes are sound.", "Cells are separated by commas: 2 of the first 2 records have 2 cells.", "The first line is a header: it names a column of codes.", "The codes are in column 1, \"code\", by its name."], "encoding": "utf-8", "delimiter": ",", "compressed": false}]}', '{code,customer}', NULL, NULL, 500, 1, 0, 1, 0, 0, 0, 1, 0, 105, '2026-11-23 02:46:24.341293+00', '2026-11-23 02:51:37.470029+00', NULL, NULL);
INSERT INTO mirror.code_checks VALUES (1, 'main', 2, 1, '2026-11-23 02:46:12.81+00', 'valid', 'answered', 'purchase', 200, NULL, '\x3d4a52acc14118161246fd164b2fca2441ce748ca8d5b740fd1a0929f3fcd52d');
INSERT INTO mirror.code_checks VALUES (2, 'main', 5, 1, '2026-11-23 02:46:12.849+00', 'valid', 'answered', 'purchase', 200, NULL, '\xdde1bdce8f6365986e8c43918c17b0c858546f614d7f5ccef9598070a69ae639');
INSERT INTO mirror.code_checks VALUES (3, 'main', 3, 1, '2026-11-23 02:46:12.869+00', 'valid', 'answered', 'purchase', 200, NULL, '\xa5d5e726962b27b74765f284ab3da6090d2d938dbefa4795a8445a764dab2109');
INSERT INTO mirror.code_checks VALUES (4, 'main', 1, 1, '2026-11-23 02:46:12.87+00', 'valid', 'answered', 'purchase', 200, NULL, '\xb5bf9d26d35ffb77b2dcd82d693efe73bf98c8f2655ee96b666e074ddd0f198c');
INSERT INTO mirror.code_checks VALUES (5, 'main', 4, 1, '2026-11-23 02:46:12.906+00', 'invalid', 'denied', 'canary', 404, 'Invalid purchase code', NULL);
INSERT INTO mirror.code_checks VALUES (6, 'main', 2, 2, '2026-11-23 02:46:16.676+00', 'valid', 'answered', 'purchase', 200, NULL, '\x3d4a52acc14118161246fd164b2fca2441ce748ca8d5b740fd1a0929f3fcd52d');
INSERT INTO mirror.code_checks VALUES (7, 'main', 5, 2, '2026-11-23 02:46:16.689+00', 'valid', 'answered', 'purchase', 200, NULL, '\xdde1bdce8f6365986e8c43918c17b0c858546f614d7f5ccef9598070a69ae639');
INSERT INTO mirror.code_checks VALUES (8, 'main', 1, 2, '2026-11-23 02:46:16.702+00', 'valid', 'answered', 'purchase', 200, NULL, '\xb5bf9d26d35ffb77b2dcd82d693efe73bf98c8f2655ee96b666e074ddd0f198c');
INSERT INTO mirror.code_checks VALUES (9, 'main', 3, 2, '2026-11-23 02:46:16.831+00', 'invalid', 'denied', 'canary', 404, 'Invalid purchase code', NULL);
INSERT INTO mirror.code_checks VALUES (10, 'main', 8, 4, '2026-11-23 02:46:35.116+00', 'unproven', 'unavailable', 'none', 500, 'the marketplace failed with HTTP 500', NULL);
INSERT INTO mirror.code_checks VALUES (11, 'main', 8, 4, '2026-11-23 02:47:07.002+00', 'unproven', 'unavailable', 'none', 500, 'the marketplace failed with HTTP 500', NULL);
INSERT INTO mirror.code_checks VALUES (12, 'main', 8, 4, '2026-11-23 02:47:48.46+00', 'unproven', 'unavailable', 'none', 500, 'the marketplace failed with HTTP 500', NULL);
INSERT INTO mirror.code_checks VALUES (13, 'main', 8, 4, '2026-11-23 02:49:04.841+00', 'unproven', 'unavailable', 'none', 500, 'the marketplace failed with HTTP 500', NULL);
INSERT INTO mirror.code_checks VALUES (14, 'main', 8, 4, '2026-11-23 02:51:37.445+00', 'unproven', 'unavailable', 'none', 500, 'the marketplace failed with HTTP 500', NULL);
INSERT INTO mirror.code_transitions VALUES (1, 'main', 3, 9, '2026-11-23 02:46:16.831+00', 'became-invalid', 'valid', 'invalid');
INSERT INTO mirror.held_items VALUES (12, 1007, 'main', true);
INSERT INTO mirror.held_items VALUES (12, 1008, 'main', true);
INSERT INTO mirror.held_items VALUES (12, 1009, 'main', true);
INSERT INTO mirror.held_items VALUES (12, 1006, 'main', false);
INSERT INTO mirror.held_items VALUES (14, 1010, 'main', true);
INSERT INTO mirror.held_items VALUES (14, 1011, 'main', true);
INSERT INTO mirror.held_items VALUES (14, 1012, 'main', true);
INSERT INTO mirror.held_items VALUES (15, 1013, 'main', true);
INSERT INTO mirror.held_items VALUES (15, 1014, 'main', true);
INSERT INTO mirror.held_items VALUES (15, 1015, 'main', true);
INSERT INTO mirror.held_items VALUES (19, 1013, 'main', true);
INSERT INTO mirror.held_items VALUES (19, 1014, 'main', true);
INSERT INTO mirror.held_items VALUES (19, 1015, 'main', true);
INSERT INTO mirror.item_changes VALUES (3, 'main', 1001, 6, '2026-11-23 02:46:05.092+00', 'text', 'name', '"Vivid Icon Set 1001"', '"Renamed"');
INSERT INTO mirror.item_changes VALUES (4, 'main', 1001, 6, '2026-11-23 02:46:05.092+00', 'price', 'price_regular', '"43.30"', '"12.34"');
INSERT INTO mirror.item_changes VALUES (5, 'main', 1002, 6, '2026-11-23 02:46:05.092+00', 'release', 'version', '"2.9.17"', '"9.9.9"');
INSERT INTO mirror.item_changes VALUES (6, 'main', 1002, 6, '2026-11-23 02:46:05.092+00', 'text', 'tags', '["rtl"]', '["new", "tags"]');
INSERT INTO mirror.item_changes VALUES (7, 'main', 1004, 6, '2026-11-23 02:46:05.092+00', 'removed', 'state', '"live"', '"removed"');
INSERT INTO mirror.item_changes VALUES (8, 'main', 1005, 6, '2026-11-23 02:46:05.092+00', 'removed', 'state', '"live"', '"removed"');
INSERT INTO mirror.item_changes VALUES (9, 'main', 1005, 10, '2026-11-23 02:46:08.471+00', 'restored', 'state', '"removed"', '"live"');
INSERT INTO mirror.item_changes VALUES (10, 'main', 1006, 10, '2026-11-23 02:46:08.471+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_changes VALUES (20, 'main', 1007, 12, '2026-11-23 02:51:41.101+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_changes VALUES (21, 'main', 1008, 12, '2026-11-23 02:51:41.101+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_changes VALUES (22, 'main', 1009, 12, '2026-11-23 02:51:41.101+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_changes VALUES (23, 'main', 1007, 13, '2026-11-23 02:51:43.242+00', 'removed', 'state', '"missing"', '"removed"');
INSERT INTO mirror.item_changes VALUES (24, 'main', 1008, 13, '2026-11-23 02:51:43.242+00', 'removed', 'state', '"missing"', '"removed"');
INSERT INTO mirror.item_changes VALUES (25, 'main', 1009, 13, '2026-11-23 02:51:43.242+00', 'removed', 'state', '"missing"', '"removed"');
INSERT INTO mirror.item_changes VALUES (26, 'main', 1010, 14, '2026-11-23 02:51:44.871+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_changes VALUES (27, 'main', 1011, 14, '2026-11-23 02:51:44.871+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_changes VALUES (28, 'main', 1012, 14, '2026-11-23 02:51:44.871+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_changes VALUES (29, 'main', 1013, 15, '2026-11-23 02:51:48.565+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_changes VALUES (30, 'main', 1014, 15, '2026-11-23 02:51:48.565+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_changes VALUES (31, 'main', 1015, 15, '2026-11-23 02:51:48.565+00', 'missing', 'state', '"live"', '"missing"');
INSERT INTO mirror.item_lookups VALUES ('main', 1004, '2026-11-23 02:46:05.092+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1005, '2026-11-23 02:46:05.092+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1007, '2026-11-23 02:51:41.101+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1008, '2026-11-23 02:51:41.101+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1009, '2026-11-23 02:51:41.101+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1006, '2026-11-23 02:51:53.493+00', 'unanswered');
INSERT INTO mirror.item_lookups VALUES ('main', 1010, '2026-11-23 02:51:53.493+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1011, '2026-11-23 02:51:53.493+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1012, '2026-11-23 02:51:53.493+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1013, '2026-11-23 02:51:53.493+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1014, '2026-11-23 02:51:53.493+00', 'denied');
INSERT INTO mirror.item_lookups VALUES ('main', 1015, '2026-11-23 02:51:53.493+00', 'denied');
INSERT INTO mirror.item_versions VALUES ('main', 1001, 'Vivid Icon Set 1001', 'About item 1001.', 'Graphics', 'Icons', '{}', '3.0.14', 'https://demo.example/preview/1001', '{responsive,"dark mode",saas}', 'https://storage.marketplace.example/items/1001/thumbnail.png', 'https://storage.marketplace.example/items/1001/preview.jpg', NULL, NULL, '{}', 43.30, 217.34, 'USD', '2019-11-13 11:51:51+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:05.092+00', 6);
INSERT INTO mirror.item_versions VALUES ('main', 1002, 'Minimal Dashboard 1002', 'About item 1002.', 'Graphics', 'Vectors', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '2.9.17', 'https://demo.example/preview/1002', '{rtl}', 'https://storage.marketplace.example/items/1002/thumbnail.png', 'https://storage.marketplace.example/items/1002/preview.jpg', NULL, NULL, '{}', 58.20, 291.89, 'USD', '2023-05-14 19:52:51+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:05.092+00', 6);
INSERT INTO mirror.item_versions VALUES ('main', 1004, 'Vivid Shop Theme 1004', 'About item 1004.', 'Graphics', 'Vectors', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '5.8.14', 'https://demo.example/preview/1004', '{"dark mode",saas}', 'https://storage.marketplace.example/items/1004/thumbnail.png', 'https://storage.marketplace.example/items/1004/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1004/screenshot-1.jpg}', 74.93, 375.61, 'USD', '2024-12-19 06:51:22+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:05.092+00', 6);
INSERT INTO mirror.item_versions VALUES ('main', 1005, 'Minimal Dashboard 1005', 'About item 1005.', 'Scripts', 'PHP', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '1.1.2', 'https://demo.example/preview/1005', '{übersetzt,rtl}', 'https://storage.marketplace.example/items/1005/thumbnail.png', 'https://storage.marketplace.example/items/1005/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1005/screenshot-1.jpg}', 93.59, 468.13, 'USD', '2019-11-01 05:50:13+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:05.092+00', 6);
INSERT INTO mirror.item_versions VALUES ('main', 1005, 'Minimal Dashboard 1005', 'About item 1005.', 'Scripts', 'PHP', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '1.1.2', 'https://demo.example/preview/1005', '{übersetzt,rtl}', 'https://storage.marketplace.example/items/1005/thumbnail.png', 'https://storage.marketplace.example/items/1005/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1005/screenshot-1.jpg}', 93.59, 468.13, 'USD', '2019-11-01 05:50:13+00', 'removed', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:05.092+00', '2026-11-23 02:46:05.092+00', 6, '2026-11-23 02:46:05.092+00', '2026-11-23 02:46:08.471+00', 10);
INSERT INTO mirror.item_versions VALUES ('main', 1006, 'Nordic Booking Script 1006', 'About item 1006.', 'Themes', 'Portfolio', '{}', '2.4.0', 'https://demo.example/preview/1006', '{übersetzt,rtl}', 'https://storage.marketplace.example/items/1006/thumbnail.png', 'https://storage.marketplace.example/items/1006/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1006/screenshot-1.jpg}', 50.27, 251.69, 'USD', '2024-03-02 04:34:17+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:08.471+00', 10);
INSERT INTO mirror.item_versions VALUES ('main', 1007, 'Cozy Player 1007', 'About item 1007.', 'Scripts', 'JavaScript', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '4.0.3', 'https://demo.example/preview/1007', '{bootstrap,shop,responsive,"dark mode"}', 'https://storage.marketplace.example/items/1007/thumbnail.png', 'https://storage.marketplace.example/items/1007/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1007/screenshot-1.jpg}', 41.34, 207.49, 'USD', '2017-06-09 13:16:00+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:41.101+00', 12);
INSERT INTO mirror.item_versions VALUES ('main', 1008, 'Modern Landing Page 1008', 'About item 1008.', 'Graphics', 'Icons', '{"Browsers: Firefox","Browsers: Safari"}', '3.6.7', 'https://demo.example/preview/1008', '{shop,responsive,"dark mode"}', 'https://storage.marketplace.example/items/1008/thumbnail.png', 'https://storage.marketplace.example/items/1008/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1008/screenshot-1.jpg}', 90.68, 453.80, 'USD', '2025-02-11 23:44:45+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:41.101+00', 12);
INSERT INTO mirror.item_versions VALUES ('main', 1009, 'Vivid Player 1009', 'About item 1009.', 'Graphics', 'Vectors', '{}', '1.4.4', 'https://demo.example/preview/1009', '{shop,responsive,"dark mode",saas}', 'https://storage.marketplace.example/items/1009/thumbnail.png', NULL, NULL, 'https://storage.marketplace.example/items/1009/preview.mp3', '{https://storage.marketplace.example/items/1009/screenshot-1.jpg}', 66.46, 333.12, 'USD', '2017-08-14 14:24:53+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:41.101+00', 12);
INSERT INTO mirror.item_versions VALUES ('main', 1007, 'Cozy Player 1007', 'About item 1007.', 'Scripts', 'JavaScript', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '4.0.3', 'https://demo.example/preview/1007', '{bootstrap,shop,responsive,"dark mode"}', 'https://storage.marketplace.example/items/1007/thumbnail.png', 'https://storage.marketplace.example/items/1007/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1007/screenshot-1.jpg}', 41.34, 207.49, 'USD', '2017-06-09 13:16:00+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 12, '2026-11-23 02:51:41.101+00', '2026-11-23 02:51:43.242+00', 13);
INSERT INTO mirror.item_versions VALUES ('main', 1008, 'Modern Landing Page 1008', 'About item 1008.', 'Graphics', 'Icons', '{"Browsers: Firefox","Browsers: Safari"}', '3.6.7', 'https://demo.example/preview/1008', '{shop,responsive,"dark mode"}', 'https://storage.marketplace.example/items/1008/thumbnail.png', 'https://storage.marketplace.example/items/1008/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1008/screenshot-1.jpg}', 90.68, 453.80, 'USD', '2025-02-11 23:44:45+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 12, '2026-11-23 02:51:41.101+00', '2026-11-23 02:51:43.242+00', 13);
INSERT INTO mirror.item_versions VALUES ('main', 1009, 'Vivid Player 1009', 'About item 1009.', 'Graphics', 'Vectors', '{}', '1.4.4', 'https://demo.example/preview/1009', '{shop,responsive,"dark mode",saas}', 'https://storage.marketplace.example/items/1009/thumbnail.png', NULL, NULL, 'https://storage.marketplace.example/items/1009/preview.mp3', '{https://storage.marketplace.example/items/1009/screenshot-1.jpg}', 66.46, 333.12, 'USD', '2017-08-14 14:24:53+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 12, '2026-11-23 02:51:41.101+00', '2026-11-23 02:51:43.242+00', 13);
INSERT INTO mirror.item_versions VALUES ('main', 1010, 'Vivid Shop Theme 1010', 'About item 1010.', 'Scripts', 'PHP', '{"Browsers: Firefox","Browsers: Safari"}', '3.2.19', 'https://demo.example/preview/1010', '{}', 'https://storage.marketplace.example/items/1010/thumbnail.png', 'https://storage.marketplace.example/items/1010/preview.jpg', NULL, NULL, '{}', 48.85, 244.90, 'USD', '2024-10-08 15:36:26+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:44.871+00', 14);
INSERT INTO mirror.item_versions VALUES ('main', 1011, 'Bold Landing Page 1011', 'About item 1011.', 'Themes', 'Blog', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '2.1.5', 'https://demo.example/preview/1011', '{}', 'https://storage.marketplace.example/items/1011/thumbnail.png', 'https://storage.marketplace.example/items/1011/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1011/screenshot-2.jpg,https://storage.marketplace.example/items/1011/screenshot-1.jpg}', 73.64, 368.94, 'USD', '2023-08-04 13:15:28+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:44.871+00', 14);
INSERT INTO mirror.item_versions VALUES ('main', 1012, 'Pure Player 1012', 'About item 1012.', 'Scripts', 'JavaScript', '{"Framework: Laravel"}', '1.5.7', 'https://demo.example/preview/1012', '{saas}', 'https://storage.marketplace.example/items/1012/thumbnail.png', 'https://storage.marketplace.example/items/1012/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1012/screenshot-2.jpg,https://storage.marketplace.example/items/1012/screenshot-1.jpg}', 22.01, 110.49, 'USD', '2021-04-07 08:08:22+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:44.871+00', 14);
INSERT INTO mirror.item_versions VALUES ('main', 1013, 'Nordic Landing Page 1013', 'About item 1013.', 'Themes', 'Portfolio', '{}', '2.2.10', 'https://demo.example/preview/1013', '{shop,responsive,"dark mode",saas}', 'https://storage.marketplace.example/items/1013/thumbnail.png', 'https://storage.marketplace.example/items/1013/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1013/screenshot-1.jpg}', 54.99, 275.43, 'USD', '2024-01-23 16:53:48+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:48.565+00', 15);
INSERT INTO mirror.item_versions VALUES ('main', 1014, 'Pure Dashboard 1014', 'About item 1014.', 'Graphics', 'Logos', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '4.1.9', 'https://demo.example/preview/1014', '{rtl}', 'https://storage.marketplace.example/items/1014/thumbnail.png', 'https://storage.marketplace.example/items/1014/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1014/screenshot-3.jpg,https://storage.marketplace.example/items/1014/screenshot-2.jpg,https://storage.marketplace.example/items/1014/screenshot-1.jpg}', 51.82, 259.13, 'USD', '2020-05-10 02:59:08+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:48.565+00', 15);
INSERT INTO mirror.item_versions VALUES ('main', 1015, 'Swift Icon Set 1015', 'About item 1015.', 'Themes', 'Blog', '{}', NULL, 'https://demo.example/preview/1015', '{admin}', 'https://storage.marketplace.example/items/1015/thumbnail.png', 'https://storage.marketplace.example/items/1015/preview.jpg', NULL, NULL, '{}', 83.40, 417.63, 'USD', '2020-09-16 09:29:22+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:48.565+00', 15);
INSERT INTO mirror.items VALUES ('main', 1003, 'Élan Shop Theme 1003', 'About item 1003.', 'Graphics', 'Icons', '{"Browsers: Firefox","Browsers: Safari"}', '1.9.4', 'https://demo.example/preview/1003', '{responsive,"dark mode",saas,übersetzt}', 'https://storage.marketplace.example/items/1003/thumbnail.png', 'https://storage.marketplace.example/items/1003/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1003/screenshot-2.jpg,https://storage.marketplace.example/items/1003/screenshot-1.jpg}', 91.74, 459.35, 'USD', '2018-10-03 13:57:24+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '\xe915925e0cc06bc5d98535531ac1ca4822dc26acde22897be2b29deadcfb96f5', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\xb8ca6029a928f840', '{}', '{"id": 1003, "name": "Élan Shop Theme 1003", "tags": ["responsive", "dark mode", "saas", "übersetzt"], "media": {"thumbnail": "https://storage.marketplace.example/items/1003/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1003/screenshot-2.jpg", "https://storage.marketplace.example/items/1003/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1003/preview.jpg"}, "price": {"regular": 91.74, "extended": 459.35}, "options": ["Browsers: Firefox", "Browsers: Safari"], "version": "1.9.4", "category": "Graphics", "currency": "USD", "demo_link": "https://demo.example/preview/1003", "description": "About item 1003.", "published_at": "2018-10-03T13:57:24Z", "sub_category": "Icons"}', '2026-11-23 02:46:02.127+00');
INSERT INTO mirror.items VALUES ('main', 1004, 'Vivid Shop Theme 1004', 'About item 1004.', 'Graphics', 'Vectors', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '5.8.14', 'https://demo.example/preview/1004', '{"dark mode",saas}', 'https://storage.marketplace.example/items/1004/thumbnail.png', 'https://storage.marketplace.example/items/1004/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1004/screenshot-1.jpg}', 74.93, 375.61, 'USD', '2024-12-19 06:51:22+00', 'removed', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:05.092+00', '2026-11-23 02:46:05.092+00', 6, '\x0ea05269e44230567fdcd29e081006e3ec83994232ff7b2ddc34c8c7bb8bbe0d', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x97c04d7c594b83b2', '{}', '{"id": 1004, "name": "Vivid Shop Theme 1004", "tags": ["dark mode", "saas"], "media": {"thumbnail": "https://storage.marketplace.example/items/1004/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1004/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1004/preview.jpg"}, "price": {"regular": 74.93, "extended": 375.61}, "options": ["Framework: Laravel", "Browsers: Firefox", "Browsers: Safari"], "version": "5.8.14", "category": "Graphics", "currency": "USD", "demo_link": "https://demo.example/preview/1004", "description": "About item 1004.", "published_at": "2024-12-19T06:51:22Z", "sub_category": "Vectors"}', '2026-11-23 02:46:05.092+00');
INSERT INTO mirror.items VALUES ('main', 1006, 'Nordic Booking Script 1006', 'About item 1006.', 'Themes', 'Portfolio', '{}', '2.4.0', 'https://demo.example/preview/1006', '{übersetzt,rtl}', 'https://storage.marketplace.example/items/1006/thumbnail.png', 'https://storage.marketplace.example/items/1006/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1006/screenshot-1.jpg}', 50.27, 251.69, 'USD', '2024-03-02 04:34:17+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 10, '\x5710a4c675c0ae54494ad9846c5c3d141c0eefde3aec4379da7de491d9b6b418', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x0f1d585a2cc3b79c', '{}', '{"id": 1006, "name": "Nordic Booking Script 1006", "tags": ["übersetzt", "rtl"], "media": {"thumbnail": "https://storage.marketplace.example/items/1006/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1006/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1006/preview.jpg"}, "price": {"regular": 50.27, "extended": 251.69}, "options": [], "version": "2.4.0", "category": "Themes", "currency": "USD", "demo_link": "https://demo.example/preview/1006", "description": "About item 1006.", "published_at": "2024-03-02T04:34:17Z", "sub_category": "Portfolio"}', '2026-11-23 02:46:08.471+00');
INSERT INTO mirror.items VALUES ('main', 1010, 'Vivid Shop Theme 1010', 'About item 1010.', 'Scripts', 'PHP', '{"Browsers: Firefox","Browsers: Safari"}', '3.2.19', 'https://demo.example/preview/1010', '{}', 'https://storage.marketplace.example/items/1010/thumbnail.png', 'https://storage.marketplace.example/items/1010/preview.jpg', NULL, NULL, '{}', 48.85, 244.90, 'USD', '2024-10-08 15:36:26+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 14, '\xdbb6756f65819401a28fec5069bcac7501f6627918bdb900714fe30107a2b30a', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x0625cffdffb9c361', '{}', '{"id": 1010, "name": "Vivid Shop Theme 1010", "tags": [], "media": {"thumbnail": "https://storage.marketplace.example/items/1010/thumbnail.png", "preview_image": "https://storage.marketplace.example/items/1010/preview.jpg"}, "price": {"regular": 48.85, "extended": 244.90}, "options": ["Browsers: Firefox", "Browsers: Safari"], "version": "3.2.19", "category": "Scripts", "currency": "USD", "demo_link": "https://demo.example/preview/1010", "description": "About item 1010.", "published_at": "2024-10-08T15:36:26Z", "sub_category": "PHP"}', '2026-11-23 02:51:44.871+00');
INSERT INTO mirror.items VALUES ('main', 1011, 'Bold Landing Page 1011', 'About item 1011.', 'Themes', 'Blog', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '2.1.5', 'https://demo.example/preview/1011', '{}', 'https://storage.marketplace.example/items/1011/thumbnail.png', 'https://storage.marketplace.example/items/1011/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1011/screenshot-2.jpg,https://storage.marketplace.example/items/1011/screenshot-1.jpg}', 73.64, 368.94, 'USD', '2023-08-04 13:15:28+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 14, '\x5cab6e8f224434f07ce1a92161864d247e8f9b5f3a44477deee7fbfc05f61555', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x6775c0e8ecfbbf1b', '{}', '{"id": 1011, "name": "Bold Landing Page 1011", "tags": [], "media": {"thumbnail": "https://storage.marketplace.example/items/1011/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1011/screenshot-2.jpg", "https://storage.marketplace.example/items/1011/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1011/preview.jpg"}, "price": {"regular": 73.64, "extended": 368.94}, "options": ["Framework: Laravel", "Browsers: Firefox", "Browsers: Safari"], "version": "2.1.5", "category": "Themes", "currency": "USD", "demo_link": "https://demo.example/preview/1011", "description": "About item 1011.", "published_at": "2023-08-04T13:15:28Z", "sub_category": "Blog"}', '2026-11-23 02:51:44.871+00');
INSERT INTO mirror.items VALUES ('main', 1012, 'Pure Player 1012', 'About item 1012.', 'Scripts', 'JavaScript', '{"Framework: Laravel"}', '1.5.7', 'https://demo.example/preview/1012', '{saas}', 'https://storage.marketplace.example/items/1012/thumbnail.png', 'https://storage.marketplace.example/items/1012/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1012/screenshot-2.jpg,https://storage.marketplace.example/items/1012/screenshot-1.jpg}', 22.01, 110.49, 'USD', '2021-04-07 08:08:22+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 14, '\x8879bfb46681b5375d8cc840ab35f65719f31588de89c80b7b1818a9aebc2750', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\xd407631f2463e77a', '{}', '{"id": 1012, "name": "Pure Player 1012", "tags": ["saas"], "media": {"thumbnail": "https://storage.marketplace.example/items/1012/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1012/screenshot-2.jpg", "https://storage.marketplace.example/items/1012/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1012/preview.jpg"}, "price": {"regular": 22.01, "extended": 110.49}, "options": ["Framework: Laravel"], "version": "1.5.7", "category": "Scripts", "currency": "USD", "demo_link": "https://demo.example/preview/1012", "description": "About item 1012.", "published_at": "2021-04-07T08:08:22Z", "sub_category": "JavaScript"}', '2026-11-23 02:51:44.871+00');
INSERT INTO mirror.items VALUES ('main', 1016, 'Modern Landing Page 1016', 'About item 1016.', 'Themes', 'Blog', '{"Framework: Laravel"}', '1.2.16', 'https://demo.example/preview/1016', '{"dark mode",saas,übersetzt}', 'https://storage.marketplace.example/items/1016/thumbnail.png', 'https://storage.marketplace.example/items/1016/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1016/screenshot-2.jpg,https://storage.marketplace.example/items/1016/screenshot-1.jpg}', 8.33, 41.77, 'USD', '2020-07-24 04:18:18+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 2, '\x930655d6248c64356cd440c48e44a087baec30a0b0d8cf1ffd2417cf0a85f970', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x47468fccbb4b51e0', '{}', '{"id": 1016, "name": "Modern Landing Page 1016", "tags": ["dark mode", "saas", "übersetzt"], "media": {"thumbnail": "https://storage.marketplace.example/items/1016/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1016/screenshot-2.jpg", "https://storage.marketplace.example/items/1016/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1016/preview.jpg"}, "price": {"regular": 8.33, "extended": 41.77}, "options": ["Framework: Laravel"], "version": "1.2.16", "category": "Themes", "currency": "USD", "demo_link": "https://demo.example/preview/1016", "description": "About item 1016.", "published_at": "2020-07-24T04:18:18Z", "sub_category": "Blog"}', '2026-11-23 02:46:02.127+00');
INSERT INTO mirror.items VALUES ('second', 9001, 'Bold Icon Set 9001', 'About item 9001.', 'Scripts', 'Python', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', NULL, 'https://demo.example/preview/9001', '{}', 'https://storage.marketplace.example/items/9001/thumbnail.png', 'https://storage.marketplace.example/items/9001/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/9001/screenshot-1.jpg}', 81.24, 406.98, 'USD', '2018-05-18 09:58:03+00', 'live', '2026-11-23 02:46:02.506+00', '2026-11-23 02:46:02.506+00', NULL, 4, '\xa1fcf2f32543e5ba2785ad78b3e31a9c70990ba7871c54bf6db4f6d912c736bb', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\xb43132d8422d47b1', '{}', '{"id": 9001, "name": "Bold Icon Set 9001", "tags": [], "media": {"thumbnail": "https://storage.marketplace.example/items/9001/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/9001/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/9001/preview.jpg"}, "price": {"regular": 81.24, "extended": 406.98}, "options": ["Framework: Laravel", "Browsers: Firefox", "Browsers: Safari"], "category": "Scripts", "currency": "USD", "demo_link": "https://demo.example/preview/9001", "description": "About item 9001.", "published_at": "2018-05-18T09:58:03Z", "sub_category": "Python"}', '2026-11-23 02:46:02.506+00');
INSERT INTO mirror.items VALUES ('second', 9002, 'Cozy Icon Set 9002', 'About item 9002.', 'Scripts', 'JavaScript', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '3.0.8', 'https://demo.example/preview/9002', '{rtl}', NULL, 'https://storage.marketplace.example/items/9002/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/9002/screenshot-2.jpg,https://storage.marketplace.example/items/9002/screenshot-1.jpg}', 47.64, 238.85, 'USD', '2019-08-31 13:20:06+00', 'live', '2026-11-23 02:46:02.506+00', '2026-11-23 02:46:02.506+00', NULL, 4, '\xc4456892bea23fc63e0f108be0f4530a1801fa38b950bf82982ece85debf6ce8', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x68f318add68bc8f9', '{}', '{"id": 9002, "name": "Cozy Icon Set 9002", "tags": ["rtl"], "media": {"screenshots": ["https://storage.marketplace.example/items/9002/screenshot-2.jpg", "https://storage.marketplace.example/items/9002/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/9002/preview.jpg"}, "price": {"regular": 47.64, "extended": 238.85}, "options": ["Framework: Laravel", "Browsers: Firefox", "Browsers: Safari"], "version": "3.0.8", "category": "Scripts", "currency": "USD", "demo_link": "https://demo.example/preview/9002", "description": "About item 9002.", "published_at": "2019-08-31T13:20:06Z", "sub_category": "JavaScript"}', '2026-11-23 02:46:02.506+00');
INSERT INTO mirror.items VALUES ('main', 1001, 'Renamed', 'About item 1001.', 'Graphics', 'Icons', '{}', '3.0.14', 'https://demo.example/preview/1001', '{responsive,"dark mode",saas}', 'https://storage.marketplace.example/items/1001/thumbnail.png', 'https://storage.marketplace.example/items/1001/preview.jpg', NULL, NULL, '{}', 12.34, 217.34, 'USD', '2019-11-13 11:51:51+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:05.092+00', NULL, 6, '\x45a9b74b6c5f21bc73d85c9740fc687604ddc14f14082923513c65a045622df9', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\xb730db6fddbf1b9a', '{}', '{"id": 1001, "name": "Renamed", "tags": ["responsive", "dark mode", "saas"], "media": {"thumbnail": "https://storage.marketplace.example/items/1001/thumbnail.png", "preview_image": "https://storage.marketplace.example/items/1001/preview.jpg"}, "price": {"regular": 12.34, "extended": 217.34}, "options": [], "version": "3.0.14", "category": "Graphics", "currency": "USD", "demo_link": "https://demo.example/preview/1001", "description": "About item 1001.", "published_at": "2019-11-13T11:51:51Z", "sub_category": "Icons"}', '2026-11-23 02:46:05.092+00');
INSERT INTO mirror.items VALUES ('main', 1002, 'Minimal Dashboard 1002', 'About item 1002.', 'Graphics', 'Vectors', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '9.9.9', 'https://demo.example/preview/1002', '{new,tags}', 'https://storage.marketplace.example/items/1002/thumbnail.png', 'https://storage.marketplace.example/items/1002/preview.jpg', NULL, NULL, '{}', 58.20, 291.89, 'USD', '2023-05-14 19:52:51+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:05.092+00', NULL, 6, '\x5fc4a99740d259075407e47938424e646bade5c0e03c51adca283c40e2e14311', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x4991c40945ea16f9', '{}', '{"id": 1002, "name": "Minimal Dashboard 1002", "tags": ["new", "tags"], "media": {"thumbnail": "https://storage.marketplace.example/items/1002/thumbnail.png", "preview_image": "https://storage.marketplace.example/items/1002/preview.jpg"}, "price": {"regular": 58.20, "extended": 291.89}, "options": ["Framework: Laravel", "Browsers: Firefox", "Browsers: Safari"], "version": "9.9.9", "category": "Graphics", "currency": "USD", "demo_link": "https://demo.example/preview/1002", "description": "About item 1002.", "published_at": "2023-05-14T19:52:51Z", "sub_category": "Vectors"}', '2026-11-23 02:46:05.092+00');
INSERT INTO mirror.items VALUES ('main', 1005, 'Minimal Dashboard 1005', 'About item 1005.', 'Scripts', 'PHP', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '1.1.2', 'https://demo.example/preview/1005', '{übersetzt,rtl}', 'https://storage.marketplace.example/items/1005/thumbnail.png', 'https://storage.marketplace.example/items/1005/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1005/screenshot-1.jpg}', 93.59, 468.13, 'USD', '2019-11-01 05:50:13+00', 'live', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:08.471+00', NULL, 10, '\xe2b77a6e8e642f1def618359846edeb8a4ad78d2bf549fdb9dfd509e058bf182', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\xa7287497ff22e9bb', '{}', '{"id": 1005, "name": "Minimal Dashboard 1005", "tags": ["übersetzt", "rtl"], "media": {"thumbnail": "https://storage.marketplace.example/items/1005/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1005/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1005/preview.jpg"}, "price": {"regular": 93.59, "extended": 468.13}, "options": ["Framework: Laravel", "Browsers: Firefox", "Browsers: Safari"], "version": "1.1.2", "category": "Scripts", "currency": "USD", "demo_link": "https://demo.example/preview/1005", "description": "About item 1005.", "published_at": "2019-11-01T05:50:13Z", "sub_category": "PHP"}', '2026-11-23 02:46:08.471+00');
INSERT INTO mirror.items VALUES ('main', 1007, 'Cozy Player 1007', 'About item 1007.', 'Scripts', 'JavaScript', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '4.0.3', 'https://demo.example/preview/1007', '{bootstrap,shop,responsive,"dark mode"}', 'https://storage.marketplace.example/items/1007/thumbnail.png', 'https://storage.marketplace.example/items/1007/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1007/screenshot-1.jpg}', 41.34, 207.49, 'USD', '2017-06-09 13:16:00+00', 'removed', '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:43.242+00', '2026-11-23 02:51:43.242+00', 13, '\x7dac5af730c6463b8212eeb77077040e5b33234c3eb06a549171a111f1ea5824', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x2ff7f7e0a7b11059', '{}', '{"id": 1007, "name": "Cozy Player 1007", "tags": ["bootstrap", "shop", "responsive", "dark mode"], "media": {"thumbnail": "https://storage.marketplace.example/items/1007/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1007/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1007/preview.jpg"}, "price": {"regular": 41.34, "extended": 207.49}, "options": ["Framework: Laravel", "Browsers: Firefox", "Browsers: Safari"], "version": "4.0.3", "category": "Scripts", "currency": "USD", "demo_link": "https://demo.example/preview/1007", "description": "About item 1007.", "published_at": "2017-06-09T13:16:00Z", "sub_category": "JavaScript"}', '2026-11-23 02:51:43.242+00');
INSERT INTO mirror.items VALUES ('main', 1008, 'Modern Landing Page 1008', 'About item 1008.', 'Graphics', 'Icons', '{"Browsers: Firefox","Browsers: Safari"}', '3.6.7', 'https://demo.example/preview/1008', '{shop,responsive,"dark mode"}', 'https://storage.marketplace.example/items/1008/thumbnail.png', 'https://storage.marketplace.example/items/1008/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1008/screenshot-1.jpg}', 90.68, 453.80, 'USD', '2025-02-11 23:44:45+00', 'removed', '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:43.242+00', '2026-11-23 02:51:43.242+00', 13, '\xb9655023af3f76430d8d5e9dd1ef505b43fd733ac2f734a92da7218b314ef013', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x1d321e217a554349', '{}', '{"id": 1008, "name": "Modern Landing Page 1008", "tags": ["shop", "responsive", "dark mode"], "media": {"thumbnail": "https://storage.marketplace.example/items/1008/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1008/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1008/preview.jpg"}, "price": {"regular": 90.68, "extended": 453.80}, "options": ["Browsers: Firefox", "Browsers: Safari"], "version": "3.6.7", "category": "Graphics", "currency": "USD", "demo_link": "https://demo.example/preview/1008", "description": "About item 1008.", "published_at": "2025-02-11T23:44:45Z", "sub_category": "Icons"}', '2026-11-23 02:51:43.242+00');
INSERT INTO mirror.items VALUES ('main', 1009, 'Vivid Player 1009', 'About item 1009.', 'Graphics', 'Vectors', '{}', '1.4.4', 'https://demo.example/preview/1009', '{shop,responsive,"dark mode",saas}', 'https://storage.marketplace.example/items/1009/thumbnail.png', NULL, NULL, 'https://storage.marketplace.example/items/1009/preview.mp3', '{https://storage.marketplace.example/items/1009/screenshot-1.jpg}', 66.46, 333.12, 'USD', '2017-08-14 14:24:53+00', 'removed', '2026-11-23 02:46:02.127+00', '2026-11-23 02:51:43.242+00', '2026-11-23 02:51:43.242+00', 13, '\x6ec74e1147f7348944b2c402392f66597c8db45c8a363576c24697e394516e25', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x3debb98e43fc18d8', '{}', '{"id": 1009, "name": "Vivid Player 1009", "tags": ["shop", "responsive", "dark mode", "saas"], "media": {"thumbnail": "https://storage.marketplace.example/items/1009/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1009/screenshot-1.jpg"], "preview_audio": "https://storage.marketplace.example/items/1009/preview.mp3"}, "price": {"regular": 66.46, "extended": 333.12}, "options": [], "version": "1.4.4", "category": "Graphics", "currency": "USD", "demo_link": "https://demo.example/preview/1009", "description": "About item 1009.", "published_at": "2017-08-14T14:24:53Z", "sub_category": "Vectors"}', '2026-11-23 02:51:43.242+00');
INSERT INTO mirror.items VALUES ('main', 1013, 'Nordic Landing Page 1013', 'About item 1013.', 'Themes', 'Portfolio', '{}', '2.2.10', 'https://demo.example/preview/1013', '{shop,responsive,"dark mode",saas}', 'https://storage.marketplace.example/items/1013/thumbnail.png', 'https://storage.marketplace.example/items/1013/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1013/screenshot-1.jpg}', 54.99, 275.43, 'USD', '2024-01-23 16:53:48+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 15, '\xba213d8e9a80628c87eb14dfcc6e43bc1e41fe97d98932d4d9fe70227e3883cb', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\xe837609e2d6cbb4a', '{}', '{"id": 1013, "name": "Nordic Landing Page 1013", "tags": ["shop", "responsive", "dark mode", "saas"], "media": {"thumbnail": "https://storage.marketplace.example/items/1013/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1013/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1013/preview.jpg"}, "price": {"regular": 54.99, "extended": 275.43}, "options": [], "version": "2.2.10", "category": "Themes", "currency": "USD", "demo_link": "https://demo.example/preview/1013", "description": "About item 1013.", "published_at": "2024-01-23T16:53:48Z", "sub_category": "Portfolio"}', '2026-11-23 02:51:48.565+00');
INSERT INTO mirror.items VALUES ('main', 1014, 'Pure Dashboard 1014', 'About item 1014.', 'Graphics', 'Logos', '{"Framework: Laravel","Browsers: Firefox","Browsers: Safari"}', '4.1.9', 'https://demo.example/preview/1014', '{rtl}', 'https://storage.marketplace.example/items/1014/thumbnail.png', 'https://storage.marketplace.example/items/1014/preview.jpg', NULL, NULL, '{https://storage.marketplace.example/items/1014/screenshot-3.jpg,https://storage.marketplace.example/items/1014/screenshot-2.jpg,https://storage.marketplace.example/items/1014/screenshot-1.jpg}', 51.82, 259.13, 'USD', '2020-05-10 02:59:08+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 15, '\x98ee36bc96703c44470476acf40cd8ad0576b6d0802a2c580ecc380209bb5d26', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\x176cb899bf5442ec', '{}', '{"id": 1014, "name": "Pure Dashboard 1014", "tags": ["rtl"], "media": {"thumbnail": "https://storage.marketplace.example/items/1014/thumbnail.png", "screenshots": ["https://storage.marketplace.example/items/1014/screenshot-3.jpg", "https://storage.marketplace.example/items/1014/screenshot-2.jpg", "https://storage.marketplace.example/items/1014/screenshot-1.jpg"], "preview_image": "https://storage.marketplace.example/items/1014/preview.jpg"}, "price": {"regular": 51.82, "extended": 259.13}, "options": ["Framework: Laravel", "Browsers: Firefox", "Browsers: Safari"], "version": "4.1.9", "category": "Graphics", "currency": "USD", "demo_link": "https://demo.example/preview/1014", "description": "About item 1014.", "published_at": "2020-05-10T02:59:08Z", "sub_category": "Logos"}', '2026-11-23 02:51:48.565+00');
INSERT INTO mirror.items VALUES ('main', 1015, 'Swift Icon Set 1015', 'About item 1015.', 'Themes', 'Blog', '{}', NULL, 'https://demo.example/preview/1015', '{admin}', 'https://storage.marketplace.example/items/1015/thumbnail.png', 'https://storage.marketplace.example/items/1015/preview.jpg', NULL, NULL, '{}', 83.40, 417.63, 'USD', '2020-09-16 09:29:22+00', 'missing', '2026-11-23 02:46:02.127+00', '2026-11-23 02:46:02.127+00', NULL, 15, '\xe062e3c7eb13a8d23b9e529c56074ba02f55b2768991c726b18706596218ac59', '\x4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945', '\xf579668a2400c74e', '{}', '{"id": 1015, "name": "Swift Icon Set 1015", "tags": ["admin"], "media": {"thumbnail": "https://storage.marketplace.example/items/1015/thumbnail.png", "preview_image": "https://storage.marketplace.example/items/1015/preview.jpg"}, "price": {"regular": 83.40, "extended": 417.63}, "options": [], "category": "Themes", "currency": "USD", "demo_link": "https://demo.example/preview/1015", "description": "About item 1015.", "published_at": "2020-09-16T09:29:22Z", "sub_category": "Blog"}', '2026-11-23 02:51:48.565+00');
INSERT INTO mirror.purchase_codes VALUES (4, 'main', 'made-up-1', 'invalid', 'canary', '2026-11-23 02:46:12.906+00', '2026-11-23 02:46:12.906+00', '2026-11-23 02:46:12.906+00', 5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, 15);
INSERT INTO mirror.purchase_codes VALUES (2, 'main', '5c6ab7f4039eba395b791e0e249dd2f2e9ffb', 'valid', 'purchase', '2026-11-23 02:46:12.81+00', '2026-11-23 02:46:12.81+00', '2026-11-23 02:46:16.676+00', 6, '2026-11-23 02:46:16.676+00', '5c6ab7f4039eba395b791e0e249dd2f2e9ffb', 'Regular', 83.40, 'USD', 1015, 'Swift Icon Set 1015', NULL, 'https://storage.marketplace.example/items/1015/preview.jpg', true, '2025-10-30 05:44:13+00', true, '2025-05-03 05:44:13+00', '{"date": "2025-05-03T05:44:13Z", "price": 83.4, "currency": "USD", "downloaded": true, "license_type": "Regular", "purchase_code": "5c6ab7f4039eba395b791e0e249dd2f2e9ffb", "supported_until": "2025-10-30T05:44:13Z"}', 16);
INSERT INTO mirror.purchase_codes VALUES (5, 'main', '66471f3bdc6da7af5befdbde1ae851b649139', 'valid', 'purchase', '2026-11-23 02:46:12.849+00', '2026-11-23 02:46:12.849+00', '2026-11-23 02:46:16.689+00', 7, '2026-11-23 02:46:16.689+00', '66471f3bdc6da7af5befdbde1ae851b649139', 'Regular', 74.93, 'USD', 1004, 'Vivid Shop Theme 1004', NULL, 'https://storage.marketplace.example/items/1004/preview.jpg', true, NULL, false, '2024-10-19 10:30:04+00', '{"date": "2024-10-19T10:30:04Z", "price": 74.93, "currency": "USD", "downloaded": false, "license_type": "Regular", "purchase_code": "66471f3bdc6da7af5befdbde1ae851b649139"}', 17);
INSERT INTO mirror.purchase_codes VALUES (1, 'main', 'eb9db4c8697a6ae5361d841a013c083262d32', 'valid', 'purchase', '2026-11-23 02:46:12.87+00', '2026-11-23 02:46:12.87+00', '2026-11-23 02:46:16.702+00', 8, '2026-11-23 02:46:16.702+00', 'eb9db4c8697a6ae5361d841a013c083262d32', 'Regular', 8.33, 'USD', 1016, 'Modern Landing Page 1016', NULL, 'https://storage.marketplace.example/items/1016/preview.jpg', true, '2026-07-15 17:46:50+00', false, '2026-01-16 17:46:50+00', '{"date": "2026-01-16T17:46:50Z", "price": 8.33, "currency": "USD", "downloaded": false, "license_type": "Regular", "purchase_code": "eb9db4c8697a6ae5361d841a013c083262d32", "supported_until": "2026-07-15T17:46:50Z"}', 18);
INSERT INTO mirror.purchase_codes VALUES (3, 'main', 'ba21a00133a59a24bf560d490bcb87d8b7dc7', 'invalid', 'canary', '2026-11-23 02:46:16.831+00', '2026-11-23 02:46:12.869+00', '2026-11-23 02:46:16.831+00', 9, '2026-11-23 02:46:12.869+00', 'ba21a00133a59a24bf560d490bcb87d8b7dc7', 'Regular', 8.33, 'USD', 1016, 'Modern Landing Page 1016', NULL, 'https://storage.marketplace.example/items/1016/preview.jpg', true, NULL, true, '2025-11-01 08:19:38+00', '{"date": "2025-11-01T08:19:38Z", "price": 8.33, "currency": "USD", "downloaded": true, "license_type": "Regular", "purchase_code": "ba21a00133a59a24bf560d490bcb87d8b7dc7"}', 19);
INSERT INTO mirror.purchase_codes VALUES (6, 'main', 'ee7e0de72a2b6c61c5b91447f363d5a0ee7b9', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mirror.purchase_codes VALUES (7, 'main', '605b35955bb59ce68603e41b99d2bdb9364da', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mirror.purchase_codes VALUES (8, 'main', 'f8da95c32333aef26be4c1ea640a0ef057920', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mirror.purchase_codes VALUES (9, 'main', 'b9566f0da4a970e0c1c8f40e737593325a9b7', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mirror.purchase_codes VALUES (10, 'main', 'fe7bd2ded5e0a31eb544fe72068ea614a8a97', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL);
INSERT INTO mirror.quarantine VALUES (1, 'main', NULL, 'is no object: "not an item"', '"not an item"', '\xe6d1b0418fb02c87b3e2887a88d7767d7841de4ffb3efe3cad68941443f3da19', 10, 19, '2026-11-23 02:46:08.471+00', '2026-11-23 02:51:53.493+00');
INSERT INTO mirror.request_budgets VALUES ('127.0.0.1:18080', '2026-11-23 02:51:56.511851+00', '1970-01-01 00:00:00+00', '1970-01-01 00:00:00+00');
INSERT INTO mirror.runs VALUES (1, 'main', 'account', 'succeeded', '2026-11-23 02:46:01.877046+00', '2026-11-23 02:46:02.053077+00', 'sync (process 27857 on example)', 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (2, 'main', 'catalogue', 'succeeded', '2026-11-23 02:46:02.127751+00', '2026-11-23 02:46:02.429932+00', 'sync (process 27857 on example)', 16, 16, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9773, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (3, 'second', 'account', 'succeeded', '2026-11-23 02:46:02.459351+00', '2026-11-23 02:46:02.502928+00', 'sync (process 27857 on example)', 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (12, 'main', 'catalogue', 'held', '2026-11-23 02:51:41.101075+00', '2026-11-23 02:51:41.774401+00', 'sync (process 6753 on example)', 12, 0, 0, 0, 11, 0, 4, 0, 1, 0, 11, 6702, '{}', '{"held: 4 of 15 items are no longer listed (1007 Cozy Player 1007, 1008 Modern Landing Page 1008, 1009 Vivid Player 1009 and 1 more), more than the removal guard allows; the marketplace denies 3 of them, what became of the others is not proven; present items are mirrored and nothing was removed","1 of 12 records could not be read and are in mirror.quarantine, the first because: is no object: \"not an item\""}', NULL, NULL, NULL, '{}', 13, NULL, '2026-11-23 02:51:43.24891+00', 'root on vm', 'approved', 15, '{}');
INSERT INTO mirror.runs VALUES (4, 'second', 'catalogue', 'succeeded', '2026-11-23 02:46:02.506531+00', '2026-11-23 02:46:02.553969+00', 'sync (process 27857 on example)', 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1230, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (5, 'main', 'account', 'succeeded', '2026-11-23 02:46:04.800649+00', '2026-11-23 02:46:04.955732+00', 'sync (process 27928 on example)', 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (13, 'main', 'approval', 'succeeded', '2026-11-23 02:51:43.242937+00', '2026-11-23 02:51:43.24891+00', 'approve (process 6798 on example)', 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, '{}', '{"approved by root on vm: what run 12 held back"}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (6, 'main', 'catalogue', 'succeeded', '2026-11-23 02:46:05.092061+00', '2026-11-23 02:46:05.951997+00', 'sync (process 27928 on example)', 14, 0, 2, 0, 12, 0, 0, 2, 0, 0, 7, 8506, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (7, 'second', 'account', 'succeeded', '2026-11-23 02:46:05.973585+00', '2026-11-23 02:46:05.987544+00', 'sync (process 27928 on example)', 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (8, 'second', 'catalogue', 'succeeded', '2026-11-23 02:46:05.994508+00', '2026-11-23 02:46:06.006714+00', 'sync (process 27928 on example)', 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 1230, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (9, 'main', 'account', 'succeeded', '2026-11-23 02:46:08.269216+00', '2026-11-23 02:46:08.377929+00', 'sync (process 28001 on example)', 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (16, 'main', 'item', 'succeeded', '2026-11-23 02:51:50.445599+00', '2026-11-23 02:51:50.591266+00', 'sync (process 6934 on example)', 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, '{}', '{}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (10, 'main', 'catalogue', 'succeeded', '2026-11-23 02:46:08.471787+00', '2026-11-23 02:46:08.769133+00', 'sync (process 28001 on example)', 15, 0, 0, 0, 13, 1, 1, 0, 1, 0, 2, 8570, '{}', '{"1 of 15 records could not be read and are in mirror.quarantine, the first because: is no object: \"not an item\"","1 unlisted items are kept as missing: what became of them is not proven"}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (11, 'second', 'catalogue', 'failed', '2026-11-23 02:51:38.889085+00', '2026-11-23 02:51:38.982622+00', 'sync (process 6725 on example)', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, '{}', '{}', 'unavailable', 'a web page came where JSON was due: Welcome Welcome', NULL, '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (14, 'main', 'catalogue', 'held', '2026-11-23 02:51:44.871008+00', '2026-11-23 02:51:45.653086+00', 'sync (process 6860 on example)', 9, 0, 0, 0, 8, 0, 4, 0, 1, 0, 11, 4875, '{}', '{"held: 3 of 12 items are no longer listed (1010 Vivid Shop Theme 1010, 1011 Bold Landing Page 1011, 1012 Pure Player 1012), more than the removal guard allows; the marketplace denies each of them; present items are mirrored and nothing was removed","1 of 9 records could not be read and are in mirror.quarantine, the first because: is no object: \"not an item\""}', NULL, NULL, NULL, '{}', NULL, NULL, '2026-11-23 02:51:47.094648+00', 'root on vm', 'rejected', 12, '{}');
INSERT INTO mirror.runs VALUES (17, 'main', 'account', 'succeeded', '2026-11-23 02:51:53.342393+00', '2026-11-23 02:51:53.415264+00', 'run (process 6974 on example)', 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, '{}', '{}', NULL, NULL, 'sync.main.20261123T025153Z', '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (18, 'second', 'account', 'failed', '2026-11-23 02:51:53.364002+00', '2026-11-23 02:51:53.451979+00', 'run (process 6974 on example)', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, '{}', '{}', 'refused', 'the marketplace refused the API key: "Invalid request" (HTTP 401)', 'sync.second.20261123T025153Z', '{}', NULL, NULL, NULL, NULL, NULL, NULL, '{}');
INSERT INTO mirror.runs VALUES (15, 'main', 'catalogue', 'held', '2026-11-23 02:51:48.565061+00', '2026-11-23 02:51:49.279035+00', 'sync (process 6920 on example)', 6, 0, 0, 0, 5, 0, 7, 0, 1, 0, 17, 3076, '{}', '{"held: 3 of 12 items are no longer listed (1013 Nordic Landing Page 1013, 1014 Pure Dashboard 1014, 1015 Swift Icon Set 1015), more than the removal guard allows; the marketplace denies each of them; present items are mirrored and nothing was removed","1 of 6 records could not be read and are in mirror.quarantine, the first because: is no object: \"not an item\""}', NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, 12, '{}');
INSERT INTO mirror.runs VALUES (19, 'main', 'catalogue', 'held', '2026-11-23 02:51:53.493434+00', '2026-11-23 02:51:54.154671+00', 'run (process 6974 on example)', 6, 0, 0, 0, 5, 0, 7, 0, 1, 0, 16, 3076, '{}', '{"held: 3 of 12 items are no longer listed (1013 Nordic Landing Page 1013, 1014 Pure Dashboard 1014, 1015 Swift Icon Set 1015), more than the removal guard allows; the marketplace denies each of them; present items are mirrored and nothing was removed","1 of 6 records could not be read and are in mirror.quarantine, the first because: is no object: \"not an item\""}', NULL, NULL, 'sync.main.20261123T025153Z', '{}', NULL, NULL, NULL, NULL, NULL, 12, '{}');
INSERT INTO mirror.schedules VALUES ('main', 'sync', '* * * * * *', 'Europe/Berlin', '2026-11-23 02:51:53+00', '2026-11-23 02:51:53.217+00');
INSERT INTO mirror.schedules VALUES ('second', 'sync', '* * * * * *', 'Europe/Berlin', '2026-11-23 02:51:53+00', '2026-11-23 02:51:53.217+00');
INSERT INTO mirror.sellers VALUES ('second', '127.0.0.1:18080', 'grace', '2026-11-23 02:46:02.493989+00', '2026-11-23 02:46:02.443473+00', '2026-11-23 02:51:53.476658+00', 'refused', 'the marketplace refused the API key: "Invalid request" (HTTP 401)', 18, 4, 2, NULL);
INSERT INTO mirror.sellers VALUES ('main', '127.0.0.1:18080', 'ada', '2026-11-23 02:46:02.00067+00', '2026-11-23 02:46:01.85133+00', NULL, NULL, NULL, NULL, 2, 1, NULL);
SELECT pg_catalog.setval('mirror.audits_audit_id_seq', 5, true);
SELECT pg_catalog.setval('mirror.code_checks_check_id_seq', 14, true);
SELECT pg_catalog.setval('mirror.code_transitions_seq_seq', 1, true);
SELECT pg_catalog.setval('mirror.item_changes_seq_seq', 31, true);
SELECT pg_catalog.setval('mirror.purchase_codes_code_id_seq', 10, true);
SELECT pg_catalog.setval('mirror.quarantine_quarantine_id_seq', 5, true);
SELECT pg_catalog.setval('mirror.runs_run_id_seq', 19, true);
ALTER TABLE ONLY mirror._prisma_migrations
    ADD CONSTRAINT _prisma_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mirror.account_versions
    ADD CONSTRAINT account_versions_pkey PRIMARY KEY (seller_id, valid_from);
ALTER TABLE ONLY mirror.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (seller_id);
ALTER TABLE ONLY mirror.audit_chunks
    ADD CONSTRAINT audit_chunks_pkey PRIMARY KEY (audit_id, chunk);
ALTER TABLE ONLY mirror.audit_codes
    ADD CONSTRAINT audit_codes_pkey PRIMARY KEY (audit_id, "position");
ALTER TABLE ONLY mirror.audit_entries
    ADD CONSTRAINT audit_entries_pkey PRIMARY KEY (audit_id, entry);
ALTER TABLE ONLY mirror.audits
    ADD CONSTRAINT audits_pkey PRIMARY KEY (audit_id);
ALTER TABLE ONLY mirror.code_checks
    ADD CONSTRAINT code_checks_pkey PRIMARY KEY (check_id);
ALTER TABLE ONLY mirror.code_transitions
    ADD CONSTRAINT code_transitions_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY mirror.held_items
    ADD CONSTRAINT held_items_pkey PRIMARY KEY (run_id, item_id);
ALTER TABLE ONLY mirror.item_changes
    ADD CONSTRAINT item_changes_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY mirror.item_lookups
    ADD CONSTRAINT item_lookups_pkey PRIMARY KEY (seller_id, item_id);
ALTER TABLE ONLY mirror.item_versions
    ADD CONSTRAINT item_versions_pkey PRIMARY KEY (seller_id, item_id, valid_from);
ALTER TABLE ONLY mirror.items
    ADD CONSTRAINT items_pkey PRIMARY KEY (seller_id, item_id);
ALTER TABLE ONLY mirror.processes
    ADD CONSTRAINT processes_pkey PRIMARY KEY (process_id);
ALTER TABLE ONLY mirror.purchase_codes
    ADD CONSTRAINT purchase_codes_pkey PRIMARY KEY (code_id);
ALTER TABLE ONLY mirror.quarantine
    ADD CONSTRAINT quarantine_pkey PRIMARY KEY (quarantine_id);
ALTER TABLE ONLY mirror.request_budgets
    ADD CONSTRAINT request_budgets_pkey PRIMARY KEY (host);
ALTER TABLE ONLY mirror.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY mirror.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (seller_id, kind);
ALTER TABLE ONLY mirror.sellers
    ADD CONSTRAINT sellers_pkey PRIMARY KEY (seller_id);
CREATE INDEX audits_seller_id_audit_id_idx ON mirror.audits USING btree (seller_id, audit_id DESC);
CREATE INDEX code_checks_code_id_check_id_idx ON mirror.code_checks USING btree (code_id, check_id);
CREATE INDEX code_transitions_code_id_seq_idx ON mirror.code_transitions USING btree (code_id, seq);
CREATE INDEX code_transitions_happened_at_idx ON mirror.code_transitions USING brin (happened_at);
CREATE INDEX code_transitions_seller_id_seq_idx ON mirror.code_transitions USING btree (seller_id, seq);
CREATE INDEX held_items_seller_id_item_id_idx ON mirror.held_items USING btree (seller_id, item_id);
CREATE INDEX item_changes_changed_at_idx ON mirror.item_changes USING brin (changed_at);
CREATE INDEX item_changes_class_seq_idx ON mirror.item_changes USING btree (class, seq);
CREATE INDEX item_changes_currency_idx ON mirror.item_changes USING btree (seller_id, item_id, seq) WHERE (field = 'currency'::text);
CREATE INDEX item_changes_seller_id_item_id_seq_idx ON mirror.item_changes USING btree (seller_id, item_id, seq);
CREATE INDEX item_changes_state_idx ON mirror.item_changes USING btree (seller_id, changed_at, class, old_value, new_value) WHERE (field = 'state'::text);
CREATE INDEX item_versions_valid_to_valid_from_idx ON mirror.item_versions USING btree (valid_to, valid_from);
CREATE INDEX items_seller_id_state_changed_at_idx ON mirror.items USING btree (seller_id, state, changed_at);
CREATE INDEX purchase_codes_changed_seq_idx ON mirror.purchase_codes USING btree (changed_seq) WHERE (changed_seq IS NOT NULL);
CREATE INDEX purchase_codes_odd_sales_idx ON mirror.purchase_codes USING btree (seller_id, item_id) WHERE ((verdict = 'valid'::mirror.code_verdict) AND (octet_length(COALESCE(currency, ''::text)) > 64));
CREATE INDEX purchase_codes_respelled_idx ON mirror.purchase_codes USING btree (seller_id, answered_code, code_id) WHERE ((verdict = 'valid'::mirror.code_verdict) AND (answered_code <> code));
CREATE INDEX purchase_codes_sales_idx ON mirror.purchase_codes USING btree (seller_id, item_id, currency, price, purchased_at, supported_until, code_id) WHERE ((verdict = 'valid'::mirror.code_verdict) AND (octet_length(COALESCE(currency, ''::text)) <= 64));
CREATE UNIQUE INDEX purchase_codes_seller_id_code_key ON mirror.purchase_codes USING btree (seller_id, code);
CREATE INDEX purchase_codes_seller_id_verdict_last_checked_at_idx ON mirror.purchase_codes USING btree (seller_id, verdict, last_checked_at) WHERE (last_checked_at IS NOT NULL);
CREATE UNIQUE INDEX quarantine_seller_id_raw_hash_key ON mirror.quarantine USING btree (seller_id, raw_hash);
CREATE INDEX runs_seller_id_kind_run_id_idx ON mirror.runs USING btree (seller_id, kind, run_id DESC);
CREATE TRIGGER enter_purchase_feed BEFORE INSERT OR UPDATE ON mirror.purchase_codes FOR EACH STATEMENT EXECUTE FUNCTION mirror.enter_purchase_feed();
CREATE TRIGGER keep_checked_code BEFORE DELETE ON mirror.purchase_codes FOR EACH ROW EXECUTE FUNCTION mirror.keep_checked_code();
CREATE TRIGGER number_inserted_purchase BEFORE INSERT ON mirror.purchase_codes FOR EACH ROW WHEN (((new.verdict IS NOT NULL) AND (new.changed_seq IS NULL))) EXECUTE FUNCTION mirror.number_purchase();
CREATE TRIGGER number_updated_purchase BEFORE UPDATE ON mirror.purchase_codes FOR EACH ROW WHEN (((NOT (new.changed_seq IS DISTINCT FROM old.changed_seq)) AND (NOT ((new.raw IS NULL) AND (old.raw IS NOT NULL))))) EXECUTE FUNCTION mirror.number_purchase();
ALTER TABLE ONLY mirror.accounts
    ADD CONSTRAINT accounts_seller_id_fkey FOREIGN KEY (seller_id) REFERENCES mirror.sellers(seller_id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE ONLY mirror.audit_chunks
    ADD CONSTRAINT audit_chunks_audit_id_fkey FOREIGN KEY (audit_id) REFERENCES mirror.audits(audit_id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE ONLY mirror.audits
    ADD CONSTRAINT audits_seller_id_fkey FOREIGN KEY (seller_id) REFERENCES mirror.sellers(seller_id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE ONLY mirror.held_items
    ADD CONSTRAINT held_items_run_id_fkey FOREIGN KEY (run_id) REFERENCES mirror.runs(run_id) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY mirror.item_lookups
    ADD CONSTRAINT item_lookups_seller_id_fkey FOREIGN KEY (seller_id) REFERENCES mirror.sellers(seller_id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE ONLY mirror.items
    ADD CONSTRAINT items_seller_id_fkey FOREIGN KEY (seller_id) REFERENCES mirror.sellers(seller_id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE ONLY mirror.quarantine
    ADD CONSTRAINT quarantine_seller_id_fkey FOREIGN KEY (seller_id) REFERENCES mirror.sellers(seller_id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE ONLY mirror.runs
    ADD CONSTRAINT runs_seller_id_fkey FOREIGN KEY (seller_id) REFERENCES mirror.sellers(seller_id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE ONLY mirror.schedules
    ADD CONSTRAINT schedules_seller_id_fkey FOREIGN KEY (seller_id) REFERENCES mirror.sellers(seller_id) ON UPDATE CASCADE ON DELETE RESTRICT;
